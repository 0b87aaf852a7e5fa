"""Trainers that accumulate rightly, and then lose, bend or replace something, each in one way.

Catches: nothing itself; every candidate is a fault that xla_equiv must catch.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from trained_case import CASE, REFERENCE, STEPS

from xla_equiv import Suite, Variant
from xla_equiv.treatments import LoopedAccumulation, StepInputs, StepOutputs, Treatment


@dataclass(frozen=True, kw_only=True)
class Bent(Treatment):
    """The ordinary loop, then `bend` for the gradients of the parameters called `of`, from step `since` on."""

    bend: Callable[[Tensor], Tensor | None]
    of: str = "mix.weight"
    since: int = 1

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        outputs = LoopedAccumulation().accumulate(model, inputs)
        for name, parameter in model.named_parameters():
            if inputs.step >= self.since and self.of in ("*", name):
                parameter.grad = self.bend(parameter.grad)
        return outputs


@dataclass(frozen=True)
class Prepared(LoopedAccumulation):
    """The ordinary loop over a model that was changed before the first step."""

    change: Callable[[nn.Module], nn.Module] = lambda model: model

    def prepare_model(self, model: nn.Module) -> nn.Module:
        return self.change(model)


def one_element(value: float, *, relative: float = 0.0) -> Callable[[Tensor], Tensor]:
    """Return what adds `value`, or a relative part of the element itself, at index (2, 3)."""

    def bend(gradient: Tensor) -> Tensor:
        gradient[2, 3] += value + relative * gradient[2, 3]
        return gradient

    return bend


def drawn_again(model: nn.Module) -> nn.Module:
    """Draw the initial parameters again, under another seed."""
    torch.manual_seed(987)
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    return model


def clipped(gradient: Tensor) -> Tensor:
    """Clip as the training loop does, before the training loop does."""
    return gradient * 0.5


MUTANTS = {
    "one_zeroed": Bent(bend=torch.zeros_like),
    "one_scaled": Bent(bend=lambda gradient: gradient * 1.001),
    "one_scaled_in_the_end": Bent(bend=lambda gradient: gradient * 1.001, of="exit.bias", since=STEPS),
    "sign_flipped": Bent(bend=torch.neg, of="*"),
    "one_transposed": Bent(bend=lambda gradient: gradient.t().contiguous()),
    "one_element": Bent(bend=one_element(0.0, relative=1e-3)),
    "one_rounded_to_bfloat16": Bent(bend=lambda gradient: gradient.bfloat16().float(), of="exit.weight"),
    "one_missing": Bent(bend=lambda gradient: None, of="entry.weight"),
    "clipped_twice": Bent(bend=clipped, of="*"),
    "nan_at_step_2": Bent(bend=one_element(torch.nan), since=2),
    "inf_at_step_3": Bent(bend=one_element(torch.inf), since=3),
    "wrong_seed": Prepared(change=drawn_again),
    "statistics_frozen": Prepared(change=lambda model: model.norm.eval() and model),
}

SUITE = Suite(
    case=CASE,
    reference=REFERENCE,
    candidates=[Variant(name, backend="cpu", treatments=[mutant]) for name, mutant in MUTANTS.items()],
)
