"""Dropout that draws as it should not: only the distribution over many trainings can tell.

Catches: nothing itself.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from suites.models.alike_layers import blocks_case
from xla_equiv import Equivalence, Suite, Variant
from xla_equiv.treatments import LoopedAccumulation, Treatment


@dataclass(frozen=True, kw_only=True)
class OtherDropout(Treatment):
    """Drops by another function than torch's."""

    drop: Callable[[Tensor], Tensor]

    def prepare_model(self, model: nn.Module) -> nn.Module:
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.forward = self.drop  # type: ignore[method-assign]
        return model


def at_probability(probability: float) -> Callable[[Tensor], Tensor]:
    return lambda features: functional.dropout(features, probability, True)


def unscaled(features: Tensor) -> Tensor:
    return features * (torch.rand_like(features) >= 0.25)


def always_alike(features: Tensor) -> Tensor:
    kept = torch.arange(features.numel(), device=features.device).reshape(features.shape) % 4 != 0
    return features * kept / 0.75


def by_hand(features: Tensor) -> Tensor:
    return features * (torch.rand_like(features) >= 0.25) / 0.75


def variant(name: str, *treatments: Treatment) -> Variant:
    return Variant(name, backend="xla:cpu", treatments=[*treatments, LoopedAccumulation()])


SUITE = Suite(
    case=replace(blocks_case(seed=24, last=lambda: nn.Dropout(0.25)), steps=2, draws=48),
    reference=variant("torch"),
    candidates=[
        variant("more_often", OtherDropout(drop=at_probability(0.5))),
        variant("unscaled", OtherDropout(drop=unscaled)),
        variant("always_alike", OtherDropout(drop=always_alike)),
        variant("by_hand", OtherDropout(drop=by_hand)),
    ],
    equivalence={"*": Equivalence.DISTRIBUTIONAL},
)
