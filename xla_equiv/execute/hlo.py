"""Facts from the texts that XLA dumps of one module."""

import hashlib
import re
from collections import Counter

from xla_equiv.execute.hlo_instructions import METADATA, Instruction, computations, live
from xla_equiv.execute.recomputation import recomputed
from xla_equiv.values.graph import PRODUCTS, ModuleFacts

NAME = re.compile(r"%[\w.\-]+|[\w.\-]+(?=: )")  # in the head of a computation, parameters stand without %
TRIP_COUNT = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
COLLECTIVE = re.compile("all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute")
GROUPS = re.compile(r"replica_groups=(?:\{\{([\d,]*)\}|\[\d+,(\d+)\])")
PRECISION = re.compile(r"operand_precision=\{(\w+)")
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
    loops = [TRIP_COUNT.search(one.arguments) for one in after if one.opcode == "while"]
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
        collectives=_sorted(Counter(filter(None, map(_collective, after)))),
        size_bytes=int(size.group(1)) if size else 0,
    )


def _products(instructions: list[Instruction]) -> dict[str, int]:
    return _sorted(Counter(one.element_type for one in instructions if one.opcode in PRODUCTS))


def _precision(one: Instruction) -> str:
    """Return the precision that a matrix product asks of its operands."""
    found = PRECISION.search(one.attributes)
    return found.group(1) if found else "default"


def _collective(one: Instruction) -> str:
    """Return "opcode of n", n the devices that a group joins; '' when `one` is no collective."""
    opcode = one.opcode.removesuffix("-start")
    if not COLLECTIVE.fullmatch(opcode):
        return ""
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
