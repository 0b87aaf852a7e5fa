"""Candidates that reach for what they are judged by: a patched function, another working directory.

Catches: a reference that was trained under what a candidate has left behind.
"""

import os
import tempfile

import torch

from xla_equiv import Case, Suite, Variant
from xla_equiv.treatments import LoopedAccumulation


def build() -> torch.nn.Module:
    """Return the model; the process is somewhere else afterwards."""
    os.chdir(tempfile.gettempdir())
    return torch.nn.Linear(3, 2)


class Patching(LoopedAccumulation):
    """The ordinary loop, under a linear layer that is an eighth too large for the rest of the process."""

    def prepare_model(self, model: torch.nn.Module) -> torch.nn.Module:
        torch.nn.functional.linear = lambda inputs, weight, bias: 1.125 * (inputs @ weight.T + bias)
        return model


def case(seed: int) -> Case:
    return Case(
        build=build,
        batch=lambda step, micro_batch, replica: (torch.rand(4, 3),),
        loss=lambda model, inputs: (model(inputs) + 1).square().mean(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        steps=2,
        micro_batches=2,
        seed=seed,
    )


SUITE = Suite(
    case={"first": case(1), "second": case(2)},
    reference=Variant("loop", backend="cpu", treatments=[LoopedAccumulation()]),
    candidates=[Variant("patches", backend="cpu", treatments=[Patching()])],
)
