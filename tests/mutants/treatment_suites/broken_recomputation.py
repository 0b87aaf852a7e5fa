"""Layers that are not the same when they are computed again.

Catches: nothing itself.
"""

from dataclasses import replace

from torch import Tensor, nn

from suites.models.alike_layers import blocks_case
from xla_equiv import Suite, Variant
from xla_equiv.treatments import KEEP_BARRIERS, Checkpointing, LoopedAccumulation


class Growing(nn.Module):
    """Returns its input times the number of times that it was called, which is a side effect."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, features: Tensor) -> Tensor:
        self.calls += 1
        return features * float(self.calls)


def one_step(last: type[nn.Module] | None = None):  # type: ignore[no-untyped-def]
    return replace(blocks_case(seed=21, last=last or (lambda: nn.Dropout(0.25))), steps=1, micro_batches=1)


def variant(name: str, **options: bool) -> Variant:
    return Variant(
        name,
        backend="xla:cpu",
        treatments=[Checkpointing(modules=("layers.*",), **options), LoopedAccumulation()],
        env=KEEP_BARRIERS,
    )


SUITE = Suite(
    case={"dropout": one_step(), "side_effect": one_step(Growing)},
    reference=Variant("loop", backend="xla:cpu", treatments=[LoopedAccumulation()]),
    candidates=[variant("preserved"), variant("redrawn", preserve_rng_state=False)],
)
