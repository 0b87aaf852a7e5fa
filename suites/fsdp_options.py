"""XLA FSDP on 4 replicas under each of its options: how parameters are sharded must not change what is trained.

Compares a Llama decoder under torch_xla's plain data parallelism with XlaFullyShardedDataParallel: whole, nested
by hand, wrapped by policy, flattened, not resharded, with checkpointing, with bucketed and coalesced
collectives, accumulated with and without `no_sync`, and clipped by its own function.

Not run, for torch_xla 2.9.0 ends the process: coalesced all-gathers without sharding by rows (SIGSEGV), pinned
layouts and sharding that is not executed at once (replicas that wait for each other).

Catches: a unit that is gathered or freed at the wrong time, a bucket that is cut wrongly, gradients reduced
twice or not at all under `no_sync`, a norm of one shard or one unit taken for the global one, activations that
are recomputed differently.
"""

from typing import Any

from suites.models import (
    Layer,
    Llama,
    TokenBatches,
    WrapEach,
    WrapFrom,
    adamw,
    causal_loss,
    float32_rounding,
    join_token_batches,
)
from xla_equiv import ALL_STEPS, Case, Suite, Variant
from xla_equiv.treatments import DataParallel, LoopedAccumulation, Treatment, XlaFSDP

MICRO_BATCHES = 2
UNITS = ("layers.0.attention", "layers.0", "layers.1")


LOOP, ONCE = LoopedAccumulation(), LoopedAccumulation(no_sync=True)


def fsdp(name: str, *, accumulation: Treatment = ONCE, **options: Any) -> Variant:
    """Return FSDP on XLA:CPU under `options`."""
    return Variant(name, backend="xla:cpu", treatments=[accumulation, XlaFSDP(**options)])


SUITE = Suite(
    case=Case(
        build=lambda: Llama(layers=2, tied=False),
        batch=TokenBatches(micro_batches=MICRO_BATCHES, sequences=2),
        join=join_token_batches,
        loss=causal_loss,
        optimizer=adamw,
        steps=5,
        micro_batches=MICRO_BATCHES,
        replicas=4,
        full=True,
        seed=41,
        clip_norm=1.0,
    ),
    reference=Variant("data_parallel", backend="xla:cpu", treatments=[LOOP, DataParallel()]),
    candidates=[
        fsdp("whole"),
        fsdp("whole_flat", flatten_parameters=True),
        fsdp("reduced_each_micro_batch", accumulation=LOOP),
        fsdp("nested", wrap_first=UNITS),
        fsdp("nested_flat", wrap_first=UNITS, flatten_parameters=True),
        fsdp("nested_kept", wrap_first=UNITS, reshard_after_forward=False),
        fsdp("by_size", auto_wrap_policy=WrapFrom(1000)),
        fsdp("each_layer", auto_wrap_policy=WrapEach(Layer)),
        fsdp("each_layer_flat", auto_wrap_policy=WrapEach(Layer), flatten_parameters=True),
        fsdp("checkpointed", auto_wrap_policy=WrapEach(Layer), checkpoint=True),
        fsdp("bucketed", wrap_first=UNITS, options={"reduce_scatter_bucket_size_mb": 1}),
        fsdp("rows", wrap_first=UNITS, options={"shard_param_on_dim_0": True}),
        fsdp("coalesced", wrap_first=UNITS, options={"coalesce_all_gather_ops": True, "shard_param_on_dim_0": True}),
        Variant("whole", backend="xla:tpu", treatments=[ONCE, XlaFSDP()]),
    ],
    tolerance=float32_rounding(gradient=2e-6, parameter=1e-6, used="at most 10 % used between all variants, on AVX-512 kernels"),
    golden={"*": (), "loss": ALL_STEPS, "grad_norm": ALL_STEPS},
)
