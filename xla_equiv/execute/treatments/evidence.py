"""What compiled graphs show of treatments: collectives, shards, recomputation, and the type of matrix products."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from xla_equiv.execute.replicas import current_replica
from xla_equiv.values.graph import BARRIER, HEAVY, GraphFacts

if TYPE_CHECKING:
    import torch

    from xla_equiv.values.treatment import Treatment

HLO_TYPES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64"}
"""Name of a dtype in torch -> in HLO."""


def without_collective(treatment: Treatment, graph: GraphFacts, *opcodes: str) -> str:
    """Return that the graphs of several replicas lack one of `opcodes` that joins them all; '' when none is lacking."""
    ranks = current_replica().ranks
    if ranks == 1:
        return f"{treatment.name}: there is one replica, and nothing is exchanged"
    found = graph.total("collectives")
    lacking = [opcode for opcode in opcodes if not found[f"{opcode} of {ranks}"] and not found[f"{opcode} of all"]]
    if not lacking:
        return ""
    others = f", but {', '.join(found)}" if found else ""
    return f"{treatment.name}: the optimised graphs have no {' and no '.join(lacking)} of {ranks} devices{others}"


def without_shards(treatment: Treatment, graph: GraphFacts, shards: Iterable[tuple[torch.dtype, tuple[int, ...]]]) -> str:
    """Return that a device is given other parameters than `shards`; '' when each module with matrix products takes all.

    Args:
        treatment: that has sharded the parameters.
        graph: the compiled modules; without any, nothing is lacking.
        shards: (dtype, shape on one device) of each sharded parameter.
    """
    wanted = Counter(_hlo_type(dtype, shape) for dtype, shape in shards)
    for module in graph.computing:
        if lacking := wanted - Counter(module.parameters):
            kind = next(iter(lacking))
            taken = f"{module.parameters.get(kind, 0)} of {wanted[kind]} parameters {kind}"
            return f"{treatment.name}: an optimised graph takes {taken} on each device"
    return ""


def why_merged(treatment: Treatment, graph: GraphFacts) -> str:
    """Return why the optimised graphs do not compute again what the traced ones do; '' when they do.

    Where the forward pass was executed before the backward pass was traced, it stands in a module without
    barriers, and the compiler has nothing to merge a recomputation with.
    """
    if not graph.modules:
        return ""
    repeated = graph.total("recomputed")
    products = sum(repeated[opcode] for opcode in HEAVY)
    merged = graph.merged
    barriers, kept = graph.barriers
    is_apart = any(BARRIER not in module.traced for module in graph.computing)
    if not barriers or not (repeated or is_apart):
        return f"{treatment.name}: the traced graphs compute nothing again behind an optimization barrier"
    if not merged and (kept >= barriers or products or not repeated):
        return ""
    share = f"{merged} of {products}" if products else str(merged)
    lost = f", and merged {share} matrix products and loops that were to be computed again" if merged else ""
    hint = "" if kept else "; on XLA:CPU, env=KEEP_BARRIERS keeps them"
    return f"{treatment.name}: XLA removed {barriers - kept} of {barriers} optimization barriers{lost}{hint}"


def why_not_narrow(treatment: Treatment, graph: GraphFacts, dtype: str) -> str:
    """Return why the matrix products were not computed in `dtype`; '' when all were.

    XLA:CPU has no products of bfloat16: it rounds the operands to bfloat16, and multiplies as float32.
    """
    if not graph.modules:
        return ""
    wanted = HLO_TYPES[dtype]
    traced, optimised = graph.total("traced_dots"), graph.total("dots")
    if not traced[wanted]:
        return f"{treatment.name}: no matrix product was traced in {dtype}, {traced.total()} in other types"
    if traced.total() > traced[wanted]:
        return f"{treatment.name}: of {traced.total()} matrix products {traced[wanted]} were traced in {dtype}"
    if optimised[wanted] + graph.total("casts")[wanted] < traced[wanted]:
        return f"{treatment.name}: the optimised graphs have fewer matrix products in {dtype}, or conversions to it, than were traced"
    return ""


def _hlo_type(dtype: torch.dtype, shape: tuple[int, ...]) -> str:
    name = str(dtype).removeprefix("torch.")
    return f"{HLO_TYPES.get(name, name)}[{','.join(map(str, shape))}]"
