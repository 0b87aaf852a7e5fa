"""A small residual convolutional network whose normalisation is chosen by the suite."""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional

Norm = Callable[[int], nn.Module]
"""Channels -> the normalisation to put after a convolution of that many output channels."""


def convolution(inputs: int, outputs: int, *, kernel: int = 3, stride: int = 1) -> nn.Conv2d:
    """Return a convolution without bias that keeps the image size at stride 1.

    A bias before a normalisation over its channel has the true gradient zero: an optimizer would train it
    on rounding noise alone.
    """
    return nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, which is projected when the shape changes."""

    def __init__(self, inputs: int, outputs: int, *, norm: Norm, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = convolution(inputs, outputs, stride=stride)
        self.norm1 = norm(outputs)
        self.conv2 = convolution(outputs, outputs)
        self.norm2 = norm(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(convolution(inputs, outputs, kernel=1, stride=stride), norm(outputs))

    def forward(self, images: Tensor) -> Tensor:
        """Return features, shape (n, outputs, height / stride, width / stride)."""
        hidden = functional.silu(self.norm1(self.conv1(images)))
        return functional.silu(self.norm2(self.conv2(hidden)) + self.shortcut(images))


class ResidualNet(nn.Module):
    """A stem, two residual blocks (the second halves the image), mean over the image, a linear layer.

    Smooth throughout (SiLU, no max-pool): no rounding difference can switch a gradient on or off.
    """

    def __init__(self, *, norm: Norm, channels: int = 8, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(convolution(3, channels), norm(channels), nn.SiLU())
        self.block1 = ResidualBlock(channels, channels, norm=norm)
        self.block2 = ResidualBlock(channels, 2 * channels, norm=norm, stride=2)
        self.head = nn.Linear(2 * channels, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits, shape (n, classes), of `images`, shape (n, 3, height, width)."""
        hidden = self.block2(self.block1(self.stem(images)))
        logits: Tensor = self.head(hidden.mean(dim=(2, 3)))
        return logits
