"""A variant that does not end in time, beside one that does.

Catches: a run that waits for ever.
"""

import subprocess
import time

import torch

from xla_equiv import Case, Suite, Variant
from xla_equiv.treatments import LoopedAccumulation, StepInputs, StepOutputs


class Hanging(LoopedAccumulation):
    """Starts a process of its own, and waits for too long."""

    def accumulate(self, model: torch.nn.Module, inputs: StepInputs) -> StepOutputs:
        if inputs.step == 2:
            subprocess.Popen(["sleep", "600"])
            time.sleep(600)
        return super().accumulate(model, inputs)


SUITE = Suite(
    case=Case(
        build=lambda: torch.nn.Linear(3, 2),
        batch=lambda step, micro_batch, replica: (torch.rand(4, 3),),
        loss=lambda model, inputs: (model(inputs) + 1).square().mean(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        steps=2,
        micro_batches=2,
        time_limit_s=5.0,
    ),
    reference=Variant("loop", backend="cpu", treatments=[LoopedAccumulation()]),
    candidates=[
        Variant("hangs", backend="cpu", treatments=[Hanging()], env={"OF_ITS": "OWN"}),
        Variant("last", backend="cpu", treatments=[LoopedAccumulation()]),
    ],
)
