"""DDP on 2 replicas with buffers that the loss reads, and with parameters that some steps do not use.

Compares torch's DistributedDataParallel over gloo, on native PyTorch, with the same over XLA's collectives.

One parameter is unused, not two: DDP marks unused parameters in the order of a hash of their addresses, which differs
between ranks, so that two would be written into their bucket in another order on each, and the graphs would differ.

Catches: buffers that are not broadcast from rank 0 before a forward pass, or broadcast where each rank should keep
its own; a parameter without gradient that stalls a bucket, or whose missing gradient is reduced as if it were zero.
"""

from collections.abc import Sequence

from suites.models import Centred, LabelledBatches, adamw, classification_loss, float32_rounding
from xla_equiv import ALL_STEPS, Case, Suite, Variant
from xla_equiv.treatments import DDP, LoopedAccumulation


def case(*, unused: bool) -> Case:
    """Return the training of one classifier."""
    return Case(
        build=lambda: Centred(unused=unused),
        batch=LabelledBatches(8, 12, classes=5),
        loss=classification_loss,
        optimizer=adamw,
        steps=5,
        micro_batches=2,
        replicas=2,
        seed=91,
    )


ONCE = LoopedAccumulation(no_sync=True)


def pair(name: str, ddp: DDP) -> Sequence[Variant]:
    """Return DDP over gloo and over XLA."""
    return [Variant(name, backend=backend, treatments=[ONCE, ddp]) for backend in ("cpu", "xla:cpu")]


BROADCAST = pair("broadcast", DDP(find_unused_parameters=True))

SUITE = Suite(
    case={"buffers": case(unused=False), "unused": case(unused=True)},
    reference=BROADCAST[0],
    candidates=BROADCAST[1:],
    tolerance=float32_rounding(gradient=2e-7, parameter=5e-7, used="at most 8 % used between the two, on AVX-512 kernels"),
    golden={"*": (), "loss": ALL_STEPS, "grad_norm": ALL_STEPS},
)
