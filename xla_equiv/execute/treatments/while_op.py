"""Gradient accumulation inside one XLA While loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xla_equiv.values.treatment import StepInputs, StepOutputs, Trained, Treatment

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class WhileAccumulation(Treatment):
    """All micro-batches in one XLA While loop, by torch_xla's own function.

    The micro-batches must have equal shapes: they are stacked along a new first dimension.

    Source:
        torch_xla.experimental.gradient_accumulation.gradient_accumulation (2.6 and later).
    """

    unobserved: ClassVar[tuple[str, ...]] = ("loss/*",)

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        import torch
        from torch_xla.experimental.gradient_accumulation import gradient_accumulation

        stacked = tuple(torch.stack(tensors) for tensors in zip(*inputs.batches, strict=True))

        def train_step(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
            return inputs.loss(model, *tensors)

        result = gradient_accumulation(train_step, stacked, model, *inputs.carried)
        loss, *carried = result if isinstance(result, tuple) else (result,)
        lost = [number for number, tensor in enumerate(carried) if tensor is None]
        if lost:
            raise RuntimeError(f"torch_xla returned nothing for carried tensors {lost}: they do not depend on their input")
        return StepOutputs(loss=loss.detach(), carried=tuple(carried))

    def why_unproven(self, trained: Trained) -> str:
        if trained.micro_batches > 1:
            return ""
        return f"{self.name}: XLA removes a loop of one iteration; accumulate two micro-batches or more"

    def loops(self, trained: Trained) -> tuple[int, ...]:
        return (trained.micro_batches,) if trained.micro_batches > 1 else ()
