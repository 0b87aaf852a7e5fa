"""Variants that end their worker, or that make it hard for it, each in one way.

Catches: a run that a broken worker stops, or whose evidence is lost.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from xla_equiv import Case, ExpectedFailure, Status, Suite, Variant
from xla_equiv.treatments import LoopedAccumulation, StepInputs, StepOutputs


@dataclass(frozen=True)
class Misbehaving(LoopedAccumulation):
    """The ordinary loop; in the second step something else happens first."""

    act: Callable[[], object] = lambda: None

    def accumulate(self, model: torch.nn.Module, inputs: StepInputs) -> StepOutputs:
        if inputs.step == 2:
            self.act()
        return super().accumulate(model, inputs)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def crash_once() -> None:
    """Crash, unless it has done so before."""
    marker = Path("crashed_once")
    if not marker.exists():
        marker.touch()
        kill()


def raise_error() -> None:
    raise ArithmeticError("the second step\nis too much")


def print_much() -> None:
    """Print four megabytes, through Python and past it, to both streams."""
    for stream, descriptor in ((sys.stdout, 1), (sys.stderr, 2)):
        print("word " * 200_000, file=stream, flush=True)
        os.write(descriptor, b"\xff\x00" * 500_000)


ACTS = {
    "first": lambda: None,
    "segfault": lambda: ctypes.string_at(0),
    "killed": kill,
    "exits": lambda: os._exit(0),
    "raises": raise_error,
    "known": raise_error,
    "crashes_once": crash_once,
    "prints": print_much,
    "last": lambda: None,
}

SUITE = Suite(
    case=Case(
        build=lambda: torch.nn.Linear(3, 2),
        batch=lambda step, micro_batch, replica: (torch.rand(4, 3),),
        loss=lambda model, inputs: (model(inputs) + 1).square().mean(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        steps=2,
        micro_batches=2,
        time_limit_s=120.0,
    ),
    reference=Variant("loop", backend="cpu", treatments=[LoopedAccumulation()]),
    candidates=[
        *(Variant(name, backend="cpu", treatments=[Misbehaving(act)]) for name, act in ACTS.items()),
        Variant("no_python", backend="cpu", treatments=[LoopedAccumulation()], interpreter="/nowhere/python"),
        Variant("no_start", backend="cpu", treatments=[LoopedAccumulation()], env={"PYTHONHOME": "/nowhere"}),
    ],
    expected_failures=[
        ExpectedFailure(test="known[cpu]", status=Status.CRASHED, raises="ArithmeticError", why="known")
    ],
)
