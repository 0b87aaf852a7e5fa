"""Data parallelism by one reduction of the gradients: the plainest way to train on several devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xla_equiv.execute.replicas import current_replica
from xla_equiv.execute.treatments.evidence import without_collective
from xla_equiv.values.spread import Spread
from xla_equiv.values.treatment import Trained, Treatment

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer


@dataclass(frozen=True, kw_only=True)
class DataParallel(Treatment):
    """Each replica computes the gradient of its own batch; then all take the mean.

    Args:
        copy_first: replace each gradient by a copy before it is reduced. torch_xla's in-place all-reduce
            writes behind the back of the views and pending updates that a tensor has: a gradient that was
            accumulated in place and is changed again after the reduction, as by clipping, loses the
            reduction without a word. A copy has no past. Without it no proof is asked for: that a
            reduction was lost shows in the numbers.

    Source:
        torch_xla.core.xla_model.reduce_gradients.
    """

    copy_first: bool = True

    spread: ClassVar[Spread] = Spread.REPLICAS

    def reduce(self, model: nn.Module, optimizer: Optimizer) -> None:
        import torch_xla.core.xla_model as xm
        import torch_xla.runtime as xr

        if xr.world_size() != current_replica().ranks:
            raise RuntimeError(f"xm.reduce_gradients sees {xr.world_size()} of {current_replica().ranks} replicas; use DDP here")
        if self.copy_first:
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad = parameter.grad.clone()
        xm.reduce_gradients(optimizer)

    def why_unproven(self, trained: Trained) -> str:
        return without_collective(self, trained.graph, "all-reduce") if self.copy_first else ""
