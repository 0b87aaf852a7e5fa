"""SPMD on 4 virtual devices: one program that XLA partitions must train like one device, and like four replicas.

Compares an MLP on one device with data parallelism by `mark_sharding`, with FSDPv2 and with tensor parallelism,
accumulated in a loop and in a While, and with four replicas that reduce their gradients.

Catches: a partition that the compiler sums twice or not at all, a mesh axis taken for another, gradients or
optimizer state that are replicated where they are sharded, or the other way round.
"""


from torch import nn

from suites.models import MLP, LabelledBatches, WrapEach, adamw, classification_loss, float32_rounding, on_xla
from xla_equiv import ALL_STEPS, Case, Suite, Variant
from xla_equiv.treatments import (
    DataParallel,
    LoopedAccumulation,
    SpmdDataParallel,
    SpmdFSDP,
    SpmdTensorParallel,
    WhileAccumulation,
)

LOOP, WHILE = LoopedAccumulation(), WhileAccumulation()
ROWS_THEN_COLUMNS = {"layers.0.weight": (True, False), "layers.0.bias": (True,), "layers.1.weight": (False, True)}

SUITE = Suite(
    case=Case(
        build=lambda: MLP((32, 48, 8)),
        batch=LabelledBatches(8, 32, classes=8),
        loss=classification_loss,
        optimizer=adamw,
        steps=5,
        micro_batches=2,
        replicas=4,
        seed=81,
        clip_norm=0.1,
    ),
    reference=on_xla("one_device", LOOP),
    candidates=[
        on_xla("four_replicas", LOOP, DataParallel()),
        on_xla("data_parallel", LOOP, SpmdDataParallel()),
        on_xla("data_parallel_while", WHILE, SpmdDataParallel()),
        on_xla("fsdp", LOOP, SpmdFSDP()),
        on_xla("fsdp_each_linear", LOOP, SpmdFSDP(auto_wrap_policy=WrapEach(nn.Linear))),
        on_xla("tensor_parallel", LOOP, SpmdTensorParallel(partitions=ROWS_THEN_COLUMNS)),
        Variant("data_parallel", backend="xla:tpu", treatments=[LOOP, SpmdDataParallel()]),
    ],
    tolerance=float32_rounding(gradient=2e-7, parameter=5e-7, used="at most 6 % used between all variants, on AVX-512 kernels"),
    golden={"*": (), "loss": ALL_STEPS, "grad_norm": ALL_STEPS},
)
