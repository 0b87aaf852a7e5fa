"""The case that every mutant trains: clipping, BatchNorm, two carried tensors, AdamW."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from xla_equiv import Case, Variant
from xla_equiv.treatments import LoopedAccumulation

FEATURES, WIDTH, CLASSES, SAMPLES = 5, 6, 3, 16
MICRO_BATCHES, STEPS = 4, 3


class Net(nn.Module):
    """Three linear layers, of which the middle one is square; a norm after the first, which has no bias."""

    def __init__(self, norm: type[nn.Module] = nn.BatchNorm1d) -> None:
        super().__init__()
        self.entry = nn.Linear(FEATURES, WIDTH, bias=False)
        self.norm = norm(WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.exit = nn.Linear(WIDTH, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.exit(torch.tanh(self.mix(torch.tanh(self.norm(self.entry(inputs))))))


def batch(step: int, micro_batch: int, replica: int) -> tuple[Tensor, Tensor]:
    return torch.rand(SAMPLES, FEATURES) * 2 - 1, torch.randint(0, CLASSES, (SAMPLES,))


def loss(model: nn.Module, inputs: Tensor, labels: Tensor, average: Tensor, peak: Tensor) -> tuple[Tensor, ...]:
    """Return (loss, moving average of the logits, largest logits so far); the loss reads the average."""
    logits = model(inputs)
    value = functional.cross_entropy(logits, labels) + (logits - average).square().mean()
    seen = logits.detach()
    return value, 0.9 * average + 0.1 * seen.mean(0), torch.maximum(peak, seen.abs().amax(0))


def adamw(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-2, eps=1e-5, weight_decay=0.01)


CASE = Case(
    build=Net,
    batch=batch,
    loss=loss,
    optimizer=adamw,
    steps=STEPS,
    micro_batches=MICRO_BATCHES,
    seed=5,
    clip_norm=0.5,
    carried=lambda: (torch.zeros(CLASSES), torch.zeros(CLASSES)),
)
REFERENCE = Variant("loop", backend="cpu", treatments=[LoopedAccumulation()])
