"""Ten variants on two backends with dropout; all but the last leave the process in another state than before.

Catches: state that a job leaves behind for the next one in its worker.
"""

import random
from dataclasses import dataclass

import numpy as np
import torch

from xla_equiv import Case, Suite, Variant
from xla_equiv.treatments import LoopedAccumulation, StepInputs, StepOutputs, WhileAccumulation

KEPT = []
"""Tensors that jobs leave behind, some of which nobody has computed yet."""


def loss(model: torch.nn.Module, inputs: torch.Tensor, *carried: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return a loss, and the state of the process as it is seen from inside a step."""
    state = (
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_anomaly_enabled(),
        torch.get_default_dtype().itemsize,
        torch.tensor([1e-40]).mul(1).item() > 0,
    )
    seen = torch.tensor(state, dtype=torch.float32, device=inputs.device)
    return (model(inputs) + 1).square().mean(), 0.5 * carried[0] + seen


def draw(inputs: StepInputs) -> None:
    torch.rand(7)
    torch.rand(7, device=inputs.batches[0][0].device)
    random.random()
    np.random.rand(3)


def leave_pending(inputs: StepInputs) -> None:
    KEPT.append(torch.rand(3, device=inputs.batches[0][0].device) + len(KEPT))


SPOILERS = {
    "draws": draw,
    "seeds": lambda inputs: (torch.manual_seed(1), random.seed(1), np.random.seed(1)),
    "float64": lambda inputs: torch.set_default_dtype(torch.float64),
    "threads": lambda inputs: torch.set_num_threads(1),
    "deterministic": lambda inputs: torch.use_deterministic_algorithms(True, warn_only=True),
    "no_grad": lambda inputs: torch.set_grad_enabled(False),
    "anomaly": lambda inputs: torch.autograd.set_detect_anomaly(True),
    "pending": leave_pending,
    "denormal": lambda inputs: torch.set_flush_denormal(True),
}


@dataclass(frozen=True)
class Spoiling(LoopedAccumulation):
    """The ordinary loop, after which the state of the process is another."""

    spoiler: str = ""

    def accumulate(self, model: torch.nn.Module, inputs: StepInputs) -> StepOutputs:
        outputs = super().accumulate(model, inputs)
        if inputs.step == 2:
            SPOILERS[self.spoiler](inputs)
        return outputs


LOOP = [LoopedAccumulation()]

SUITE = Suite(
    case=Case(
        build=lambda: torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.Dropout(0.3), torch.nn.Linear(32, 2)),
        batch=lambda step, micro_batch, replica: (torch.rand(16, 6),),
        loss=loss,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
        steps=2,
        micro_batches=2,
        clip_norm=1.0,
        carried=lambda: (torch.zeros(5),),
    ),
    reference=Variant("loop", backend="cpu", treatments=LOOP, env={"OF_ITS": "OWN"}),
    candidates=[
        *(
            Variant(name, backend=backend, treatments=[Spoiling(spoiler=name)])
            for backend in ("cpu", "xla:cpu")
            for name in SPOILERS
        ),
        Variant("last_loop", backend="cpu", treatments=LOOP),
        Variant("last_loop", backend="xla:cpu", treatments=LOOP),
        Variant("last_while", backend="xla:cpu", treatments=[WhileAccumulation()]),
    ],
)
