"""The accumulation of a step as one function that torch_xla compiles, and executes when it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xla_equiv.execute.treatments.looped import LoopedAccumulation
from xla_equiv.values.treatment import StepInputs, StepOutputs, Trained

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, kw_only=True)
class CompiledStep(LoopedAccumulation):
    """The looped accumulation inside `torch_xla.compile`, which raises where the function is more than one graph.

    Source:
        torch_xla.compile(full_graph=True).
    """

    @property
    def has_own_process(self) -> bool:
        return True

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        import torch_xla

        result: StepOutputs = torch_xla.compile(super().accumulate, full_graph=True)(model, inputs)
        return result

    def why_unproven(self, trained: Trained) -> str:
        without = [module for module in trained.graph.modules if not module.traced_dots]
        if without and len(without) < len(trained.graph.modules):
            return ""
        return f"{self.name}: accumulation and update were not executed apart, as they are around a compiled function"
