"""Trainers that accumulate micro-batches wrongly, each in one way.

Catches: nothing itself; every candidate is a fault that xla_equiv must catch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from trained_case import CASE, MICRO_BATCHES, REFERENCE

from xla_equiv import Suite, Variant
from xla_equiv.treatments import StepInputs, StepOutputs, Treatment

Batches = Sequence[tuple[Tensor, ...]]


@dataclass(frozen=True, kw_only=True)
class Accumulation(Treatment):
    """The ordinary loop, with one part that can be replaced by a wrong one."""

    order: Callable[[Batches], Batches] = lambda batches: batches
    divisor: float = MICRO_BATCHES
    lost_backward: int = -1
    clip_each: float = 0.0
    returned_carried: Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], tuple[Tensor, ...]] = lambda old, new: new

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        carried, losses, total = inputs.carried, [], 0.0
        for number, batch in enumerate(self.order(inputs.batches)):
            loss, *updated = inputs.loss(model, *batch, *carried)
            carried = tuple(updated)
            share = loss / self.divisor
            if number != self.lost_backward:
                share.backward()
            if self.clip_each:
                nn.utils.clip_grad_norm_(model.parameters(), self.clip_each)
            losses.append(loss.detach())
            total = total + share.detach()
        return StepOutputs(loss=total, micro_losses=losses, carried=self.returned_carried(inputs.carried, carried))


def swap_first_two(batches: Batches) -> Batches:
    return [batches[1], batches[0], *batches[2:]]


def roll_labels(batches: Batches) -> Batches:
    return [(inputs, labels.roll(1)) for inputs, labels in batches]


@dataclass(frozen=True)
class GradientsLeft(Accumulation):
    """`zero_grad` forgotten: the gradients of the step before are still there."""

    left: dict[str, Tensor] = field(default_factory=dict)

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        for name, parameter in model.named_parameters():
            parameter.grad = self.left.get(name)
        outputs = super().accumulate(model, inputs)
        self.left.update((name, parameter.grad.clone()) for name, parameter in model.named_parameters())
        return outputs


@dataclass(frozen=True)
class BatchesOfTheStepBefore(Accumulation):
    """From the second step on, the batches are those of the step before."""

    before: list[Batches] = field(default_factory=list)

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        self.before.append(inputs.batches)
        stale = self.before[max(inputs.step - 2, 0)]
        return Accumulation(order=lambda batches: stale).accumulate(model, inputs)


class AveragedParameters(Accumulation):
    """Something moves the parameters beside the optimizer."""

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        outputs = super().accumulate(model, inputs)
        with torch.no_grad():
            model.mix.weight.mul_(0.999)
        return outputs


class RecomputedForward(Accumulation):
    """Every forward pass is run again, as a checkpoint does: the running statistics move twice."""

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        def twice(model: nn.Module, *tensors: Tensor) -> tuple[Tensor, ...]:
            with torch.no_grad():
                inputs.loss(model, *tensors)
            return inputs.loss(model, *tensors)

        repeated = StepInputs(**{**vars(inputs), "loss": twice})
        return super().accumulate(model, repeated)


MUTANTS = {
    "loss_not_divided": Accumulation(divisor=1.0),
    "loss_divided_twice": Accumulation(divisor=MICRO_BATCHES**2),
    "last_micro_batch_dropped": Accumulation(order=lambda batches: batches[:-1]),
    "last_backward_dropped": Accumulation(lost_backward=MICRO_BATCHES - 1),
    "zero_grad_forgotten": GradientsLeft(),
    "batches_swapped": Accumulation(order=swap_first_two),
    "batches_of_the_step_before": BatchesOfTheStepBefore(),
    "labels_rolled": Accumulation(order=roll_labels),
    "clipped_each_micro_batch": Accumulation(clip_each=0.05),
    "carried_stale": Accumulation(returned_carried=lambda old, new: old),
    "carried_permuted": Accumulation(returned_carried=lambda old, new: new[::-1]),
    "parameters_averaged": AveragedParameters(),
    "forward_recomputed": RecomputedForward(),
}

SUITE = Suite(
    case=CASE,
    reference=REFERENCE,
    candidates=[Variant(name, backend="cpu", treatments=[mutant]) for name, mutant in MUTANTS.items()],
)
