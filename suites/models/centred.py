"""A classifier whose loss depends on its buffers."""

import torch
from torch import Tensor, nn


class Centred(nn.Module):
    """Two linear layers, from whose inputs running averages are subtracted; each replica averages its own batches.

    Args:
        unused: whether there is a layer that no forward pass uses.
        features: of a sample.
        classes: outputs.
        width: features between the layers.
    """

    input_mean: Tensor
    hidden_mean: Tensor

    def __init__(self, *, unused: bool = False, features: int = 12, classes: int = 5, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(features, width), nn.Linear(width, classes)])
        self.unused = nn.Linear(width, width, bias=False) if unused else nn.Identity()
        self.register_buffer("input_mean", torch.zeros(features))
        self.register_buffer("hidden_mean", torch.zeros(width))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits, shape (samples, classes), of `inputs`, shape (samples, features)."""
        hidden = torch.tanh(self.layers[0](inputs - self.input_mean))
        logits: Tensor = self.layers[1](hidden - self.hidden_mean)
        with torch.no_grad():
            self.input_mean.mul_(0.5).add_(inputs.mean(0), alpha=0.5)
            self.hidden_mean.mul_(0.5).add_(hidden.mean(0), alpha=0.5)
        return logits
