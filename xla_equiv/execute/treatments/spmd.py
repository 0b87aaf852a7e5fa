"""One program that the compiler partitions over several devices (SPMD)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from xla_equiv.execute.treatments.evidence import without_shards
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
        sharded = self._sharded(trained.model)
        whole = next((name for name, one in sharded.items() if not _tiles(one)), None)
        if whole is not None:
            return f"{self.name}: {whole} is not sharded"
        return without_shards(self, trained.graph, [(one.dtype, _shape_on_device(one)) for one in sharded.values()])

    def _sharded(self, model: nn.Module) -> Mapping[str, nn.Parameter]:
        """Return the parameters that lie on all devices, by their names before the model was wrapped."""
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

    def _sharded(self, model: nn.Module) -> Mapping[str, nn.Parameter]:
        return {self.parameter_name(name): one for name, one in model.named_parameters() if one.ndim}


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

    def _sharded(self, model: nn.Module) -> Mapping[str, nn.Parameter]:
        return {name: model.get_parameter(name) for name in self.partitions}


def _tiles(tensor: Tensor) -> tuple[int, ...]:
    """Return in how many parts each dimension of `tensor` is divided; nothing when each device holds all of it."""
    import torch_xla

    found = re.search(r"devices=\[([\d,]+)\]", torch_xla._XLAC._get_xla_sharding_spec(tensor))
    return tuple(int(parts) for parts in found.group(1).split(","))[: tensor.ndim] if found else ()


def _shape_on_device(tensor: Tensor) -> tuple[int, ...]:
    return tuple(-(-size // parts) for size, parts in zip(tensor.shape, _tiles(tensor), strict=True))


def _mesh(axis: str) -> Any:
    """Return a mesh of all devices along one `axis`."""
    import numpy as np
    import torch_xla.distributed.spmd as xs
    import torch_xla.runtime as xr

    devices = xr.global_runtime_device_count()
    return xs.Mesh(np.arange(devices), (devices,), (axis,))
