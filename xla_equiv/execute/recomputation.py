"""What a traced module computes twice: the mark that checkpointing leaves, before the optimiser sees it."""

import hashlib
import re
from collections import Counter

from xla_equiv.execute.hlo_instructions import OPERAND, Instruction, computations, live
from xla_equiv.values.graph import BARRIER

REARRANGING = frozenset(
    ["bitcast", "broadcast", "constant", "convert", "copy", "get-tuple-element", "iota", "parameter", "reshape", "slice", "transpose", "tuple"]
)
"""Opcodes that compute nothing; they are not counted."""

ALWAYS_NEW = re.compile(
    "rng|rng-bit-generator|rng-get-and-update-state|infeed|outfeed|send.*|recv.*|custom-call|conditional|parameter"
    "|all-(reduce|gather|to-all).*|reduce-scatter.*|collective-.*"
)
"""Opcodes of which no two are the same, whatever they take."""


ELIDED = "{...}"
"""What XLA writes for the values of a large constant: two of them need not be the same."""


def recomputed(text: str) -> Counter[str]:
    """Return opcode -> how many instructions behind an optimization barrier repeat one that stands before it.

    Two instructions are the same when opcode, type, attributes and operands are, a barrier being transparent:
    what common subexpression elimination would merge if there were no barrier.

    Args:
        text: an HLO module before optimisation.
    """
    if f" {BARRIER}(" not in text:
        return Counter()
    found: Counter[str] = Counter()
    bodies = {name: _digest("\n".join(_text(one) for one in body)) for name, body in computations(text)}
    for _, body in computations(text):
        found.update(_repeated(live(body), bodies))
    return found


def _repeated(body: list[Instruction], bodies: dict[str, str]) -> Counter[str]:
    values: dict[str, str] = {}
    elements: dict[str, tuple[str, ...]] = {}
    is_behind: dict[str, bool] = {}
    first: set[str] = set()
    found: Counter[str] = Counter()
    for one in body:
        is_behind[one.name] = one.opcode == BARRIER or any(is_behind.get(name, False) for name in one.operands)
        value = _value(one, values, elements, bodies)
        values[one.name] = value
        if one.opcode == "tuple":
            elements[value] = tuple(values.get(name, name) for name in one.operands)
        if one.opcode not in REARRANGING and one.opcode != BARRIER:
            if not is_behind[one.name]:
                first.add(value)
            elif value in first:
                found[one.opcode] += 1
    return found


def _value(
    one: Instruction, values: dict[str, str], elements: dict[str, tuple[str, ...]], bodies: dict[str, str]
) -> str:
    """Return what identifies the value of `one`: a name, or a digest of how it is computed."""
    if ALWAYS_NEW.fullmatch(one.opcode) or (one.opcode == "constant" and ELIDED in one.arguments):
        return one.name
    operands = [values.get(name, name) for name in one.operands]
    if one.opcode == BARRIER and len(operands) == 1:
        return operands[0]
    if one.opcode == "get-tuple-element" and operands[0] in elements:
        return elements[operands[0]][one.index]
    attributes = OPERAND.sub(lambda found: bodies.get(found.group(1), found.group()), one.attributes)
    constant = one.arguments if one.opcode == "constant" else ""
    return _digest(f"{one.opcode} {one.type} {' '.join(operands)} {attributes} {constant}")


def _text(one: Instruction) -> str:
    """Return `one` without names, good enough to tell one small computation from another."""
    return f"{one.type} {one.opcode} {OPERAND.sub('', one.arguments)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
