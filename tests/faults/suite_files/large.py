"""A parameter of 4 MB, of which a trace has two copies a step.

Catches: a trace that ends in the middle because the disk is full.
"""

import torch

from xla_equiv import Case, Suite, Variant
from xla_equiv.treatments import LoopedAccumulation


class Small(LoopedAccumulation):
    """The ordinary loop over a model that is made small first."""

    def prepare_model(self, model: torch.nn.Module) -> torch.nn.Module:
        return torch.nn.Linear(1024, 1)


SUITE = Suite(
    case=Case(
        build=lambda: torch.nn.Linear(1024, 1024),
        batch=lambda step, micro_batch, replica: (torch.rand(4, 1024),),
        loss=lambda model, inputs: (model(inputs) + 1).square().mean(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        steps=3,
        micro_batches=1,
    ),
    reference=Variant("loop", backend="cpu", treatments=[Small()]),
    candidates=[Variant("large", backend="cpu", treatments=[LoopedAccumulation()])],
)
