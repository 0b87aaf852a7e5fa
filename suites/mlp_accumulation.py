"""Three-layer MLP with AdamW and gradient clipping: accumulating on XLA must train like the native loop.

Compares ten optimizer steps of four micro-batches: native PyTorch loop against XLA's loop and While.

Catches: a loss or gradient that is not divided by the number of micro-batches, gradients left over from the
step before, a micro-batch left out or repeated, clipping before accumulation has ended, a gradient that is
scaled, zeroed or lost for one parameter, optimizer state that does not follow the parameters.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from suites.models import MLP, classification_loss, labelled_batch
from xla_equiv import Case, Suite, Tolerance, Variant
from xla_equiv.treatments import LoopedAccumulation, WhileAccumulation


def batch(step: int, micro_batch: int, replica: int) -> tuple[Tensor, Tensor]:
    """Return 16 samples of 32 features in 8 classes."""
    return labelled_batch(16, 32, classes=8)


def adamw(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Return AdamW; eps is far above the noise of a gradient, so that noise does not become an update."""
    return torch.optim.AdamW(parameters, lr=1e-2, eps=1e-5, weight_decay=0.01)


SEEN = "between the three arms, with one and two threads, on generic, SSE4, AVX2 and AVX-512 kernels"

SUITE = Suite(
    case=Case(
        build=lambda: MLP((32, 48, 32, 8)),
        batch=batch,
        loss=classification_loss,
        optimizer=adamw,
        steps=10,
        micro_batches=4,
        seed=1,
        clip_norm=0.1,
    ),
    reference=Variant("loop", backend="cpu", treatments=[LoopedAccumulation()]),
    candidates=[
        Variant("loop", backend="xla:cpu", treatments=[LoopedAccumulation()]),
        Variant("while", backend="xla:cpu", treatments=[WhileAccumulation()]),
        Variant("loop", backend="xla:tpu", treatments=[LoopedAccumulation()]),
        Variant("while", backend="xla:tpu", treatments=[WhileAccumulation()]),
    ],
    tolerance={
        "loss*": Tolerance(rtol=2e-6, atol=0.0, why=f"at most 12 % used {SEEN}"),
        "grad_norm": Tolerance(rtol=2e-6, atol=0.0, why=f"at most 11 % used {SEEN}"),
        "grad/*": Tolerance(
            rtol=5e-5, atol=5e-8, why=f"for elements near zero, whose sums cancel; at most 18 % used {SEEN}"
        ),
        "optim/*/exp_avg": Tolerance(rtol=5e-5, atol=2.5e-9, why=f"at most 17 % used {SEEN}"),
        "optim/*/exp_avg_sq": Tolerance(rtol=1e-3, atol=1e-16, why=f"at most 9 % used {SEEN}"),
        "param/*": Tolerance(
            rtol=1e-5,
            atol=2e-6,
            why=f"AdamW divides a gradient near zero, and its noise, by about eps; at most 16 % used {SEEN}",
        ),
    },
)
