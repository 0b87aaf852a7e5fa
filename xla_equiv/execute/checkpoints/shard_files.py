"""The files of a sharded checkpoint: one for each rank, all from the same step of the same run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xla_equiv.execute.checkpoints.files import AGAIN, Origin, place, read_sealed
from xla_equiv.values.errors import CheckpointError

PATTERN = "checkpoint_rank-*-of-*.pth"
NAME = re.compile(r"checkpoint_rank-(\d+)-of-(\d+)\.pth")
"""The names that Lightning's XLAFSDPStrategy gives its files."""

STATES = ("model", "shard_metadata", "optimizer")
"""What torch_xla's documentation of XlaFullyShardedDataParallel says must be saved."""


@dataclass(frozen=True)
class Shard:
    """The content of one file: its path, where it comes from, and its states by name."""

    path: Path
    origin: Origin
    states: Mapping[str, Any]


def shard_path(folder: Path, rank: int, ranks: int) -> Path:
    """Return the file of `rank` in the checkpoint `folder`."""
    return folder / f"checkpoint_rank-{rank:08d}-of-{ranks:08d}.pth"


def read_shard(path: Path) -> Shard:
    """Return the content of `path`.

    Raises:
        CheckpointError: it is missing, damaged, incomplete, or of another rank than its name says.
    """
    origin, states = read_sealed(path, STATES)
    named = NAME.fullmatch(path.name)
    if named and tuple(map(int, named.groups())) != (origin.rank, origin.ranks):
        raise CheckpointError(
            f"{path.name} is the shard of rank {origin.rank} of {origin.ranks}",
            details=[place(path), ("found", f"run {origin.run}, step {origin.step}")],
            next=f"rename it to {shard_path(path.parent, origin.rank, origin.ranks).name}",
        )
    return Shard(path, origin, states)


def read_shards(folder: Path) -> list[Shard]:
    """Return the shards of all ranks in `folder`, in rank order.

    Raises:
        CheckpointError: there are none, one is missing or damaged, or they are not of one step of one run.
    """
    shards = [read_shard(path) for path in sorted(folder.glob(PATTERN))]
    if not shards:
        raise CheckpointError(f"there is no checkpoint in {folder.name}", details=[("where", str(folder))], next=AGAIN)
    _require_one(shards, "run", lambda origin: f"run {origin.run}")
    _require_one(shards, "step", lambda origin: f"step {origin.step}")
    _require_one(shards, "number of ranks", lambda origin: f"{origin.ranks} ranks")
    _require_one(shards, "layout", _layout_text)
    ranks = shards[0].origin.ranks
    missing = [str(rank) for rank in range(ranks) if rank not in {shard.origin.rank for shard in shards}]
    if missing:
        raise CheckpointError(
            f"{folder.name} has no shard of rank {', '.join(missing)} of {ranks}",
            details=[
                ("where", str(folder)),
                ("found", f"rank {', '.join(str(shard.origin.rank) for shard in shards)} of run {shards[0].origin.run}"),
            ],
            next=AGAIN,
        )
    return shards


def _layout_text(origin: Origin) -> str:
    tensors = ["+".join(f"{name}{list(shape)}" for name, shape in members) for members in origin.layout.values()]
    return f"shards of {', '.join(tensors) or 'nothing'}"


def _require_one(shards: Sequence[Shard], what: str, describe: Callable[[Origin], str]) -> None:
    """Raise a CheckpointError when `describe` says different things of the origins of `shards`."""
    ranks_of: dict[str, list[str]] = {}
    for shard in shards:
        ranks_of.setdefault(describe(shard.origin), []).append(str(shard.origin.rank))
    if len(ranks_of) > 1:
        folder = shards[0].path.parent
        raise CheckpointError(
            f"{folder.name} mixes shards of more than one {what}",
            details=[
                ("where", str(folder)),
                *(("found", f"{described}: rank {', '.join(ranks)}") for described, ranks in ranks_of.items()),
            ],
            next=AGAIN,
        )


def check_shards(folder: Path, *, ranks: int, step: int) -> None:
    """Check that `folder` holds a whole checkpoint, for as many `ranks`, of after `step`.

    Raises:
        CheckpointError: it does not.
    """
    origin = read_shards(folder)[0].origin
    if origin.ranks != ranks:
        raise CheckpointError(
            f"{folder.name} has the shards of {origin.ranks} ranks, and {ranks} are to load them",
            details=[("where", str(folder))],
            next="load its consolidated form, which any number of replicas can",
        )
    check_step(folder, origin, step)


def check_step(folder: Path, origin: Origin, step: int) -> None:
    """Check that the checkpoint in `folder` is of after `step`.

    Raises:
        CheckpointError: it is not.
    """
    if origin.step != step:
        raise CheckpointError(
            f"{folder.name} was saved after step {origin.step}, not after step {step}",
            details=[("where", str(folder)), ("found", f"run {origin.run}")],
            next=AGAIN,
        )
