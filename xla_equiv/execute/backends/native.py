"""Backend `cpu`: PyTorch's own kernels."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from xla_equiv.execute.backends.backend import Absence, Backend

if TYPE_CHECKING:
    import torch


class NativeCpu(Backend):
    """Native PyTorch on the CPU, eager."""

    name = "cpu"
    device_classes = "cpu"

    def absence(self) -> Absence | None:
        if importlib.util.find_spec("torch") is None:
            return Absence("torch is not installed", "pip install 'torch==2.9.*'")
        return None

    def device(self) -> torch.device:
        import torch

        return torch.device("cpu")

    def device_class(self) -> str:
        return "cpu"
