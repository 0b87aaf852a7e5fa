"""torch's DistributedDataParallel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from xla_equiv.execute.replicas import current_replica
from xla_equiv.execute.treatments.evidence import without_collective
from xla_equiv.values.spread import Spread
from xla_equiv.values.treatment import Trained, Treatment

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, kw_only=True)
class DDP(Treatment):
    """torch's own DistributedDataParallel, over gloo on the backend `cpu` and over XLA's collectives elsewhere.

    Args:
        bucket_cap_mb: size of a bucket of gradients, MiB; None for torch's own.
        gradient_as_bucket_view: let the gradients be views of the buckets.
        broadcast_buffers: copy rank 0's buffers to all ranks before each forward pass.
        find_unused_parameters: allow parameters that a forward pass does not use. On XLA the step then executes
            inside the backward pass, where its graph is not seen: no proof is asked for.
        ignored_buffers: names of buffers that are never broadcast. On torch_xla 2.9.0 broadcasting a buffer
            that is the model's only one of its dtype sets it to zero on every rank but the first: torch
            passes on a flat view of it, and the in-place all-reduce writes past the view.

    Source:
        torch.nn.parallel.DistributedDataParallel; torch_xla.distributed.xla_backend.
    """

    bucket_cap_mb: float | None = None
    gradient_as_bucket_view: bool = False
    broadcast_buffers: bool = True
    find_unused_parameters: bool = False
    ignored_buffers: tuple[str, ...] = ()

    spread: ClassVar[Spread] = Spread.REPLICAS
    unobserved: ClassVar[tuple[str, ...]] = ("local_grad/*",)

    def prepare_model(self, model: nn.Module) -> nn.Module:
        from torch.nn.parallel import DistributedDataParallel

        ignored: Any = DistributedDataParallel._set_params_and_buffers_to_ignore_for_model
        ignored(model, list(self.ignored_buffers))
        return DistributedDataParallel(
            model,
            process_group=current_replica().process_group(),
            bucket_cap_mb=self.bucket_cap_mb,
            gradient_as_bucket_view=self.gradient_as_bucket_view,
            broadcast_buffers=self.broadcast_buffers,
            find_unused_parameters=self.find_unused_parameters,
        )

    def parameter_name(self, name: str) -> str:
        return name.removeprefix("module.")

    def why_unproven(self, trained: Trained) -> str:
        is_seen = trained.graph.modules and not self.find_unused_parameters
        return without_collective(self, trained.graph, "all-reduce") if is_seen else ""
