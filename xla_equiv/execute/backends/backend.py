"""What a backend is: where a variant runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from xla_equiv.values.absence import Absence as Absence
from xla_equiv.values.errors import SelectionError
from xla_equiv.values.spread import Spread

if TYPE_CHECKING:
    import torch


class Backend(ABC):
    """Where a variant runs. Subclass it in a file of its own and register it.

    `absence` and `process_env` are asked by the controlling process, which has not imported torch;
    everything else is asked inside the worker.
    """

    name: str
    device_classes: str
    """Pattern of the device classes that goldens of this backend carry, such as `tpu-*`."""
    packages: tuple[str, ...] = ("torch",)
    """Distributions whose versions explain this backend's numbers."""

    spreads: tuple[Spread, ...] = (Spread.ONE,)
    """How the backend can cover the replicas of a case."""

    is_exclusive: bool = False
    """Whether only one process at a time can have the device."""

    def absence(self, devices: int = 1) -> Absence | None:
        """Return why `devices` devices of the backend cannot be used on this machine, None when it looks usable."""
        return None

    def process_env(self, spread: Spread = Spread.ONE, replicas: int = 1) -> Mapping[str, str]:
        """Return the environment variables of a worker process that runs cases of `replicas` replicas."""
        return {}

    def start(self, spread: Spread) -> None:
        """Prepare the process for `spread`, before the device is brought up."""

    def run_replicas(self, replicas: int, body: Callable[[int], None]) -> None:
        """Call `body(rank)` once for each replica, each on its own device, and return when all have ended.

        Args:
            replicas: how many.
            body: can be pickled, for a runtime that starts processes.

        Raises:
            ReplicaFailed: a replica raised; the others were stopped.
            SelectionError: the backend does not say how, though its `spreads` may promise it.
        """
        raise SelectionError(
            f"the backend {self.name!r} does not say how to run {replicas} replicas",
            next=f"override run_replicas in {type(self).__name__}, or leave Spread.REPLICAS out of its spreads",
        )

    @abstractmethod
    def device(self) -> torch.device:
        """Return the device to train on, having brought it up."""

    @abstractmethod
    def device_class(self) -> str:
        """Return the kind of device that goldens are kept for, such as `cpu` or `tpu-v5e`."""

    def seed(self, seed: int) -> None:
        """Seed the device's own generator."""

    def generator_seed(self) -> int:
        """Return what `seed` would have to be given for the device's generator to go on as it would now."""
        return 0

    def sync(self) -> None:
        """End the traced graph, execute it and wait for the device."""

    def compile_s(self) -> float:
        """Return the seconds spent compiling in this process so far."""
        return 0.0
