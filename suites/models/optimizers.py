"""Optimizers that do not make updates of rounding noise."""

from collections.abc import Iterable

import torch
from torch import nn


def adamw(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Return AdamW; eps is far above the noise of a gradient, so that noise does not become an update."""
    return torch.optim.AdamW(parameters, lr=3e-3, eps=1e-4, weight_decay=0.01)


def momentum(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Return stochastic gradient descent with momentum, whose update is linear in the gradient and in its error."""
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
