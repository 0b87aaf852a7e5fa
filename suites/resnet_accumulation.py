"""Small residual network with GroupNorm or BatchNorm: accumulating on XLA must train like the native loop.

Compares losses, gradients, parameters and, for BatchNorm, the running statistics, which every micro-batch
updates once. Statistics belong to a micro-batch, so that BatchNorm does not train like one big batch; the
arms must agree all the same.

Catches: running statistics that are updated once per step, twice per micro-batch or never, normalisation
over the wrong axes, convolution gradients that are lost or permuted between the iterations of the loop.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from suites.models import Norm, ResidualNet, classification_loss, labelled_batch
from xla_equiv import Case, ExpectedFailure, Status, Suite, Tolerance, Variant
from xla_equiv.treatments import LoopedAccumulation, WhileAccumulation


def group_norm(channels: int) -> nn.Module:
    """Return a normalisation over groups of four channels."""
    return nn.GroupNorm(channels // 4, channels)


def batch(step: int, micro_batch: int, replica: int) -> tuple[Tensor, Tensor]:
    """Return 8 images of 3 channels and 8 x 8 pixels, in 10 classes."""
    return labelled_batch(8, 3, 8, 8, classes=10)


def sgd(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Return SGD with momentum, which passes the noise of a gradient on in proportion."""
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-4)


def case(norm: Norm) -> Case:
    """Return the training of the network with one normalisation."""
    return Case(
        build=lambda: ResidualNet(norm=norm),
        batch=batch,
        loss=classification_loss,
        optimizer=sgd,
        steps=4,
        micro_batches=4,
        seed=3,
    )


SEEN = "between the three arms, with one and two threads, on generic, SSE4, AVX2 and AVX-512 kernels"

SUITE = Suite(
    case={"groupnorm": case(group_norm), "batchnorm": case(nn.BatchNorm2d)},
    reference=Variant("loop", backend="cpu", treatments=[LoopedAccumulation()]),
    candidates=[
        Variant("loop", backend="xla:cpu", treatments=[LoopedAccumulation()]),
        Variant("while", backend="xla:cpu", treatments=[WhileAccumulation()]),
    ],
    tolerance={
        "loss*": Tolerance(rtol=2e-6, atol=0.0, why=f"at most 11 % used {SEEN}"),
        "buffer/*": Tolerance(rtol=1e-5, atol=2e-7, why=f"running_mean: at most 14 % used {SEEN}"),
        "grad_norm": Tolerance(rtol=3e-6, atol=0.0, why=f"at most 13 % used {SEEN}"),
        "grad/*": Tolerance(
            rtol=5e-5, atol=5e-7, why=f"for elements near zero, whose sums cancel; at most 14 % used {SEEN}"
        ),
        "optim/*": Tolerance(rtol=5e-5, atol=8e-7, why=f"momentum: at most 14 % used {SEEN}"),
        "param/*": Tolerance(rtol=1e-5, atol=1e-7, why=f"at most 15 % used {SEEN}"),
    },
    expected_failures=[
        ExpectedFailure(
            test="batchnorm.loop[xla:cpu]",
            status=Status.OUTSIDE,
            keys="buffer/*.running_var",
            why="torch_xla 2.9.0 averages the biased variance of a batch into running_var, torch the unbiased one",
        ),
        ExpectedFailure(
            test="batchnorm.while[xla:cpu]",
            status=Status.OUTSIDE,
            keys="buffer/*",
            why="torch_xla 2.9.0 updates BatchNorm's buffers once per step, not once per micro-batch, in a While",
        ),
    ],
)
