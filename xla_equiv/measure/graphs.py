"""How the compiled graphs of two runs differ."""

from collections import Counter

from xla_equiv.values.graph import GraphFacts

MOST_NAMED = 6
"""Opcodes that are named; the others are counted."""


def graph_difference(reference: GraphFacts, candidate: GraphFacts) -> str:
    """Return how the modules of `candidate` differ from those of `reference`; '' when they do not, or one has none.

    Modules are the same when they have the same instructions, types and attributes, whatever their names.

    >>> from xla_equiv.values.graph import ModuleFacts
    >>> one, two = (GraphFacts((ModuleFacts(str(n), {"add": 1}, (), traced={"reshape": n}),)) for n in (1, 5))
    >>> graph_difference(one, two)
    'candidate has 4 more reshape (traced)'
    """
    if not reference.modules or not candidate.modules or reference.fingerprints == candidate.fingerprints:
        return ""
    parts = [
        text
        for kind, name in (("traced", "traced"), ("optimised", "opcodes"))
        if (text := _more_and_fewer(reference.total(name), candidate.total(name), kind))
    ]
    return "; ".join(parts) or "the graphs have the same opcodes, and differ in types, attributes or how they are joined"


def _more_and_fewer(reference: Counter[str], candidate: Counter[str], kind: str) -> str:
    """Return "candidate has 4 more reshape, 2 fewer add KIND"; '' when there is nothing to say or to compare."""
    if not reference or not candidate:
        return ""
    changes = {opcode: candidate[opcode] - reference[opcode] for opcode in reference | candidate}
    largest = sorted((opcode for opcode in changes if changes[opcode]), key=lambda one: (-abs(changes[one]), one))
    if not largest:
        return ""
    named = [f"{abs(changes[one])} {'more' if changes[one] > 0 else 'fewer'} {one}" for one in largest[:MOST_NAMED]]
    rest = len(largest) - len(named)
    return f"candidate has {', '.join(named)}{f' and other counts of {rest} opcodes' if rest else ''} ({kind})"
