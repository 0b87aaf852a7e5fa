"""How precisely float32 is multiplied, and products in bfloat16 under autocast, against plain float32.

Catches: a precision that is set and not compiled, products that are not narrowed, or narrowed where float32
was asked for, sums that are accumulated in the narrow type.
"""

from dataclasses import replace

from suites.models import on_xla
from suites.models.alike_layers import blocks_case, decoder_case
from xla_equiv import ALL_STEPS, Equivalence, Suite, Tolerance, Variant
from xla_equiv.treatments import Autocast, LoopedAccumulation, MatmulPrecision, WhileAccumulation

ROUNDING = "operands are rounded to bfloat16, 2^-9 relative at most"
LOOP = LoopedAccumulation()

SUITE = Suite(
    case={"mlp": blocks_case(seed=12), "llama": replace(decoder_case(seed=13), full=True)},
    reference=on_xla("float32", LOOP),
    candidates=[
        on_xla("default", MatmulPrecision(precision="default"), LOOP),
        on_xla("high", MatmulPrecision(precision="high"), LOOP),
        on_xla("highest", MatmulPrecision(precision="highest"), LOOP),
        on_xla("autocast", Autocast(), LOOP),
        on_xla("autocast_while", Autocast(), WhileAccumulation()),
        Variant("autocast", backend="cpu", treatments=[Autocast(), LOOP]),
    ],
    test_tolerance={
        "*.autocast*": {
            "loss*": Tolerance(rtol=1e-2, atol=0.0, why=f"{ROUNDING}; at most 46 % used"),
            "grad_norm": Tolerance(rtol=2e-2, atol=0.0, why=f"{ROUNDING}; at most 33 % used"),
            "grad/*": Tolerance(rtol=2.0**-5, atol=8e-3, why=f"{ROUNDING}; at most 19 % used"),
            "optim/*/momentum_buffer": Tolerance(rtol=2.0**-5, atol=1e-2, why=f"{ROUNDING}; at most 17 % used"),
            "optim/*/exp_avg": Tolerance(rtol=2.0**-5, atol=5e-4, why=f"{ROUNDING}; at most 29 % used"),
            "optim/*/exp_avg_sq": Tolerance(rtol=2.0**-4, atol=5e-7, why=f"{ROUNDING}; at most 16 % used"),
            "param/*": Tolerance(
                rtol=0.0, atol=1.2e-2, why="four steps of AdamW of 3e-3 at most, whatever the gradient; at most 37 % used"
            ),
        }
    },
    equivalence={"*": Equivalence.BITWISE, "*.autocast*": Equivalence.REASSOCIATION},
    golden={"*": (), "loss": ALL_STEPS, "grad_norm": ALL_STEPS},
)
