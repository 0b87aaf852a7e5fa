"""Trainings in which nothing could fail, beside one in which something could.

Catches: a green that says nothing.
"""

from collections.abc import Callable

import torch

from xla_equiv import Case, Suite, Variant
from xla_equiv.treatments import LoopedAccumulation


def loss(model: torch.nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    return (model(inputs) + 1).square().mean()


def multiplied_by_zero(model: torch.nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    return 0 * loss(model, inputs)


def unused(model: torch.nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    return (inputs.square().mean() * torch.ones((), requires_grad=True)).sum()


def case(
    build: Callable[[], torch.nn.Module] = lambda: torch.nn.Linear(3, 2),
    loss: Callable[..., torch.Tensor] = loss,
    lr: float = 0.1,
) -> Case:
    return Case(
        build=build,
        batch=lambda step, micro_batch, replica: (torch.rand(4, 3),),
        loss=loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=lr),
        steps=2,
        micro_batches=2,
    )


SUITE = Suite(
    case={
        "trains": case(),
        "zero": case(loss=multiplied_by_zero),
        "unused": case(loss=unused),
        "still": case(lr=0.0),
    },
    reference=Variant("loop", backend="cpu", treatments=[LoopedAccumulation()]),
    candidates=[Variant("other", backend="cpu", treatments=[LoopedAccumulation()])],
)
