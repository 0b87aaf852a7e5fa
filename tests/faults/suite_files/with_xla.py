"""One linear layer on native PyTorch, on XLA and on a TPU. torch is imported where it is used.

Catches: an absent backend that passes for one that agrees.
"""

from xla_equiv import Case, Suite, Variant
from xla_equiv.treatments import LoopedAccumulation


def build():
    import torch

    return torch.nn.Linear(3, 2)


def batch(step, micro_batch, replica):
    import torch

    return (torch.rand(4, 3),)


def loss(model, inputs):
    return (model(inputs) + 1).square().mean()


def sgd(parameters):
    import torch

    return torch.optim.SGD(parameters, lr=0.1)


LOOP = [LoopedAccumulation()]

SUITE = Suite(
    case=Case(build=build, batch=batch, loss=loss, optimizer=sgd, steps=2, micro_batches=2),
    reference=Variant("loop", backend="cpu", treatments=LOOP),
    candidates=[Variant("other", backend=backend, treatments=LOOP) for backend in ("cpu", "xla:cpu", "xla:tpu")],
)
