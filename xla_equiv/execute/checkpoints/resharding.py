"""Whole tensors loaded into a model and an optimizer, for any number of replicas."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from xla_equiv.execute.checkpoints.consolidated import MODEL_FILE, OPTIMIZER_FILE
from xla_equiv.execute.checkpoints.files import AGAIN, Origin, read_sealed, read_states, seal
from xla_equiv.execute.checkpoints.shard_files import check_step
from xla_equiv.execute.checkpoints.sharded import state_problems
from xla_equiv.execute.replicas.replica import Replica
from xla_equiv.execute.wrapped import WrappedModel
from xla_equiv.values.errors import CheckpointError
from xla_equiv.values.shards import Member

NEEDED = ("state", "shared", "groups", "rests", "model_sha256")
CONSOLIDATE = "consolidate the shards again"


def check_consolidated(folder: Path, *, step: int) -> None:
    """Check that `folder` holds a whole model and the whole state of its optimizer, of after `step`.

    Raises:
        CheckpointError: it does not.
    """
    _read_model(folder)
    origin, _ = read_sealed(folder / OPTIMIZER_FILE, NEEDED)
    check_step(folder, origin, step)


def _read_model(folder: Path) -> dict[str, Tensor]:
    state: dict[str, Tensor] = dict(read_states(folder / MODEL_FILE, ("model",))["model"])
    origin, optimizer = read_sealed(folder / OPTIMIZER_FILE, NEEDED)
    if seal(state) != optimizer["model_sha256"]:
        raise CheckpointError(
            f"{MODEL_FILE} is not the model that {OPTIMIZER_FILE} belongs to",
            details=[
                ("where", str(folder)),
                ("because", f"run {origin.run} gave it another SHA-256: it is damaged, or of another run"),
            ],
            next=CONSOLIDATE,
        )
    return state


def load_consolidated_model(folder: Path, module: nn.Module) -> None:
    """Load the whole parameters and buffers in `folder` into `module`, which no treatment has wrapped.

    Raises:
        CheckpointError: they are missing, damaged, or of another run than the optimizer's state, or do not fit.
    """
    state = _read_model(folder)
    state |= {other: state[first] for other, first in _shared_names(module).items() if first in state}
    problems = state_problems(state, module.state_dict())
    if problems:
        raise CheckpointError(
            f"{MODEL_FILE} does not fit the model", details=[("where", str(folder))], problems=problems, next=AGAIN
        )
    module.load_state_dict(state)


def _shared_names(module: nn.Module) -> dict[str, str]:
    """Return other name -> first name of every parameter of `module` that has several."""
    first: dict[nn.Parameter, str] = {}
    named = module.named_parameters(remove_duplicate=False)
    return {name: first[one] for name, one in named if first.setdefault(one, name) != name}


def load_consolidated_optimizer(
    folder: Path, model: WrappedModel, optimizer: torch.optim.Optimizer, *, replica: Replica
) -> tuple[Origin, dict[str, Any]]:
    """Load the whole state in `folder` into `optimizer`, of which `replica` gets what belongs to its shards.

    Returns:
        Where it comes from, and what else was saved: nothing for another number of replicas, since the rest
        belongs to one replica each.

    Raises:
        CheckpointError: it is missing or damaged, or does not fit.
    """
    origin, saved = read_sealed(folder / OPTIMIZER_FILE, NEEDED)
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.parameters()}
    group_of = {name: number for number, group in enumerate(saved["groups"]) for name in group["parameters"]}
    state: dict[int, dict[str, Any]] = {}
    groups, count = [], 0
    for group in optimizer.param_groups:
        of_saved: set[int] = set()
        for number, parameter in enumerate(group["params"], start=count):
            name = names[parameter]
            is_sharded = name in model.layout
            members = model.layout.get(name, (Member(name, tuple(parameter.shape)),))
            unknown = [member.name for member in members if member.name not in group_of]
            if unknown:
                raise _unfit(folder, f"it was saved without {', '.join(unknown)}")
            of_saved |= {group_of[member.name] for member in members}
            state[number] = {
                slot: value if slot in saved["shared"] else _part(value, parameter, replica if is_sharded else Replica())
                for slot, value in _joined_slots(folder, saved, members).items()
            }
        if len(of_saved) != 1:
            raise _unfit(folder, f"its groups {sorted(of_saved)} have become one")
        options = saved["groups"][of_saved.pop()]["options"]
        groups.append({**options, "params": list(range(count, count + len(group["params"])))})
        count += len(group["params"])
    optimizer.load_state_dict({"state": {n: slots for n, slots in state.items() if slots}, "param_groups": groups})
    return origin, saved["rests"][replica.rank] if replica.ranks == origin.ranks else {}


def _joined_slots(folder: Path, saved: Mapping[str, Any], members: Sequence[Member]) -> dict[str, Any]:
    """Return slot -> flat tensor of all `members`, or the value that they share."""
    states = [saved["state"].get(member.name, {}) for member in members]
    if any(state.keys() != states[0].keys() for state in states):
        raise _unfit(folder, f"{', '.join(member.name for member in members)} were not saved with the same slots")
    joined: dict[str, Any] = {}
    for slot in states[0]:
        values = [state[slot] for state in states]
        if slot not in saved["shared"]:
            joined[slot] = torch.cat([value.reshape(-1) for value in values])
        elif any(value != values[0] for value in values):
            raise _unfit(folder, f"{slot} is not the same for {', '.join(member.name for member in members)}")
        else:
            joined[slot] = copy.deepcopy(values[0])  # the optimizer may change it in place, for each tensor on its own
    return joined


def _part(whole: Tensor, parameter: Tensor, replica: Replica) -> Tensor:
    """Return of the flat tensor `whole` what belongs to `parameter`, the shard of `replica`."""
    padded = torch.zeros(replica.ranks, parameter.numel(), dtype=whole.dtype)
    padded.view(-1)[: whole.numel()] = whole
    return padded[replica.rank].view(parameter.shape).clone()


def _unfit(folder: Path, because: str) -> CheckpointError:
    return CheckpointError(
        f"{OPTIMIZER_FILE} does not fit the optimizer", details=[("where", str(folder)), ("because", because)], next=AGAIN
    )
