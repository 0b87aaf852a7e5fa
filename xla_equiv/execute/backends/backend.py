"""What a backend is: where a variant runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Absence:
    """Why a backend cannot be used here, and what would make it usable."""

    reason: str
    remedy: str


class Backend:
    """Where a variant runs. Subclass it in a file of its own and register it.

    `absence` and `process_env` are asked by the controlling process, which has not imported torch;
    everything else is asked inside the worker.
    """

    name: str
    device_classes: str
    """Pattern of the device classes that goldens of this backend carry, such as `tpu-*`."""
    packages: tuple[str, ...] = ("torch",)
    """Distributions whose versions explain this backend's numbers."""

    is_exclusive: bool = False
    """Whether only one process at a time can have the device."""

    def absence(self) -> Absence | None:
        """Return why the backend cannot be used on this machine, None when it looks usable."""
        return None

    def process_env(self) -> Mapping[str, str]:
        """Return the environment variables of a worker process of this backend."""
        return {}

    def device(self) -> torch.device:
        """Return the device to train on, having brought it up."""
        raise NotImplementedError

    def device_class(self) -> str:
        """Return the kind of device that goldens are kept for, such as `cpu` or `tpu-v5e`."""
        raise NotImplementedError

    def seed(self, seed: int) -> None:
        """Seed the device's own generator."""

    def sync(self) -> None:
        """End the traced graph, execute it and wait for the device."""

    def compile_s(self) -> float:
        """Return the seconds spent compiling in this process so far."""
        return 0.0
