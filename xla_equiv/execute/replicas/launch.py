"""Replicas on a TPU: torch_xla's own launcher, one process for each chip."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xla_equiv.execute.replicas.replica import Replica, set_current_replica

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def launch(replicas: int, body: Callable[[int], None]) -> None:
    """Call `body(rank)` in one process for each device. The calling process must not have used the device.

    Raises:
        RuntimeError: the machine has another number of devices.
    """
    import torch_xla

    torch_xla.launch(_replica, args=(replicas, body))


def _replica(rank: int, replicas: int, body: Callable[[int], None]) -> None:
    import torch_xla.runtime as xr

    if xr.world_size() != replicas:
        raise RuntimeError(f"the case has {replicas} replicas, the machine {xr.world_size()} devices")
    set_current_replica(Replica(rank, replicas, _process_group))
    body(rank)


def _process_group() -> ProcessGroup:
    """Return torch's default process group over XLA, started at first use."""
    import torch.distributed as dist
    import torch_xla.distributed.xla_backend  # noqa: F401  (registers the backend)

    if not dist.is_initialized():
        dist.init_process_group("xla", init_method="xla://")
    assert dist.group.WORLD is not None
    return dist.group.WORLD
