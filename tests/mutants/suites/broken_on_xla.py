"""Faults of accumulation on XLA, beside two that are none.

Catches: nothing itself; a While that is none must not pass for one.
"""

from dataclasses import replace

import torch
from torch import nn
from trained_case import CASE, MICRO_BATCHES, REFERENCE, Net

from xla_equiv import Suite, Variant
from xla_equiv.treatments import LoopedAccumulation, StepInputs, StepOutputs, WhileAccumulation


class SilentLoop(WhileAccumulation):
    """Says that it runs one While loop, and runs the Python loop."""

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        return LoopedAccumulation().accumulate(model, inputs)


class WhileNotDivided(WhileAccumulation):
    """Sums up the gradients in the While loop, and does not divide them."""

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        outputs = super().accumulate(model, inputs)
        for parameter in model.parameters():
            parameter.grad = parameter.grad * MICRO_BATCHES
        return outputs


class Detour(LoopedAccumulation):
    """Reshapes on the device that change nothing."""

    def prepare_model(self, model: nn.Module) -> nn.Module:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(parameter.reshape(-1).reshape(parameter.shape))
        return model


SUITE = Suite(
    case=replace(CASE, build=lambda: Net(nn.LayerNorm), steps=2),
    reference=REFERENCE,
    candidates=[
        Variant("silent_loop", backend="xla:cpu", treatments=[SilentLoop()]),
        Variant("while_not_divided", backend="xla:cpu", treatments=[WhileNotDivided()]),
        Variant("synced_each", backend="xla:cpu", treatments=[LoopedAccumulation(sync_each_micro_batch=True)]),
        Variant("detour", backend="xla:cpu", treatments=[Detour()]),
    ],
)
