"""A classifier of alike blocks, to be checkpointed one by one or scanned."""

from collections import OrderedDict
from collections.abc import Callable

from torch import nn


def blocks(last: Callable[[], nn.Module] = nn.Identity, *, layers: int = 3) -> nn.Module:
    """Return a classifier of 12 features in 5 classes whose `layers` are blocks of a linear layer, SiLU and `last`."""
    hidden = [nn.Sequential(nn.Linear(16, 16), nn.SiLU(), last()) for _ in range(layers)]
    parts = {"input": nn.Linear(12, 16), "layers": nn.Sequential(*hidden), "output": nn.Linear(16, 5)}
    return nn.Sequential(OrderedDict(parts))
