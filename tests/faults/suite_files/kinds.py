"""One variant for each way in which a test can end.

Catches: a face that shows one ending as another.
"""

import torch

from xla_equiv import Case, ExpectedFailure, Skip, Status, Suite, Variant
from xla_equiv.treatments import LoopedAccumulation, StepInputs, StepOutputs

LOOP = [LoopedAccumulation()]


class Scaled(LoopedAccumulation):
    """The ordinary loop; the gradients are a thousandth too large."""

    def accumulate(self, model: torch.nn.Module, inputs: StepInputs) -> StepOutputs:
        outputs = super().accumulate(model, inputs)
        for parameter in model.parameters():
            parameter.grad *= 1.001
        return outputs


class Raising(LoopedAccumulation):
    """Raises."""

    def accumulate(self, model: torch.nn.Module, inputs: StepInputs) -> StepOutputs:
        raise ArithmeticError("too much")


SUITE = Suite(
    case=Case(
        build=lambda: torch.nn.Linear(3, 2),
        batch=lambda step, micro_batch, replica: (torch.rand(4, 3),),
        loss=lambda model, inputs: (model(inputs) + 1).square().mean(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        steps=2,
        micro_batches=2,
    ),
    reference=Variant("trusted", backend="cpu", treatments=LOOP),
    candidates=[
        Variant("agrees", backend="cpu", treatments=LOOP),
        Variant("differs", backend="cpu", treatments=[Scaled()]),
        Variant("without_golden", backend="cpu", treatments=LOOP),
        Variant("absent", backend="xla:tpu", treatments=LOOP),
        Variant("known", backend="cpu", treatments=[Scaled()]),
        Variant("mended", backend="cpu", treatments=LOOP),
        Variant("otherwise", backend="cpu", treatments=[Raising()]),
        Variant("skipped", backend="cpu", treatments=LOOP),
    ],
    expected_failures=[
        ExpectedFailure(test="known[cpu]", status=Status.OUTSIDE, why="the gradients are too large"),
        ExpectedFailure(test="mended[cpu]", status=Status.OUTSIDE, why="the gradients were too large"),
        ExpectedFailure(test="otherwise[cpu]", status=Status.OUTSIDE, why="the gradients were too large"),
    ],
    skips=[Skip(test="skipped[cpu]", why="it makes no sense")],
)
