"""XLA FSDP on 4 replicas with parameters that do not divide evenly, are frozen or shared, and with buffers.

Compares torch_xla's plain data parallelism with XlaFullyShardedDataParallel, whole and nested, flat and not, and
with ZeroRedundancyOptimizer.

Catches: padding that leaks into a gradient, a norm or the optimizer, a shard that is cut in the wrong place,
frozen parameters that move or stop others, a tie between parameters that is lost when they are sharded, buffers of one
replica in place of another's.
"""

from typing import Any

from torch import nn

from suites.models import (
    MLP,
    Centred,
    LabelledBatches,
    Llama,
    TokenBatches,
    adamw,
    causal_loss,
    classification_loss,
    float32_rounding,
    join_token_batches,
    momentum,
)
from xla_equiv import ALL_STEPS, Case, Suite, Variant
from xla_equiv.treatments import DDP, DataParallel, LoopedAccumulation, Treatment, XlaFSDP, ZeroRedundancy

REPLICAS = 4


def frozen_mlp() -> nn.Module:
    """Return an MLP whose first layer, and the bias of the second, are not trained."""
    model = MLP((7, 10, 10, 3))
    model.layers[0].requires_grad_(False)
    model.get_parameter("layers.1.bias").requires_grad_(False)
    return model


COMMON: dict[str, Any] = {"steps": 5, "micro_batches": 1, "replicas": REPLICAS, "clip_norm": 0.1}


def variant(name: str, treatment: Treatment) -> Variant:
    """Return a way to train on XLA:CPU."""
    return Variant(name, backend="xla:cpu", treatments=[LoopedAccumulation(), treatment])


SUITE = Suite(
    case={
        "odd": Case(
            build=lambda: MLP((7, 5, 11, 3)), batch=LabelledBatches(8, 7, classes=3), loss=classification_loss, optimizer=adamw, seed=51, **COMMON
        ),
        "frozen": Case(
            build=frozen_mlp, batch=LabelledBatches(8, 7, classes=3), loss=classification_loss, optimizer=momentum, seed=52, **COMMON
        ),
        "buffers": Case(
            build=lambda: Centred(features=7, classes=3),
            batch=LabelledBatches(8, 7, classes=3),
            loss=classification_loss,
            optimizer=adamw,
            seed=54,
            **COMMON,
        ),
        "tied": Case(
            build=lambda: Llama(layers=1, tied=True),
            batch=TokenBatches(micro_batches=1, sequences=2),
            join=join_token_batches,
            loss=causal_loss,
            optimizer=adamw,
            seed=53,
            **COMMON,
        ),
    },
    reference=variant("data_parallel", DataParallel()),
    candidates=[
        variant("whole", XlaFSDP()),
        variant("whole_flat", XlaFSDP(flatten_parameters=True)),
        variant("nested", XlaFSDP(wrap_first=("layers.0",))),
        variant("nested_flat", XlaFSDP(wrap_first=("layers.0",), flatten_parameters=True)),
        variant("rows", XlaFSDP(options={"shard_param_on_dim_0": True})),
        variant("zero", ZeroRedundancy()),
        variant("ddp", DDP(broadcast_buffers=False, ignored_buffers=("future",))),
        variant("ddp_small_buckets", DDP(bucket_cap_mb=0.0001, broadcast_buffers=False, ignored_buffers=("future",))),
    ],
    tolerance=float32_rounding(gradient=1e-6, parameter=1e-6, used="at most 7 % used between all variants, on AVX-512 kernels"),
    golden={"*": (), "loss": ALL_STEPS, "grad_norm": ALL_STEPS},
)
