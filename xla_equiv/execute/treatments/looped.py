"""Gradient accumulation by an ordinary Python loop: the trusted way."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from xla_equiv.values.treatment import StepInputs, StepOutputs, Treatment

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class LoopedAccumulation(Treatment):
    """One forward and one backward pass for each micro-batch, each loss divided by their number.

    Args:
        sync_each_micro_batch: on a lazy backend, execute after every micro-batch rather than once a
            step. Bounds memory; the graph holds one micro-batch.
        sync_before_backward: on a lazy backend, execute between the forward and the backward pass.
        no_sync: let the replicas' gradients be reduced with the last micro-batch only, by the model's own
            `no_sync` (DistributedDataParallel, XlaFullyShardedDataParallel).
    """

    sync_each_micro_batch: bool = False
    sync_before_backward: bool = False
    no_sync: bool = False

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        carried = inputs.carried
        micro_losses = []
        total = None
        for number, batch in enumerate(inputs.batches, start=1):
            is_last = number == len(inputs.batches)
            with self.without_reduction(model) if self.no_sync and not is_last else nullcontext():
                result = inputs.loss(model, *batch, *carried)
                loss, *updated = result if isinstance(result, tuple) else (result,)
                carried = tuple(updated)
                share = loss / len(inputs.batches)
                if self.sync_before_backward:
                    inputs.sync()
                self.backward(model, share)
            micro_losses.append(loss.detach())
            total = share.detach() if total is None else total + share.detach()
            if self.sync_each_micro_batch:
                inputs.sync()
        assert total is not None
        return StepOutputs(loss=total, micro_losses=micro_losses, carried=carried)

    def backward(self, model: nn.Module, loss: Tensor) -> None:
        """Add the gradients of `loss` to those on `model`."""
        loss.backward()  # type: ignore[no-untyped-call]

    def without_reduction(self, model: nn.Module) -> AbstractContextManager[None]:
        """Return a context in which `model` keeps its own gradients, not reduced over the replicas."""
        context: AbstractContextManager[None] = cast(Any, model).no_sync()
        return context
