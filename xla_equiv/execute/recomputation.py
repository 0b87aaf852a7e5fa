"""What a traced module computes twice: the mark that checkpointing leaves, before the optimiser sees it."""

import hashlib
import re
from collections import Counter

from xla_equiv.execute.hlo_instructions import COLLECTIVE, OPERAND, Instruction, computations, live
from xla_equiv.values.graph import BARRIER

REARRANGING = re.compile(
    "bitcast|broadcast|constant|convert|copy|get-tuple-element|iota|opt-barrier|parameter|reshape|slice|transpose|tuple"
)
"""Opcodes that compute nothing; they are not counted."""

ALWAYS_NEW = re.compile(
    "rng|rng-bit-generator|rng-get-and-update-state|infeed|outfeed|send.*|recv.*|custom-call|conditional|parameter"
)
"""Opcodes of which no two are the same, whatever they take."""

CHANNEL = re.compile(r", channel_id=\d+")
"""Which collective it is."""

ELIDED = "{...}"
"""What XLA writes for the values of a large constant: two of them need not be the same."""


def recomputed(text: str) -> Counter[str]:
    """Return opcode -> how many instructions repeat one that stands before, and are kept apart by a barrier.

    Two instructions are the same when opcode, type, attributes and operands are, optimization barriers being
    transparent: what common subexpression elimination would merge if there were none. Those that it merges in spite
    of the barriers are not counted.

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
    through, apart = _Values(bodies, sees_barriers=False), _Values(bodies, sees_barriers=True)
    found: Counter[str] = Counter()
    for one in body:
        is_repeated, is_merged = through.take(one), apart.take(one)
        is_counted = not REARRANGING.fullmatch(one.opcode) and not COLLECTIVE.fullmatch(one.opcode)
        if is_counted and is_repeated and not is_merged:
            found[one.opcode] += 1
    return found


class _Values:
    """Numbers the instructions of a computation by value: a name, or a digest of how it is computed.

    Args:
        bodies: name of each computation -> digest.
        sees_barriers: whether what stands behind a barrier is another value, and each collective a new one: two that
            take the same give the same, and yet no compiler merges them.
    """

    def __init__(self, bodies: dict[str, str], *, sees_barriers: bool) -> None:
        self._bodies, self._sees_barriers = bodies, sees_barriers
        self._of: dict[str, str] = {}
        self._elements: dict[str, tuple[str, ...]] = {}
        self._seen: set[str] = set()

    def take(self, one: Instruction) -> bool:
        """Number `one`, and return whether an instruction before it has the same value."""
        value = self._value(one)
        self._of[one.name] = value
        if one.opcode == "tuple":
            self._elements[value] = tuple(self._of.get(name, name) for name in one.operands)
        is_repeated = value in self._seen
        self._seen.add(value)
        return is_repeated

    def _value(self, one: Instruction) -> str:
        if ALWAYS_NEW.fullmatch(one.opcode) or (one.opcode == "constant" and ELIDED in one.arguments):
            return one.name
        if self._sees_barriers and (one.opcode == BARRIER or COLLECTIVE.fullmatch(one.opcode)):
            return one.name
        operands = [self._of.get(name, name) for name in one.operands]
        if one.opcode == BARRIER and len(operands) == 1:
            return operands[0]
        if one.opcode == "get-tuple-element" and operands[0] in self._elements:
            return self._elements[operands[0]][one.index]
        attributes = OPERAND.sub(lambda found: self._bodies.get(found.group(1), found.group()), CHANNEL.sub("", one.attributes))
        constant = one.arguments if one.opcode == "constant" else ""
        return _digest(f"{one.opcode} {one.type} {' '.join(operands)} {attributes} {constant}")


def _text(one: Instruction) -> str:
    """Return `one` without names, good enough to tell one small computation from another."""
    return f"{one.type} {one.opcode} {OPERAND.sub('', one.arguments)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
