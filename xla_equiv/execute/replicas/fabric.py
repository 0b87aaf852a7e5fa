"""Lightning Fabric's own `XLAFSDPStrategy`, in a program that has been started as a replica already.

Fabric assumes TPU chips and one process for each of them in three places: which devices there are, how the
replicas start, and when the result of a collective may be read. Each is answered here by a subclass; all the
rest is Fabric's own code, private names of which are used twice: `_Launcher`, and `_configure_launcher`, where a
strategy chooses its launcher.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
import torch_xla
from lightning_fabric import Fabric
from lightning_fabric.accelerators.xla import XLAAccelerator
from lightning_fabric.strategies.launchers.launcher import _Launcher
from lightning_fabric.strategies.xla_fsdp import XLAFSDPStrategy
from lightning_fabric.utilities.rank_zero import rank_zero_only
from torch import Tensor
from torch.utils.data import DataLoader

from xla_equiv.execute.replicas.replica import Replica, at_each_turn, current_replica

StateDictType = Literal["full", "sharded"]
"""How a checkpoint holds the model: whole in one file, or a file for each replica."""


def replica_fabric(*, state_dict_type: StateDictType = "sharded", **fsdp_options: Any) -> Fabric:
    """Return a launched `Fabric` for the replica whose code runs. Each needs its own, for a `Fabric` keeps its rank.

    Args:
        state_dict_type: how `save` and `load` hold the model.
        fsdp_options: further arguments of `XLAFSDPStrategy`. Layouts are not pinned unless they say so: a pinned
            all-gather is an all-reduce of padding that depends on the rank.
    """
    at_each_turn(_hand_on_rank)
    strategy = ReplicaFSDPStrategy(
        state_dict_type=state_dict_type, **{"pin_layout_in_collective_ops": False, **fsdp_options}
    )
    fabric = Fabric(accelerator=ReplicaAccelerator(), strategy=strategy, devices="auto")
    fabric.launch()  # with a function, Fabric would patch DataLoader meanwhile, for all replicas of the process
    return fabric


def _hand_on_rank(replica: Replica) -> None:
    """Set the rank that Fabric keeps once for the whole process: by it only rank 0 warns and logs."""
    rank_zero_only.rank = replica.rank  # type: ignore[attr-defined] # Fabric hangs it on the function


class ReplicaAccelerator(XLAAccelerator):
    """An XLA accelerator that has one device for each replica; Fabric's own counts TPU chips on the PCI bus."""

    @staticmethod
    def is_available() -> bool:  # type: ignore[override] # Fabric's own keeps its answer
        """Return that there is a device."""
        return True

    @staticmethod
    def auto_device_count() -> int:  # type: ignore[override]
        """Return the number of replicas."""
        return current_replica().ranks

    @staticmethod
    def parse_devices(devices: int | str | list[int]) -> int:
        """Return the number of devices, which must be all of them."""
        if devices != current_replica().ranks:
            raise ValueError(f"devices must be 'auto' or {current_replica().ranks}, one for each replica; got {devices!r}")
        return current_replica().ranks

    @staticmethod
    def get_parallel_devices(devices: int | list[int]) -> list[torch.device]:
        """Return all devices."""
        return [torch.device("xla", index) for index in range(ReplicaAccelerator.parse_devices(devices))]


class CurrentProgramLauncher(_Launcher):
    """Calls the function where it is, in a replica; Fabric's own starts processes."""

    @property
    def is_interactive_compatible(self) -> bool:
        """Return that it can be used in a notebook."""
        return True

    def launch(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return what `function` returns."""
        return function(*args, **kwargs)


class ReplicaFSDPStrategy(XLAFSDPStrategy):
    """`XLAFSDPStrategy` that executes the graphs of all replicas before the result of a collective is read.

    On TPU any read executes the pending graph, and the other processes do the same in their own time. Replicas
    in lockstep would execute one graph alone, which waits for the others for ever.
    """

    def _configure_launcher(self) -> None:
        self._launcher = CurrentProgramLauncher()

    def all_reduce(self, output: Tensor | Any, group: Any = None, reduce_op: Any = None) -> Tensor:
        """Return the reduction of `output`, as Fabric does."""
        torch_xla.sync()
        return super().all_reduce(output, group, reduce_op)

    def all_gather(self, tensor: Tensor, group: Any = None, sync_grads: bool = False) -> Tensor:
        """Return the tensors of all replicas, as Fabric does."""
        gathered = super().all_gather(tensor.to(self.root_device), group, sync_grads)
        torch_xla.sync()
        return gathered.to(tensor.device)

    def reduce_boolean_decision(self, decision: bool, all: bool = True) -> bool:  # noqa: A002 (Fabric's name)
        """Return whether all, or any, replicas say yes; a decision becomes a constant of the graph that is pending."""
        torch_xla.sync()
        return super().reduce_boolean_decision(decision, all)

    def process_dataloader(self, dataloader: DataLoader[Any]) -> DataLoader[Any]:
        """Return the loader as it is, whose batches Fabric moves: `MpDeviceLoader` runs Python in threads of its own."""
        return dataloader
