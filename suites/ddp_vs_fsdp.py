"""Data parallel, DDP and XLA FSDP on 2, 4 and 8 replicas: three ways to train on several devices, one training.

Compares, for an MLP and a Llama decoder, torch_xla's plain data parallelism with DistributedDataParallel and
XlaFullyShardedDataParallel on the same replicas, bit for bit; and with one device that trains on the batches
of all replicas at once, and with native DistributedDataParallel over gloo, which share no collective with it.

Catches: gradients that are summed and not averaged, averaged twice, not reduced for one parameter or one
rank, a rank with stale weights, shards in another order than the ranks, a bucket that lands on the wrong
parameter, a loss or gradient norm of one rank taken for that of all.
"""


from suites.models import (
    MLP,
    LabelledBatches,
    Llama,
    TokenBatches,
    adamw,
    causal_loss,
    classification_loss,
    float32_rounding,
    join_token_batches,
)
from xla_equiv import ALL_STEPS, Case, ExpectedFailure, Status, Suite, Tolerance, Variant
from xla_equiv.treatments import DDP, DataParallel, LoopedAccumulation, XlaFSDP

STEPS = 10


def mlp(replicas: int) -> Case:
    """Return the training of a multilayer perceptron."""
    return Case(
        build=lambda: MLP((32, 48, 32, 8)),
        batch=LabelledBatches(8, 32, classes=8),
        loss=classification_loss,
        optimizer=adamw,
        steps=STEPS,
        micro_batches=1,
        replicas=replicas,
        full=replicas != 4,
        seed=31,
    )


def llama(replicas: int) -> Case:
    """Return the training of a decoder of two layers with tied embeddings."""
    return Case(
        build=lambda: Llama(layers=2, tied=True),
        batch=TokenBatches(micro_batches=1, sequences=2),
        join=join_token_batches,
        loss=causal_loss,
        optimizer=adamw,
        steps=STEPS,
        micro_batches=1,
        replicas=replicas,
        full=replicas != 4,
        seed=32,
    )


def ddp(*, gradient_as_bucket_view: bool = False) -> DDP:
    """Return DDP that leaves the decoder's only boolean buffer alone (see `DDP.ignored_buffers`)."""
    return DDP(gradient_as_bucket_view=gradient_as_bucket_view, ignored_buffers=("future",))


LOOP = LoopedAccumulation()
SAME_BITS = Tolerance(
    rtol=0.0,
    atol=0.0,
    only=("equivalence",),
    why="the same sums in the same order: every rank computes its own gradient alike, and XLA adds in rank order",
)

SUITE = Suite(
    case={f"{name}_{n}": case(n) for name, case in (("mlp", mlp), ("llama", llama)) for n in (2, 4, 8)},
    reference=Variant("data_parallel", backend="xla:cpu", treatments=[LOOP, DataParallel()]),
    candidates=[
        Variant("ddp", backend="xla:cpu", treatments=[LOOP, ddp()]),
        Variant("ddp_bucket_view", backend="xla:cpu", treatments=[LOOP, ddp(gradient_as_bucket_view=True)]),
        Variant("fsdp", backend="xla:cpu", treatments=[LOOP, XlaFSDP()]),
        Variant("big_batch", backend="xla:cpu", treatments=[LOOP]),
        Variant("ddp", backend="cpu", treatments=[LOOP, DDP()]),
        Variant("ddp", backend="xla:tpu", treatments=[LOOP, ddp()]),
        Variant("fsdp", backend="xla:tpu", treatments=[LOOP, XlaFSDP()]),
    ],
    tolerance=float32_rounding(gradient=2e-6, parameter=2e-6, used="at most 25 % used between all variants, on AVX-512 kernels"),
    test_tolerance={
        "*.ddp[xla:cpu]": {"*": SAME_BITS},
        "*.fsdp[xla:cpu]": {
            "*": SAME_BITS,
            "grad_norm": Tolerance(
                rtol=2.0**-21,
                atol=0.0,
                only=("equivalence",),
                why="four units in the last place: squares of whole gradients are added in another order; at most 38 % used",
            ),
        },
    },
    expected_failures=[
        ExpectedFailure(
            test="*.ddp_bucket_view[xla:cpu]",
            status=Status.OUTSIDE,
            why="torch_xla 2.9.0: xm.all_reduce of a list writes into the tensors without telling their views, so that "
            "the gradient that is written last into each bucket stays the replica's own, divided by their number, "
            "and the replicas drift apart. It is neither DDP's fault (over gloo the option changes no digit) nor "
            "that of running in one process: tests/replicas/test_known_faults.py shows it without either",
        ),
    ],
    golden={"*": (), "loss": ALL_STEPS, "grad_norm": ALL_STEPS},
)
