"""torch_xla's process group, for replicas that are threads of one process."""

from __future__ import annotations

import datetime
from typing import Any

import torch_xla
import torch_xla.core.xla_model as xm
from torch import Tensor
from torch_xla.distributed.xla_backend import ProcessGroupXla, _ret_work

TIMEOUT = datetime.timedelta(seconds=60)


class LockstepGroup(ProcessGroupXla):  # type: ignore[misc] # torch_xla is not typed
    """All replicas of a lockstep.

    Reductions are torch_xla's own. DistributedDataParallel reads what it has broadcast or gathered at once,
    so that these execute before and after (a broadcast by `lockstep_collectives`); and the root of a broadcast
    is not looked up in the registry of `torch.distributed`, which knows one group for the process, not one for
    each thread.

    Args:
        rank: this replica.
        ranks: how many there are.
    """

    def __init__(self, rank: int, ranks: int) -> None:
        super().__init__(None, rank, ranks, TIMEOUT)

    def allreduce(self, tensors: list[Tensor], opts: Any) -> Any:
        """Reduce gradients; or count which parameters were used, which is read at once."""
        counts = not tensors[0].is_floating_point()
        if counts:
            torch_xla.sync()
        work = super().allreduce(tensors, opts)
        if counts:
            torch_xla.sync()
        return work

    def broadcast(self, tensors: list[Tensor], opts: Any) -> Any:
        """Overwrite the tensor with that of the root."""
        torch_xla.sync()
        root = tensors[opts.rootTensor]
        xm.collective_broadcast([root], opts.rootRank, groups=None, pin_layout=False)
        return _ret_work([root])

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> Any:
        """Fill `outputs` with the inputs of all ranks."""
        torch_xla.sync()
        work = super().allgather(outputs, inputs, opts)
        torch_xla.sync()
        return work
