"""One program that the compiler partitions over several devices (SPMD)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, ClassVar

from xla_equiv.execute.treatments.evidence import without_shards
from xla_equiv.values.graph import GraphFacts
from xla_equiv.values.spread import Spread
from xla_equiv.values.treatment import Trained, Treatment

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class SpmdDataParallel(Treatment):
    """The batch lies on all devices, the parameters on each.

    Source:
        torch_xla.distributed.spmd.mark_sharding.
    """

    spread: ClassVar[Spread] = Spread.SPMD
    axis: ClassVar[str] = "data"
    collectives: ClassVar[tuple[str, ...]] = ("all-reduce",)

    def prepare_batch(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        import torch_xla.distributed.spmd as xs

        for tensor in batch:
            if tensor.ndim:
                xs.mark_sharding(tensor, _mesh(self.axis), (self.axis, *[None] * (tensor.ndim - 1)))
        return batch

    def why_unproven(self, trained: Trained) -> str:
        lacking = [opcode for opcode in self.collectives if not trained.graph.count(opcode)]
        if lacking:
            return f"{self.name}: the optimised graphs have no {' and no '.join(lacking)}"
        divided = self._divided(trained.model)
        trained_ones = {name: one for name, one in trained.model.named_parameters() if one.grad is not None}
        given = {name: (one.dtype, _on_device(one, divided.get(name, ()))) for name, one in trained_ones.items()}
        first = GraphFacts(tuple(trained.graph.computing[:1]))
        sharded = [given[name] for name in divided if name in given]
        return without_shards(self, first, given.values()) or without_shards(self, trained.graph, sharded)

    def _divided(self, model: nn.Module) -> Mapping[str, tuple[bool, ...]]:
        """Return parameter of the prepared `model` -> which of its dimensions are divided, of each that lies on all devices.

        After their first update the compiler divides other parameters as well, of its own accord: only the module of the
        first step shows all as they were given.
        """
        return {}


@dataclass(frozen=True, kw_only=True)
class SpmdFSDP(SpmdDataParallel):
    """Batch and parameters lie on all devices, each parameter along its largest dimension.

    Args:
        auto_wrap_policy: decides which submodules are wrapped on their own.

    Source:
        torch_xla.experimental.spmd_fully_sharded_data_parallel (FSDPv2).
    """

    auto_wrap_policy: Callable[..., bool] | None = None

    axis: ClassVar[str] = "fsdp"
    collectives: ClassVar[tuple[str, ...]] = ("all-reduce", "all-gather")

    def prepare_model(self, model: nn.Module) -> nn.Module:
        from torch_xla.experimental.spmd_fully_sharded_data_parallel import SpmdFullyShardedDataParallel

        wrapped: nn.Module = SpmdFullyShardedDataParallel(
            model, mesh=_mesh(self.axis), auto_wrap_policy=self.auto_wrap_policy
        )
        return wrapped

    def parameter_name(self, name: str) -> str:
        return name.replace("_orig_module.", "")

    def _divided(self, model: nn.Module) -> Mapping[str, tuple[bool, ...]]:
        named = ((name, tuple(one.shape)) for name, one in model.named_parameters() if one.ndim)
        return {name: tuple(n == shape.index(max(shape)) for n in range(len(shape))) for name, shape in named}


@dataclass(frozen=True, kw_only=True)
class SpmdTensorParallel(SpmdDataParallel):
    """The parameters lie on all devices, the batch on each.

    Args:
        partitions: parameter -> for each of its dimensions whether it is divided.

    Source:
        torch_xla.distributed.spmd.mark_sharding.
    """

    partitions: Mapping[str, tuple[bool, ...]]

    axis: ClassVar[str] = "model"

    def prepare_model(self, model: nn.Module) -> nn.Module:
        import torch_xla.distributed.spmd as xs

        for name, divided in self.partitions.items():
            xs.mark_sharding(
                model.get_parameter(name), _mesh(self.axis), tuple(self.axis if one else None for one in divided)
            )
        return model

    def prepare_batch(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return batch

    def _divided(self, model: nn.Module) -> Mapping[str, tuple[bool, ...]]:
        return self.partitions


def _on_device(tensor: Tensor, divided: tuple[bool, ...]) -> tuple[int, ...]:
    """Return the shape of `tensor` on one device; a dimension that is not `divided`, or not named there, is whole."""
    import torch_xla.runtime as xr

    devices = xr.global_runtime_device_count()
    return tuple(-(-size // devices) if is_divided else size for size, is_divided in zip_longest(tensor.shape, divided))


def _mesh(axis: str) -> Any:
    """Return a mesh of all devices along one `axis`."""
    import numpy as np
    import torch_xla.distributed.spmd as xs
    import torch_xla.runtime as xr

    devices = xr.global_runtime_device_count()
    return xs.Mesh(np.arange(devices), (devices,), (axis,))
