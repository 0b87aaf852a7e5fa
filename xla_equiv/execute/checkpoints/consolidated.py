"""Whole tensors out of the shards of all ranks."""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from xla_equiv.execute.arrays import to_array
from xla_equiv.execute.checkpoints.files import seal, write_sealed
from xla_equiv.execute.checkpoints.shard_files import STATES, Shard, read_shards
from xla_equiv.measure.replicas import reassemble
from xla_equiv.values.errors import CheckpointError, in_one_line
from xla_equiv.values.shards import Layout

MODEL_FILE = "consolidated.pth"
OPTIMIZER_FILE = "consolidated-optimizer.pth"


def consolidate(folder: Path) -> None:
    """Write the whole model and the whole state of its optimizer beside the shards in `folder`.

    The model's by torch_xla's own `consolidate_sharded_model_checkpoints`, which takes buffers from rank 0; the
    optimizer's out of the same shards, for torch_xla has no function for it.

    Raises:
        CheckpointError: the shards are not a checkpoint, or not of a sharded model.
    """
    shards = read_shards(folder)
    if not shards[0].states["shard_metadata"]:
        raise CheckpointError(
            f"{folder.name} holds a model that is not sharded: there is nothing to consolidate",
            details=[("where", str(folder))],
            next="resume it in its sharded form",
        )
    from torch_xla.distributed.fsdp import consolidate_sharded_model_checkpoints

    optimizer = whole_optimizer(shards)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch, MODEL_FILE)
        prefix = glob.escape(str(folder / "checkpoint_"))  # torch_xla takes it for a pattern
        try:
            model, _ = consolidate_sharded_model_checkpoints(prefix, "rank-*-of-*.pth", str(made))
        except Exception as error:
            raise CheckpointError(
                f"torch_xla cannot consolidate {folder.name}",
                details=[("where", str(folder)), ("because", in_one_line(error))],
                next="resume it in its sharded form",
            ) from error
        made.replace(folder / MODEL_FILE)
    write_sealed(folder / OPTIMIZER_FILE, {**optimizer, "model_sha256": seal(model)}, shards[0].origin)


def whole_optimizer(shards: Sequence[Shard]) -> dict[str, Any]:
    """Return what does not depend on the number of ranks, and of each rank the rest.

    `state` is parameter -> slot -> value, `shared` the slots whose value a sharded tensor has but one of, `groups`
    the options and parameters of each group.
    """
    origin, layout = shards[0].origin, shards[0].origin.members
    states = [shard.states["optimizer"] for shard in shards]
    whole: dict[str, dict[str, Any]] = {}
    shared: set[str] = set()
    for number, slots in states[0]["state"].items():
        name = origin.parameters[number]
        for slot, value in slots.items():
            found: Mapping[str, Any] = dict.fromkeys(_members(name, layout), value)
            if not isinstance(value, Tensor) or not value.ndim:
                shared.add(slot)
            elif name in layout:
                parts = [to_array(state["state"][number][slot]).reshape(-1) for state in states]
                found = {one: torch.from_numpy(array.copy()) for one, array in reassemble(parts, layout[name]).items()}
            for member, one in found.items():
                whole.setdefault(member, {})[slot] = one
    groups = [
        {
            "options": {option: value for option, value in group.items() if option != "params"},
            "parameters": [one for number in group["params"] for one in _members(origin.parameters[number], layout)],
        }
        for group in states[0]["param_groups"]
    ]
    rests = [{name: state for name, state in shard.states.items() if name not in STATES} for shard in shards]
    return {"state": whole, "shared": sorted(shared), "groups": groups, "rests": rests}


def _members(name: str, layout: Layout) -> list[str]:
    """Return the names of the parameters in the tensor `name`: its own when it is whole."""
    return [member.name for member in layout[name]] if name in layout else [name]
