"""A Case: how to train, as pure functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xla_equiv.values.errors import SuiteError

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer


@dataclass(frozen=True, kw_only=True)
class Case:
    """One way to train one model, independent of where and how the step is executed.

    Every function is called with torch's generator freshly seeded from (`seed`, step, micro-batch,
    replica), so that drawing from the global generator inside them is pure.

    Args:
        build: returns the model on the CPU, with its initial parameters.
        batch: (step from 1, micro-batch from 0, replica) -> tuple of CPU tensors, the inputs of `loss`;
            the replica counts from 0.
        loss: (model, *batch, *carried) -> scalar loss, or (loss, *carried) when tensors are carried.
            The loss of a step is the mean of its micro-batches' losses.
        optimizer: (trainable parameters) -> optimizer.
        steps: optimizer steps to train.
        micro_batches: micro-batches accumulated in each step.
        replicas: data-parallel replicas; the loss of a step is the mean of theirs, its gradient the mean of theirs.
        draws: trainings that one run repeats, each with other random numbers on the device, as for dropout;
            parameters and batches stay the same. What is recorded gets them as its first dimension.
        join: (the batches of all replicas) -> one batch whose loss is the mean of theirs, for variants that
            train on one device; by default the tensors are concatenated along their first dimension.
        seed: seeds the initial parameters, the batches and dropout.
        clip_norm: largest global gradient norm, or None for no clipping.
        carried: () -> tensors carried from micro-batch to micro-batch and from step to step.
        before_accumulation: (model, step) -> None, called after the gradients of the last step were
            cleared; may leave a `.grad` for the step to accumulate onto.
        full: whether the case is left out of the default run, for its length.
        time_limit_s: seconds after which one stage of one variant's training counts as hung.
    """

    build: Callable[[], nn.Module]
    batch: Callable[[int, int, int], tuple[Tensor, ...]]
    loss: Callable[..., Any]
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer]
    steps: int
    micro_batches: int
    replicas: int = 1
    draws: int = 1
    join: Callable[[Sequence[tuple[Tensor, ...]]], tuple[Tensor, ...]] | None = None
    seed: int = 0
    clip_norm: float | None = None
    carried: Callable[[], tuple[Tensor, ...]] | None = None
    before_accumulation: Callable[[nn.Module, int], None] | None = None
    full: bool = False
    time_limit_s: float = 300.0

    def __post_init__(self) -> None:
        problems = [
            f"{name}: {getattr(self, name)!r} is not a whole number of at least 1"
            for name in ("steps", "micro_batches", "replicas", "draws")
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1
        ]
        problems += [
            f"{name}: {value!r} is not a finite number above 0"
            for name, value in (("clip_norm", self.clip_norm), ("time_limit_s", self.time_limit_s))
            if value is not None and not (isinstance(value, int | float) and 0 < value < math.inf)
        ]
        problems += [
            f"{name}: {getattr(self, name)!r} is not a function"
            for name in ("build", "batch", "loss", "optimizer")
            if not callable(getattr(self, name))
        ]
        if self.draws != 1 and self.replicas != 1:
            problems.append("draws: a case of several replicas has one")
        if problems:
            raise SuiteError("a Case is impossible", problems=problems)
