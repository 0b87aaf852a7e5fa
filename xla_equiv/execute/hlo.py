"""Facts from the texts that XLA dumps of one module."""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from xla_equiv.execute.hlo_instructions import COLLECTIVE, METADATA, Instruction, computations, live
from xla_equiv.execute.recomputation import recomputed
from xla_equiv.values.graph import HEAVY, PRODUCTS, ModuleFacts

NAME = re.compile(r"%[\w.\-]+|[\w.\-]+(?=: )")  # in the head of a computation, parameters stand without %
TRIP_COUNT = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
SHAPE = re.compile(r"(?<=[\[,])\d+")
GROUPS = re.compile(r"replica_groups=(?:\{\{([\d,]*)\}|\[\d+,(\d+)\])")
PRECISION = re.compile(r"operand_precision=\{(\w+)")
ARGUMENTS = re.compile(r"entry_computation_layout=\{\((.*?)\)->")
ARGUMENT = re.compile(r"[a-z]\w*\[[\d,]*\]")
SIZE = re.compile(r"^Total bytes used: (\d+)", re.MULTILINE)


def module_facts(optimised: str, traced: str = "", memory: str = "") -> ModuleFacts:
    """Return the facts of one module.

    Args:
        optimised: its text in XLA's HLO syntax, after optimisation.
        traced: its text before; what its results do not depend on is not counted.
        memory: XLA's report of the memory that it uses.
    """
    after = [one for _, body in computations(optimised) for one in body]
    before = [one for _, body in computations(traced) for one in live(body)]
    heavy = Counter(_heavy(traced, only_live=True))
    heavy.subtract(_heavy(optimised, only_live=False))
    loops = [TRIP_COUNT.search(one.arguments) for one in after if one.opcode == "while"]
    arguments = ARGUMENTS.search(optimised)
    size = SIZE.search(memory)
    return ModuleFacts(
        fingerprint=_fingerprint(optimised),
        opcodes=_sorted(Counter(one.opcode for one in after)),
        trip_counts=tuple(int(found.group(1)) if found else 0 for found in loops),
        dots=_products(after),
        traced=_sorted(Counter(one.opcode for one in before)),
        traced_dots=_products(before),
        precisions=_sorted(Counter(_precision(one) for one in after if one.opcode in PRODUCTS)),
        casts=_sorted(Counter(one.element_type for one in after if one.opcode == "convert")),
        recomputed=_sorted(recomputed(traced)),
        merged=sum(max(0, lost) for lost in heavy.values()) if traced else 0,
        collectives=_sorted(Counter(filter(None, map(_collective, after)))),
        parameters=_sorted(Counter(ARGUMENT.findall(arguments.group(1)) if arguments else [])),
        size_bytes=int(size.group(1)) if size else 0,
    )


def _products(instructions: list[Instruction]) -> dict[str, int]:
    return _sorted(Counter(one.element_type for one in instructions if one.opcode in PRODUCTS))


def _heavy(text: str, *, only_live: bool) -> Iterator[str]:
    """Yield the opcode of each loop, and of each product that stays one: XLA rewrites those with a dimension of 1."""
    for _, body in computations(text):
        types = {one.name: one.type for one in body}
        for one in live(body) if only_live else body:
            if one.opcode in HEAVY and not (one.opcode == "dot" and _has_dimension_of_1(one, types)):
                yield one.opcode


def _has_dimension_of_1(dot: Instruction, types: Mapping[str, str]) -> bool:
    """Return whether rows, columns or what is summed over are one element in all."""
    for side, operand in zip(("lhs", "rhs"), dot.operands, strict=False):
        sizes = [int(size) for size in SHAPE.findall(types[operand].partition("]")[0])] if operand in types else []
        summed, alike = (_dimensions(dot, f"{side}_{name}_dims") for name in ("contracting", "batch"))
        rest = [size for number, size in enumerate(sizes) if number not in {*summed, *alike}]
        if sizes and 1 in (math.prod(rest), math.prod(sizes[number] for number in summed)):
            return True
    return False


def _dimensions(dot: Instruction, attribute: str) -> list[int]:
    found = re.search(attribute + r"=\{([\d,]*)\}", dot.attributes)
    return [int(number) for number in found.group(1).split(",") if number] if found else []


def _precision(one: Instruction) -> str:
    """Return the precision that a matrix product asks of its operands."""
    found = PRECISION.search(one.attributes)
    return found.group(1) if found else "default"


def _collective(one: Instruction) -> str:
    """Return "opcode of n", n the devices that a group joins; '' when `one` is no collective."""
    found = COLLECTIVE.fullmatch(one.opcode)
    if not found or found.group(2) == "-done":
        return ""
    opcode = found.group(1)
    if "replica_groups={}" in one.arguments:
        return f"{opcode} of all"
    group = GROUPS.search(one.arguments)
    joined = 0 if group is None else int(group.group(2) or len([d for d in group.group(1).split(",") if d]))
    return f"{opcode} of {joined or 'unknown'}"


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items()))


def _fingerprint(text: str) -> str:
    """Return the SHA-256 of the module without its header, metadata and names."""
    body = METADATA.sub("", text.partition("\n")[2])
    numbers: dict[str, str] = {}
    renamed = NAME.sub(lambda found: numbers.setdefault(found.group().lstrip("%"), f"%{len(numbers)}"), body)
    return hashlib.sha256(renamed.encode()).hexdigest()
