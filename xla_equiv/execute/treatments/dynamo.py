"""The model or the whole micro-batch compiled by torch.compile, instead of traced anew at every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from xla_equiv.execute.treatments.looped import LoopedAccumulation
from xla_equiv.values.treatment import StepInputs, StepOutputs, Trained, Treatment

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

BACKEND = "openxla"


@dataclass(frozen=True, kw_only=True)
class DynamoForward(Treatment):
    """The forward pass is compiled by torch.compile, and with it, through AOTAutograd, the backward pass.

    Args:
        graphs: how many graphs dynamo is expected to make of the model.

    Source:
        torch.compile(backend="openxla"), torch_xla._dynamo.dynamo_backend.
    """

    graphs: int = 1

    @property
    def has_own_process(self) -> bool:
        return True

    def prepare_model(self, model: nn.Module) -> nn.Module:
        import torch

        _forget()
        return cast("nn.Module", torch.compile(model, backend=BACKEND))

    def parameter_name(self, name: str) -> str:
        return name.removeprefix("_orig_mod.")

    def why_unproven(self, trained: Trained) -> str:
        return _why_not_captured(self, self.graphs, allowed_breaks=0)


@dataclass(frozen=True, kw_only=True)
class DynamoStep(LoopedAccumulation):
    """Loss and backward pass of a micro-batch are compiled by torch.compile, as one function, and the update if asked for.

    Dynamo leaves the graph at the call of `backward`, which it never captures: one break, and one graph for the loss.
    The optimizer's `step` breaks it once more, and has a graph of its own; a second one where the first step makes the
    state. What is pending executes before it: torch_xla 2.9.0 gives the buffers of the gradients away, and a norm or a
    copy that is computed from them later finds them deleted.

    Args:
        optimizer: compile the optimizer's `step` as well, and with it the whole training step.
        graphs: how many graphs dynamo is expected to make.
        breaks: how often it is expected to leave the graph.

    Source:
        torch.compile(backend="openxla"), torch_xla._dynamo.dynamo_backend.
    """

    optimizer: bool = False
    graphs: int = 1
    breaks: int = 1

    @property
    def has_own_process(self) -> bool:
        return True

    def prepare_model(self, model: nn.Module) -> nn.Module:
        _forget()
        return model

    def prepare_optimizer(
        self,
        model: nn.Module,
        create: Callable[[Sequence[nn.Parameter]], Optimizer],
        parameters: Sequence[nn.Parameter],
    ) -> Optimizer:
        import torch
        import torch_xla

        made = create(parameters)
        if self.optimizer:
            compiled = torch.compile(made.step, backend=BACKEND)

            def step() -> None:
                torch_xla.sync()
                compiled()

            vars(made)["step"] = step
        return made

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        import torch

        share = 1.0 / len(inputs.batches)

        def micro_batch(*tensors: Tensor) -> Tensor:
            loss = cast("Tensor", inputs.loss(model, *tensors))
            (loss * share).backward()  # type: ignore[no-untyped-call]
            return loss

        compiled = torch.compile(micro_batch, backend=BACKEND)
        losses = [compiled(*batch).detach() for batch in inputs.batches]
        return StepOutputs(loss=torch.stack(losses).mean(), micro_losses=losses)

    def why_unproven(self, trained: Trained) -> str:
        return _why_not_captured(self, self.graphs, allowed_breaks=self.breaks)


def _forget() -> None:
    """Drop what dynamo captured and counted so far."""
    import torch

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def _why_not_captured(treatment: Treatment, graphs: int, *, allowed_breaks: int) -> str:
    """Return why dynamo did not capture what it was given; '' when it did."""
    import torch

    counters = torch._dynamo.utils.counters
    captured, breaks = counters["stats"]["unique_graphs"], counters["graph_break"]
    if not captured:
        return f"{treatment.name}: dynamo captured no graph; the model ran without it"
    if sum(breaks.values()) > allowed_breaks:
        reason = " ".join(str(next(iter(breaks))).split())
        return f"{treatment.name}: dynamo left the graph {sum(breaks.values())} times, first: {reason:.120}"
    return "" if captured == graphs else f"{treatment.name}: dynamo made {captured} graphs, not {graphs}"
