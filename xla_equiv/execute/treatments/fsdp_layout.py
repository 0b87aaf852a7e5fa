"""Where torch_xla's FSDP keeps the parameters of a model, what they were called before, and whether all are sharded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from xla_equiv.execute.treatments.evidence import without_collective, without_shards
from xla_equiv.values.shards import Member

if TYPE_CHECKING:
    from torch import nn

    from xla_equiv.values.treatment import Trained, Treatment

WRAPPERS = ("_fsdp_wrapped_module.", "_fpw_module.")


def name_before_fsdp(name: str) -> str:
    """Return the name that a parameter or buffer had before its model was wrapped.

    >>> name_before_fsdp("_fsdp_wrapped_module._fpw_module.layers.0.weight")
    'layers.0.weight'
    """
    for wrapper in WRAPPERS:
        name = name.replace(wrapper, "")
    return name


def fsdp_shards(model: nn.Module) -> Mapping[str, tuple[Member, ...]]:
    """Return name of each sharded parameter in `model` -> what it holds when its shards are put together."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {names[id(shard)]: members for shard, members in _units(model)}


def why_not_sharded(treatment: Treatment, trained: Trained) -> str:
    """Return why `trained` does not show that each device held shards, gathered them and scattered their gradients."""
    named = {name: one for name, one in trained.model.named_parameters() if one.requires_grad}
    sharded = fsdp_shards(trained.model)
    whole = [name_before_fsdp(name) for name in named if name not in sharded]
    if whole and len(whole) < len(named):
        return f"{treatment.name}: {whole[0]} is not sharded"
    shards = [(one.dtype, tuple(one.shape)) for one in named.values()]
    collectives = without_collective(treatment, trained.graph, "all-gather", "reduce-scatter")
    return collectives or without_shards(treatment, trained.graph, shards)


def _units(model: nn.Module) -> Iterator[tuple[nn.Parameter, tuple[Member, ...]]]:
    """Yield each sharded parameter of each FSDP unit, and its members."""
    from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel
    from torch_xla.distributed.fsdp.xla_flatten_params_wrapper import FlatParameter

    for unit_name, unit in model.named_modules():
        if not isinstance(unit, XlaFullyShardedDataParallel):
            continue
        prefix = f"{unit_name}." if unit_name else ""
        for whole, shard in zip(unit.full_params, unit.sharded_params, strict=True):
            if isinstance(whole, FlatParameter):
                names, shapes, _ = whole.metadata()
            else:
                names, shapes = [shard._orig_name], [shard._orig_size]
            yield shard, tuple(Member(prefix + name, tuple(shape)) for name, shape in zip(names, shapes, strict=True))
