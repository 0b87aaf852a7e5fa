"""Cases whose models have alike `layers`: to be checkpointed, scanned, compiled or sharded in many ways."""

from collections.abc import Callable

from torch import nn

from suites.models.blocks import blocks
from suites.models.llama import Llama, TokenBatches, causal_loss, join_token_batches
from suites.models.mlp import LabelledBatches, classification_loss
from suites.models.optimizers import adamw, momentum
from xla_equiv import Case

STEPS = 4
MICRO_BATCHES = 2


def blocks_case(*, seed: int, last: Callable[[], nn.Module] = nn.Identity) -> Case:
    """Return the training of the classifier of `blocks`, with momentum."""
    return Case(
        build=lambda: blocks(last),
        batch=LabelledBatches(samples=16, features=12, classes=5),
        loss=classification_loss,
        optimizer=momentum,
        steps=STEPS,
        micro_batches=MICRO_BATCHES,
        seed=seed,
    )


def decoder_case(*, seed: int, layers: int = 2, replicas: int = 1) -> Case:
    """Return the training of a Llama decoder with tied embeddings, with AdamW and clipping."""
    return Case(
        build=lambda: Llama(layers=layers, tied=True),
        batch=TokenBatches(micro_batches=MICRO_BATCHES),
        loss=causal_loss,
        optimizer=adamw,
        steps=STEPS,
        micro_batches=MICRO_BATCHES,
        replicas=replicas,
        join=join_token_batches,
        seed=seed,
        clip_norm=1.0,
    )
