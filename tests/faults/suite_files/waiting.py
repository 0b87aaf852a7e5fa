"""A variant that waits in its second step for as long as it may, after one that is quick.

Catches: a run that cannot be stopped, or that loses what has ended when it is.
"""

import time

import torch

from xla_equiv import Case, Suite, Variant
from xla_equiv.treatments import LoopedAccumulation, StepInputs, StepOutputs


class Waiting(LoopedAccumulation):
    """Waits in its second step."""

    def accumulate(self, model: torch.nn.Module, inputs: StepInputs) -> StepOutputs:
        if inputs.step == 2:
            time.sleep(250)
        return super().accumulate(model, inputs)


SUITE = Suite(
    case=Case(
        build=lambda: torch.nn.Linear(3, 2),
        batch=lambda step, micro_batch, replica: (torch.rand(4, 3),),
        loss=lambda model, inputs: (model(inputs) + 1).square().mean(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        steps=2,
        micro_batches=2,
    ),
    reference=Variant("loop", backend="cpu", treatments=[LoopedAccumulation()]),
    candidates=[
        Variant("quick", backend="cpu", treatments=[LoopedAccumulation()]),
        Variant("waits", backend="cpu", treatments=[Waiting()]),
        Variant("last", backend="cpu", treatments=[LoopedAccumulation()]),
    ],
)
