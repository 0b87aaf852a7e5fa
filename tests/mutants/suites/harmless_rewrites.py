"""Trainers that are written otherwise and compute the same: none may be refused.

Catches: a comparison that is too strict to be of use.
"""

import copy
from dataclasses import replace

import torch
from torch import Tensor, nn
from trained_case import CASE, REFERENCE

from xla_equiv import Suite, Variant
from xla_equiv.treatments import LoopedAccumulation, StepInputs, StepOutputs


class Unchanged(LoopedAccumulation):
    """The reference once more."""


class SummedBackwards(LoopedAccumulation):
    """The gradients of the micro-batches are added up from the last to the first."""

    dtype = torch.float32

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        parameters, carried, losses, gradients = list(model.parameters()), inputs.carried, [], []
        for batch in inputs.batches:
            loss, *updated = inputs.loss(model, *batch, *carried)
            carried = tuple(updated)
            losses.append(loss.detach())
            gradients.append([g.to(self.dtype) for g in torch.autograd.grad(loss / len(inputs.batches), parameters)])
        for parameter, *parts in zip(parameters, *reversed(gradients), strict=True):
            parameter.grad = sum(parts[1:], parts[0]).float()
        return StepOutputs(loss=torch.stack(losses).mean(), micro_losses=losses, carried=carried)


class SummedInFloat64(SummedBackwards):
    """... in float64, rounded in the end."""

    dtype = torch.float64


class OneBackward(LoopedAccumulation):
    """One backward pass through the mean of all losses."""

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        carried, losses = inputs.carried, []
        for batch in inputs.batches:
            loss, *updated = inputs.loss(model, *batch, *carried)
            carried = tuple(updated)
            losses.append(loss)
        mean = torch.stack(losses).mean()
        mean.backward()
        return StepOutputs(loss=mean.detach(), micro_losses=[loss.detach() for loss in losses], carried=carried)


class DividedAfterwards(LoopedAccumulation):
    """The gradients are summed up as they are, and divided once."""

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        count = len(inputs.batches)

        def scaled(model: nn.Module, *tensors: Tensor) -> tuple[Tensor, ...]:
            loss, *carried = inputs.loss(model, *tensors)
            return loss * count, *carried

        outputs = super().accumulate(model, replace(inputs, loss=scaled))
        for parameter in model.parameters():
            parameter.grad = parameter.grad / count
        losses = [loss / count for loss in outputs.micro_losses]
        return replace(outputs, loss=outputs.loss / count, micro_losses=losses)


class SeparateBuffer(LoopedAccumulation):
    """The gradients are gathered in tensors of their own, and copied to the model in the end."""

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        buffers = {parameter: torch.zeros_like(parameter) for parameter in model.parameters()}
        carried, losses = inputs.carried, []
        for batch in inputs.batches:
            model.zero_grad(set_to_none=True)
            loss, *updated = inputs.loss(model, *batch, *carried)
            carried = tuple(updated)
            loss.backward()
            losses.append(loss.detach())
            for parameter, buffer in buffers.items():
                buffer.add_(parameter.grad, alpha=1 / len(inputs.batches))
        for parameter, buffer in buffers.items():
            parameter.grad.copy_(buffer)
        return StepOutputs(loss=sum(losses) / len(losses), micro_losses=losses, carried=carried)


class ZeroedGradients(LoopedAccumulation):
    """The gradients start as zeros, not as None."""

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        model.zero_grad(set_to_none=False)
        return super().accumulate(model, inputs)


class CopiedModel(LoopedAccumulation):
    """The model is a deep copy, with its parameters loaded once more."""

    def prepare_model(self, model: nn.Module) -> nn.Module:
        twin = copy.deepcopy(model)
        twin.load_state_dict(model.state_dict())
        return twin


class Reshaped(LoopedAccumulation):
    """Reshapes, copies and contiguity that change nothing."""

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        batches = [(x.t().contiguous().t(), y.reshape(-1, 1).clone().view(-1)) for x, y in inputs.batches]
        carried = tuple(tensor.reshape(1, -1).squeeze(0).clone() for tensor in inputs.carried)
        return super().accumulate(model, replace(inputs, batches=batches, carried=carried))


REWRITES = (
    Unchanged,
    SummedBackwards,
    SummedInFloat64,
    OneBackward,
    DividedAfterwards,
    SeparateBuffer,
    ZeroedGradients,
    CopiedModel,
    Reshaped,
)

SUITE = Suite(
    case=CASE,
    reference=REFERENCE,
    candidates=[Variant(rewrite.__name__, backend="cpu", treatments=[rewrite()]) for rewrite in REWRITES],
)
