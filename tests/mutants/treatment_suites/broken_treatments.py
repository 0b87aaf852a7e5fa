"""Treatments that say they took effect, and did not: the numbers agree, or nearly so, and the proof is missing.

Catches: nothing itself.
"""

from typing import Any

import torch
from torch import Tensor, nn

from suites.models.alike_layers import blocks_case
from xla_equiv import Suite, Tolerance, Variant
from xla_equiv.treatments import (
    KEEP_BARRIERS,
    Autocast,
    Checkpointing,
    DynamoForward,
    LoopedAccumulation,
    MatmulPrecision,
    ScanLayers,
    StepInputs,
    StepOutputs,
    Treatment,
    WhileAccumulation,
)


class CheckpointNotApplied(Checkpointing):
    """Checkpoints nothing."""

    def prepare_model(self, model: nn.Module) -> nn.Module:
        return model


class CheckpointOfOneLayer(Checkpointing):
    """Checkpoints the first of the layers."""

    def prepare_model(self, model: nn.Module) -> nn.Module:
        return Checkpointing(modules=("layers.0",)).prepare_model(model)


class CheckpointThatKeeps(Checkpointing):
    """Calls each layer once, and keeps its activations."""

    def _function(self) -> Any:
        return lambda function, *arguments: function(*arguments)


class CheckpointThatRunsTwice(Checkpointing):
    """Calls each layer twice before the backward pass, and keeps the activations of the second call."""

    def _function(self) -> Any:
        return lambda function, *arguments: (function(*arguments), function(*arguments))[1]


class SilentLoop(WhileAccumulation):
    """Runs the Python loop."""

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        return LoopedAccumulation().accumulate(model, inputs)


class LoopAfterTheFirstStep(WhileAccumulation):
    """Runs the While in the first step, and the Python loop in all that follow."""

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        treatment = WhileAccumulation() if inputs.step == 1 else LoopedAccumulation()
        return treatment.accumulate(model, inputs)


class AutocastOff(Autocast):
    """Leaves autocast off."""

    def prepare_model(self, model: nn.Module) -> nn.Module:
        return model


class AutocastOfOneLayer(Autocast):
    """Runs the first of the layers under autocast."""

    def prepare_model(self, model: nn.Module) -> nn.Module:
        Autocast().prepare_model(model.get_submodule("layers.0"))
        forward = model.forward
        prepared = super().prepare_model(model)
        prepared.forward = forward  # type: ignore[method-assign]
        return prepared


class ScanFallsBack(ScanLayers):
    """Leaves the layers in their Python loop."""

    def prepare_model(self, model: nn.Module) -> nn.Module:
        return model


class DynamoFallsBack(DynamoForward):
    """Compiles a model that dynamo must not look into."""

    def prepare_model(self, model: nn.Module) -> nn.Module:
        model.forward = torch.compiler.disable(model.forward)  # type: ignore[method-assign]
        return super().prepare_model(model)


class DynamoBreaks(DynamoForward):
    """Compiles a model that leaves the graph before it returns."""

    def prepare_model(self, model: nn.Module) -> nn.Module:
        forward = model.forward

        def leaving(inputs: Tensor) -> Tensor:
            output: Tensor = forward(inputs)
            torch._dynamo.graph_break()
            return output * 1.0

        model.forward = leaving  # type: ignore[method-assign]
        return super().prepare_model(model)


class PrecisionSetTooLate(MatmulPrecision):
    """Sets the precision when the graphs of a step have been compiled, which are then used again."""

    batches = 0

    def prepare_model(self, model: nn.Module) -> nn.Module:
        return model

    def prepare_batch(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        type(self).batches += 1
        if self.batches == 2 * 2 + 1:
            super().prepare_model(nn.Identity())
        return batch


class StaleBatch(LoopedAccumulation):
    """Runs what was compiled for the first micro-batch, whose values it has kept, for all that follow."""

    kept: tuple[Tensor, ...] = ()

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        type(self).kept = self.kept or inputs.batches[0]
        stale = StepInputs(**{**vars(inputs), "batches": [self.kept] * len(inputs.batches)})
        return super().accumulate(model, stale)


def variant(name: str, *treatments: Treatment, **options: Any) -> Variant:
    return Variant(name, backend="xla:cpu", treatments=treatments, **options)


LOOP = LoopedAccumulation()
LAYERS = ("layers.*",)
NARROW = {"*": Tolerance(rtol=0.1, atol=0.1, why="as wide as bfloat16 would need: only the proof can tell")}

SUITE = Suite(
    case=blocks_case(seed=20),
    reference=variant("loop", LOOP),
    candidates=[
        variant("checkpoint_not_applied", CheckpointNotApplied(modules=LAYERS), LOOP, env=KEEP_BARRIERS),
        variant("checkpoint_of_one_layer", CheckpointOfOneLayer(modules=LAYERS), LOOP, env=KEEP_BARRIERS),
        variant("checkpoint_that_keeps", CheckpointThatKeeps(modules=LAYERS), LOOP, env=KEEP_BARRIERS),
        variant("checkpoint_that_runs_twice", CheckpointThatRunsTwice(modules=LAYERS), LOOP, env=KEEP_BARRIERS),
        variant("silent_loop", SilentLoop()),
        variant("loop_after_the_first_step", LoopAfterTheFirstStep()),
        variant("autocast_of_one_layer", AutocastOfOneLayer(), LOOP),
        variant("autocast_off", AutocastOff(), LOOP),
        variant("scan_falls_back", ScanFallsBack(), LOOP),
        variant("dynamo_falls_back", DynamoFallsBack(), LOOP),
        variant("dynamo_breaks", DynamoBreaks(), LOOP),
        variant("precision_set_too_late", PrecisionSetTooLate(precision="highest"), LOOP),
        variant("stale_batch", StaleBatch()),
    ],
    test_tolerance={"autocast_*": NARROW},
)
