"""torch_xla's optimizer with sharded state (ZeRO stage 1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from xla_equiv.execute.treatments.evidence import without_collective
from xla_equiv.values.spread import Spread
from xla_equiv.values.treatment import Trained, Treatment

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer


@dataclass(frozen=True, kw_only=True)
class ZeroRedundancy(Treatment):
    """Parameters are whole everywhere; each replica holds and updates a shard of the optimizer's state.

    The optimizer reduces and clips the gradients inside its step and drops them there: they cannot be recorded.

    Source:
        torch_xla.distributed.zero_redundancy_optimizer.ZeroRedundancyOptimizer.
    """

    spread: ClassVar[Spread] = Spread.REPLICAS
    unobserved: ClassVar[tuple[str, ...]] = ("local_grad/*", "grad/*", "grad_norm")
    holds_shards_of_state: ClassVar[bool] = True

    def prepare_optimizer(
        self, model: nn.Module, create: Callable[[Sequence[nn.Parameter]], Optimizer], parameters: Sequence[nn.Parameter]
    ) -> Optimizer:
        from torch_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer

        def create_of_shards(groups: Any, **defaults: Any) -> Optimizer:  # noqa: ARG001 (`create` knows them)
            return create([shard for group in groups for shard in group["params"]])

        optimizer: Optimizer = ZeroRedundancyOptimizer(
            parameters, create_of_shards, pin_layout=False, grad_clipping=False, **create(parameters).defaults
        )
        return optimizer

    def clip(self, model: nn.Module, optimizer: Optimizer, max_norm: float) -> Tensor | None:
        optimizer.grad_clipping, optimizer.max_norm = True, max_norm  # type: ignore[attr-defined]
        return None

    def optimizer_state(self, optimizer: Optimizer) -> Mapping[Tensor, Mapping[str, Any]]:
        shards = (shard for group in optimizer.base_optimizer.param_groups for shard in group["params"])  # type: ignore[attr-defined]
        whole = (parameter for group in optimizer.param_groups for parameter in group["params"])
        state = optimizer.base_optimizer.state  # type: ignore[attr-defined]
        return {parameter: state.get(shard, {}) for parameter, shard in zip(whole, shards, strict=True)}

    def why_unproven(self, trained: Trained) -> str:
        return without_collective(self, trained.graph, "all-gather", "reduce-scatter")
