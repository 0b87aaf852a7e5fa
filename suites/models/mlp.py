"""A multilayer perceptron, and classification batches that are the same bits on every processor."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional


class MLP(nn.Module):
    """Linear layers with SiLU between them.

    SiLU is smooth: a rounding difference moves a gradient in proportion, where ReLU may switch it off.

    Args:
        widths: features of the input, of each hidden layer and of the output.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in pairwise(widths))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the output features, shape (..., widths[-1]), of `inputs`, shape (..., widths[0])."""
        hidden = inputs
        for layer in self.layers[:-1]:
            hidden = functional.silu(layer(hidden))
        output: Tensor = self.layers[-1](hidden)
        return output


def labelled_batch(*shape: int, classes: int) -> tuple[Tensor, Tensor]:
    """Return inputs of `shape`, uniform in [-1, 1), and one int64 label in [0, classes) for each row.

    Uniform and not normal: torch's normal numbers differ in their last bits between instruction sets,
    and a batch must be the same wherever a golden is checked.
    """
    return torch.rand(shape) * 2 - 1, torch.randint(0, classes, shape[:1])


@dataclass(frozen=True)
class LabelledBatches:
    """`labelled_batch` as a Case's `batch`.

    Args:
        samples: of each micro-batch of each replica.
        features: of a sample.
        classes: how many labels there are.
    """

    samples: int
    features: int
    classes: int

    def __call__(self, step: int, micro_batch: int, replica: int) -> tuple[Tensor, Tensor]:
        """Return (inputs, labels)."""
        return labelled_batch(self.samples, self.features, classes=self.classes)


def classification_loss(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross entropy over the samples of one micro-batch, in float32.

    Micro-batches have equally many samples, so that the mean of their means is that of one big batch.
    """
    return functional.cross_entropy(model(inputs).float(), labels)
