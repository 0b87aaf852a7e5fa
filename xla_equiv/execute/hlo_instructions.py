"""The instructions of an HLO module, read from XLA's own text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from xla_equiv.values.graph import BARRIER

COLLECTIVE = re.compile("(all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(-start|-done)?")
"""Opcodes that exchange between devices; `-start` and `-done` are the halves of one."""

METADATA = re.compile(r", metadata=\{[^}]*\}")
HEAD = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) .*\{$")
INDEX = re.compile(r"index=(\d+)")
LINE = re.compile(r"^\s+(ROOT )?%([\w.\-]+) = (.*?[\]})]) ([a-z][a-z0-9\-]*)\((.*)$")
OPERAND = re.compile(r"%([\w.\-]+)")


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Args:
        name: unique in its module.
        type: as written, such as `f32[16,64]{1,0}`.
        opcode: such as `dot`.
        operands: names of the instructions that it takes, in order.
        arguments: its whole text after the opening parenthesis, without metadata.
        is_root: whether it is the result of its computation.
    """

    name: str
    type: str
    opcode: str
    operands: tuple[str, ...]
    arguments: str
    is_root: bool = False

    @property
    def index(self) -> int:
        """Return which element of its operand a `get-tuple-element` takes."""
        found = INDEX.search(self.attributes)
        assert found
        return int(found.group(1))

    @property
    def element_type(self) -> str:
        """Return the type of an element of its result, '' of a tuple."""
        return self.type.partition("[")[0] if not self.type.startswith("(") else ""

    @property
    def attributes(self) -> str:
        """Return what follows the operands."""
        return self.arguments[_end_of_operands(self.arguments) :]


def computations(text: str) -> Iterator[tuple[str, list[Instruction]]]:
    """Yield (name, its instructions in order) for each computation of the module `text`."""
    computation = ""
    found: list[Instruction] = []
    for line in METADATA.sub("", text).splitlines():
        if head := HEAD.match(line):
            computation, found = head.group(1), []
        elif line.startswith("}"):
            yield computation, found
            found = []
        elif parts := LINE.match(line):
            arguments = parts.group(5)
            operands = tuple(OPERAND.findall(arguments[: _end_of_operands(arguments)]))
            root, name, kind, opcode, _ = parts.groups()
            found.append(Instruction(name, kind, opcode, operands, arguments, is_root=root is not None))
    if found:
        yield computation, found


def live(body: list[Instruction]) -> list[Instruction]:
    """Return the instructions of a computation that its result depends on, in order.

    An optimization barrier and a tuple pass their elements on one by one: an element that nobody takes is dead.
    """
    named = {one.name: one for one in body}
    wanted: list[tuple[str, int | None]] = [(one.name, None) for one in body if one.is_root]
    seen = set()
    while wanted:
        name, element = wanted.pop()
        one = named.get(name)
        if one is None or (name, element) in seen:
            continue
        seen.add((name, element))
        if one.opcode == "get-tuple-element":
            wanted.append((one.operands[0], one.index))
        elif one.opcode == BARRIER:
            wanted += [(operand, element) for operand in one.operands]
        elif one.opcode == "tuple" and element is not None:
            wanted.append((one.operands[element], None))
        else:
            wanted += [(operand, None) for operand in one.operands]
    kept = {name for name, _ in seen}
    return [one for one in body if one.name in kept]


def _end_of_operands(arguments: str) -> int:
    """Return where the parenthesis closes that was open before `arguments`."""
    depth = 1
    for place, character in enumerate(arguments):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            return place
    return len(arguments)
