"""torch_xla's fully sharded data parallelism under Lightning Fabric."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from xla_equiv.execute.treatments.fsdp_layout import fsdp_shards, name_before_fsdp, why_not_sharded
from xla_equiv.execute.treatments.looped import LoopedAccumulation
from xla_equiv.values.absence import Absence
from xla_equiv.values.shards import Member
from xla_equiv.values.spread import Spread
from xla_equiv.values.treatment import StepInputs, StepOutputs, Trained

if TYPE_CHECKING:
    from pathlib import Path

    from lightning_fabric import Fabric
    from torch import Tensor, nn
    from torch.optim import Optimizer

PROGRAM = "_fabric_program"
"""Attribute of a model that holds its `FabricProgram`."""


@dataclass(kw_only=True)
class FabricProgram:
    """What one replica trains with.

    Args:
        fabric: its Fabric; replicas do not share one.
        optimizer: as Fabric has set it up; None until it is made.
        sync: executes the graph of the step that runs, where it is seen.
    """

    fabric: Fabric
    optimizer: Optimizer | None = None
    sync: Callable[[], None] = lambda: None


@dataclass(frozen=True, kw_only=True)
class FabricFSDP(LoopedAccumulation):
    """Fabric's own `XLAFSDPStrategy` wraps the model, runs the backward pass, clips, and steps the optimizer.

    With `no_sync`, all micro-batches but the last run under `fabric.no_backward_sync`. What Fabric assumes of a
    TPU is answered by `replica_fabric`. Fabric's optimizer executes the graph at the end of its step; here the
    graph executes just before, where it is seen.

    Args:
        state_dict_type: how `fabric.save` and `fabric.load` hold the model.
        options: further arguments of XLAFSDPStrategy and XlaFullyShardedDataParallel.

    Source:
        lightning_fabric.strategies.XLAFSDPStrategy (lightning-fabric 2.6).
    """

    state_dict_type: Literal["full", "sharded"] = "sharded"
    options: Mapping[str, Any] | None = None

    spread: ClassVar[Spread] = Spread.REPLICAS
    unobserved: ClassVar[tuple[str, ...]] = ("local_grad/*",)

    def absence(self) -> Absence | None:
        if importlib.util.find_spec("lightning_fabric") is None:
            return Absence("lightning-fabric is not installed", "pip install '.[lightning]'")
        return None

    def prepare_model(self, model: nn.Module) -> nn.Module:
        from xla_equiv.execute.replicas.fabric import replica_fabric

        fabric = replica_fabric(state_dict_type=self.state_dict_type, **(self.options or {}))
        wrapped: nn.Module = fabric.setup_module(model)
        vars(wrapped)[PROGRAM] = FabricProgram(fabric=fabric)
        return wrapped

    def program(self, model: nn.Module) -> FabricProgram:
        """Return what trains `model`, which `prepare_model` returned."""
        return cast(FabricProgram, vars(model)[PROGRAM])

    def prepare_optimizer(
        self, model: nn.Module, create: Callable[[Sequence[nn.Parameter]], Optimizer], parameters: Sequence[nn.Parameter]
    ) -> Optimizer:
        program, optimizer = self.program(model), create(parameters)
        optimizer.register_step_post_hook(lambda *_: program.sync())
        program.optimizer = cast("Optimizer", program.fabric.setup_optimizers(optimizer))
        return program.optimizer

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        self.program(model).sync = inputs.sync
        return super().accumulate(model, inputs)

    def backward(self, model: nn.Module, loss: Tensor) -> None:
        self.program(model).fabric.backward(loss)

    def without_reduction(self, model: nn.Module) -> AbstractContextManager[None]:
        return self.program(model).fabric.no_backward_sync(cast(Any, model))

    def clip(self, model: nn.Module, optimizer: Optimizer, max_norm: float) -> Tensor | None:
        return self.program(model).fabric.clip_gradients(model, optimizer, max_norm=max_norm)

    def save(self, model: nn.Module, optimizer: Optimizer, folder: Path, rest: Mapping[str, Any]) -> None:
        self.program(model).fabric.save(str(folder), {"model": model, "optimizer": optimizer, **rest})

    def load(self, model: nn.Module, optimizer: Optimizer, folder: Path) -> None:
        self.program(model).fabric.load(str(folder), {"model": model, "optimizer": optimizer})

    def parameter_name(self, name: str) -> str:
        return name_before_fsdp(name.removeprefix("_forward_module."))

    def shards(self, model: nn.Module) -> Mapping[str, tuple[Member, ...]]:
        return fsdp_shards(model)

    def why_unproven(self, trained: Trained) -> str:
        return why_not_sharded(self, trained)
