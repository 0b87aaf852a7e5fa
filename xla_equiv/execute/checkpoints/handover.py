"""What a stage of a training takes up from the one before, and leaves to the one after."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from xla_equiv.execute.backends import Backend
from xla_equiv.execute.checkpoints.resharding import (
    check_consolidated,
    load_consolidated_model,
    load_consolidated_optimizer,
)
from xla_equiv.execute.checkpoints.shard_files import check_shards
from xla_equiv.execute.checkpoints.sharded import PROCESS, load_model_shard, load_optimizer_shard, save_shard
from xla_equiv.execute.replicas.replica import Replica
from xla_equiv.execute.wrapped import WrappedModel
from xla_equiv.store.stage_traces import checkpoint_folder
from xla_equiv.values.errors import CheckpointError
from xla_equiv.values.stages import Form, Stage


def check_checkpoint(folder: Path, stage: Stage) -> None:
    """Check that `stage` can take up the checkpoint in `folder`, all of it, before any of its replicas starts.

    Raises:
        CheckpointError: it cannot.
    """
    if stage.takes is Form.SHARDED:
        check_shards(folder, ranks=stage.programs, step=stage.first - 1)
    else:
        check_consolidated(folder, step=stage.first - 1)


class Handover:
    """The checkpoints at both ends of one replica's stage; it does nothing where there are none.

    Args:
        stage: which.
        folder: of the trace of the whole run; the checkpoints lie in it.
        replica: whose part of them.
        run: identifies the run.
    """

    def __init__(self, stage: Stage, folder: Path, *, replica: Replica, run: str) -> None:
        self._stage, self._replica, self._run = stage, replica, run
        self._taken = checkpoint_folder(folder, stage.first - 1)
        self._left = checkpoint_folder(folder, stage.last)

    def fill(self, module: nn.Module) -> None:
        """Load whole parameters into `module`, as the case built it, if the stage takes up consolidated ones."""
        if self._stage.takes is Form.CONSOLIDATED:
            load_consolidated_model(self._taken, module)

    def fill_shards(self, model: WrappedModel) -> None:
        """Load this replica's shards into `model`, which has no optimizer yet, if the stage takes up sharded ones."""
        if self._stage.takes is Form.SHARDED:
            load_model_shard(self._taken, model, replica=self._replica)

    def take_up(
        self, model: WrappedModel, optimizer: torch.optim.Optimizer, carried: tuple[Tensor, ...], backend: Backend
    ) -> tuple[tuple[Tensor, ...], str]:
        """Load the rest of what the stage before has left.

        Returns:
            The carried tensors, and why resuming proves nothing; '' when it does.

        Raises:
            CheckpointError: it does not fit what is to go on.
        """
        if self._stage.takes is None:
            return carried, ""
        if self._stage.takes is Form.SHARDED:
            origin, rest = load_optimizer_shard(self._taken, model, optimizer, replica=self._replica)
        else:
            origin, rest = load_consolidated_optimizer(self._taken, model, optimizer, replica=self._replica)
        backend.sync()
        if rest:
            torch.set_rng_state(rest["generator"])
            backend.seed(rest["device_seed"])  # every execution moves the device's generator on: none may follow
            carried = tuple(saved.to(tensor.device) for tensor, saved in zip(carried, rest["carried"], strict=True))
        elif carried:
            raise CheckpointError(
                f"{self._taken.name} has carried tensors of {origin.ranks} replicas, and {self._replica.ranks} are to go on",
                details=[("where", str(self._taken)), ("because", "each replica carries its own")],
                next=f"resume on {origin.ranks} replicas",
            )
        alike = origin.process == PROCESS
        return carried, "Resumed: the process that saved the checkpoint has loaded it, too" if alike else ""

    def leave(
        self, model: WrappedModel, optimizer: torch.optim.Optimizer, carried: tuple[Tensor, ...], backend: Backend
    ) -> None:
        """Save what the stage after goes on with, if there is one."""
        if self._stage.leaves is not None:
            rest = {
                "carried": list(carried),
                "generator": torch.get_rng_state(),
                "device_seed": backend.generator_seed(),
            }
            save_shard(
                self._left, model, optimizer, replica=self._replica, run=self._run, step=self._stage.last, rest=rest
            )
