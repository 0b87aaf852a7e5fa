"""XLA FSDP that computes in bfloat16, against data parallelism in float32: as near as bfloat16 can be.

The parameters, the optimizer and the losses stay in float32; forward and backward pass run in bfloat16.
On torch_xla 2.9.0 the gradients are reduced in float32 whether or not `fp32_reduce_scatter` asks for it: on
XLA:CPU the two variants give the same bits.

Catches: parameters or optimizer state that are rounded to bfloat16, a reduction that loses what is left of a
gradient, a loss that is scaled.
"""


from suites.models import MLP, LabelledBatches, classification_loss, float32_rounding, momentum
from xla_equiv import ALL_STEPS, Case, Suite, Tolerance, Variant
from xla_equiv.treatments import DataParallel, LoopedAccumulation, XlaFSDP

LOOP = LoopedAccumulation()
ROUNDED = "each operation in bfloat16 rounds by up to 2^-9 of its result"

SUITE = Suite(
    case=Case(
        build=lambda: MLP((32, 48, 8)),
        batch=LabelledBatches(16, 32, classes=8),
        loss=classification_loss,
        optimizer=momentum,
        steps=5,
        micro_batches=1,
        replicas=4,
        seed=61,
    ),
    reference=Variant("data_parallel", backend="xla:cpu", treatments=[LOOP, DataParallel()]),
    candidates=[
        Variant("bfloat16", backend="xla:cpu", treatments=[LOOP, XlaFSDP(compute_dtype="bfloat16")]),
        Variant(
            "bfloat16_float32_reduced",
            backend="xla:cpu",
            treatments=[LOOP, XlaFSDP(compute_dtype="bfloat16", fp32_reduce_scatter=True)],
        ),
    ],
    tolerance={
        "loss*": Tolerance(rtol=2e-3, atol=0.0, why=f"{ROUNDED}, averaged over the samples; at most 5 % used"),
        "*grad/*": Tolerance(rtol=0.0, atol=3e-3, why=f"{ROUNDED}, of terms up to 0.3; at most 19 % used"),
        "grad_norm": Tolerance(rtol=1e-2, atol=0.0, why=f"{ROUNDED}; at most 8 % used"),
        "optim/*/momentum_buffer": Tolerance(rtol=0.0, atol=4e-3, why=f"{ROUNDED}, of terms up to 0.3; at most 18 % used"),
        "param/*": Tolerance(rtol=0.0, atol=1e-3, why="learning rate times momentum, summed over 5 steps; at most 17 % used"),
    },
    test_tolerance={
        "data_parallel[xla:cpu]": float32_rounding(gradient=1e-6, parameter=1e-6, used="the reference is float32 throughout"),
    },
    golden={"*": (), "loss": ALL_STEPS, "grad_norm": ALL_STEPS},
)
