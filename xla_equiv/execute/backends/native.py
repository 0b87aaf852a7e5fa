"""Backend `cpu`: PyTorch's own kernels."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING

from xla_equiv.execute.backends.backend import Absence, Backend
from xla_equiv.values.spread import Spread

if TYPE_CHECKING:
    import torch


class NativeCpu(Backend):
    """Native PyTorch on the CPU, eager. Replicas are processes that talk by gloo."""

    name = "cpu"
    device_classes = "cpu"
    spreads = (Spread.ONE, Spread.REPLICAS)

    def absence(self, devices: int = 1) -> Absence | None:
        if importlib.util.find_spec("torch") is None:
            return Absence("torch is not installed", "pip install 'torch==2.9.*'")
        return None

    def device(self) -> torch.device:
        import torch

        return torch.device("cpu")

    def device_class(self) -> str:
        return "cpu"

    def run_replicas(self, replicas: int, body: Callable[[int], None]) -> None:
        from xla_equiv.execute.replicas.processes import run_processes

        run_processes(replicas, body)
