"""What a Treatment is: one named way to execute the same training step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from xla_equiv.values.spread import Spread

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn
    from torch.optim import Optimizer

    from xla_equiv.values.absence import Absence
    from xla_equiv.values.case import Case
    from xla_equiv.values.graph import GraphFacts
    from xla_equiv.values.shards import Member
    from xla_equiv.values.stages import Stage


@dataclass(frozen=True, kw_only=True)
class StepInputs:
    """What one optimizer step trains on, already on the device.

    Args:
        step: number of the optimizer step, from 1.
        loss: (model, *batch, *carried) -> loss, or (loss, *carried) when tensors are carried.
        batches: one tuple of tensors per micro-batch, in order.
        carried: the carried tensors as the step before left them.
        sync: ends the traced graph and executes it; does nothing on a backend that is not lazy.
    """

    step: int
    loss: Callable[..., Tensor | tuple[Tensor, ...]]
    batches: Sequence[tuple[Tensor, ...]]
    carried: tuple[Tensor, ...]
    sync: Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class StepOutputs:
    """What accumulating one step gave; the gradients are on the model.

    Args:
        loss: mean of the micro-batches' losses, a scalar.
        micro_losses: each micro-batch's own loss where the treatment can see it, else empty.
        carried: the carried tensors after the last micro-batch.
    """

    loss: Tensor
    micro_losses: Sequence[Tensor] = field(default_factory=tuple)
    carried: tuple[Tensor, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a finished training can be asked, to show that a treatment took effect.

    Args:
        graph: the compiled modules that executed its steps; empty where nothing is compiled.
        model: as its treatments have prepared it.
        modules: its submodules by the names that they had before the treatments wrapped them.
        optimizer: that trained it.
        micro_batches: of each step.
    """

    graph: GraphFacts
    model: nn.Module
    modules: Mapping[str, nn.Module]
    optimizer: Optimizer
    micro_batches: int


class Treatment:
    """One named way to execute a training step. Subclass it in a file of its own; nothing else changes.

    Every method here may be overridden. A treatment that does more has the methods of `Accumulates`, `Reduces`,
    `Loops`, `Clips` or `Checkpoints` as well. Treatments of a variant compose: each may replace the model, all that reduce do,
    and the last that accumulates runs the micro-batches. Under `Spread.REPLICAS` every replica calls each method once.
    """

    spread: ClassVar[Spread] = Spread.ONE
    """How the treatment covers the replicas of a case."""

    unobserved: ClassVar[tuple[str, ...]] = ()
    """Patterns of the keys that cannot be seen under this treatment; they are reported, not compared."""

    holds_shards_of_state: ClassVar[bool] = False
    """Whether `optimizer_state` has this replica's shards, of parameters that are whole: rows, padded at the end."""

    @property
    def has_own_process(self) -> bool:
        """Return whether a variant with the treatment shares its process with no other.

        One must that compiles while it traces, or changes what the process compiles.
        """
        return False

    @property
    def name(self) -> str:
        """Return the name that reports use."""
        return type(self).__name__

    def absence(self) -> Absence | None:
        """Return why the treatment cannot be used on this machine, None when it looks usable.

        The controlling process asks, which has not imported torch.
        """
        return None

    def divide(self, last: Stage, case: Case) -> tuple[Stage, ...]:
        """Return the stages that `last`, so far the last stage of training `case`, is divided into."""
        return (last,)

    def prepare_model(self, model: nn.Module) -> nn.Module:
        """Return the model to train; called once, on the device, before the optimizer is made."""
        return model

    def prepare_batch(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return the batch to train on; called for every micro-batch, whose tensors are on the device."""
        return batch

    def prepare_optimizer(
        self,
        model: nn.Module,
        create: Callable[[Sequence[nn.Parameter]], Optimizer],
        parameters: Sequence[nn.Parameter],
    ) -> Optimizer:
        """Return the optimizer; `create` makes what the case asks for."""
        return create(parameters)

    def parameter_name(self, name: str) -> str:
        """Return the name that a parameter or buffer had before `prepare_model` wrapped the model."""
        return name

    def shards(self, model: nn.Module) -> Mapping[str, tuple[Member, ...]]:
        """Return the parameters of the prepared `model` that hold only this replica's shard.

        The keys are names in `model`; the members have the names from before it was wrapped.
        """
        return {}

    def optimizer_state(self, optimizer: Optimizer) -> Mapping[Tensor, Mapping[str, Any]]:
        """Return the optimizer's state: parameter -> slot -> value."""
        return optimizer.state

    def why_unproven(self, trained: Trained) -> str:
        """Return why `trained` does not show that the treatment took effect; '' when it does."""
        return ""


@runtime_checkable
class Accumulates(Protocol):
    """Of a treatment that runs the micro-batches of a step."""

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        """Run all micro-batches of one step, and leave the accumulated gradients on `model`."""
        ...


@runtime_checkable
class Loops(Protocol):
    """Of a treatment that puts loops into the compiled graph."""

    @property
    def name(self) -> str:
        """Return the name that reports use."""
        ...

    def loops(self, trained: Trained) -> tuple[int, ...]:
        """Return how many iterations each loop has that every module with matrix products must have from it."""
        ...


@runtime_checkable
class Reduces(Protocol):
    """Of a treatment that combines the gradients of the replicas, once a step has accumulated its own."""

    def reduce(self, model: nn.Module, optimizer: Optimizer) -> None:
        """Put the gradients of all replicas in place of this replica's own."""
        ...


@runtime_checkable
class Clips(Protocol):
    """Of a treatment under which torch's `clip_grad_norm_` is not the way to clip."""

    def clip(self, model: nn.Module, optimizer: Optimizer, max_norm: float) -> Tensor | None:
        """Clip the gradients to the global norm `max_norm`.

        Returns:
            The norm that they had, a scalar; None where it cannot be seen.
        """
        ...


@runtime_checkable
class Checkpoints(Protocol):
    """Of a treatment under which the `state_dict` of model and optimizer is not the way to save them."""

    def save(self, model: nn.Module, optimizer: Optimizer, folder: Path, rest: Mapping[str, Any]) -> None:
        """Save what this replica holds, and `rest`, as its file in `folder`."""
        ...

    def load(self, model: nn.Module, optimizer: Optimizer, folder: Path) -> None:
        """Load what `save` has saved into `model` and `optimizer`."""
        ...


def accumulating(treatments: Sequence[Treatment]) -> Accumulates | None:
    """Return the last of `treatments` that accumulates, None when none does."""
    return next((one for one in reversed(treatments) if isinstance(one, Accumulates)), None)


def first_absence(treatments: Sequence[Treatment]) -> Absence | None:
    """Return why one of `treatments` cannot be used on this machine, None when all look usable."""
    return next((absence for treatment in treatments if (absence := treatment.absence()) is not None), None)
