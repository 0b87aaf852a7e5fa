"""Saving and loading what one replica holds."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from xla_equiv.execute.checkpoints.files import AGAIN, ORIGIN, Origin, place, write_sealed
from xla_equiv.execute.checkpoints.shard_files import STATES, Shard, read_shard, shard_path
from xla_equiv.execute.replicas.replica import Replica
from xla_equiv.execute.wrapped import WrappedModel
from xla_equiv.values.errors import CheckpointError
from xla_equiv.values.shards import to_lists

PROCESS = uuid.uuid4().hex
"""Identifies this process."""


def save_shard(
    folder: Path,
    model: WrappedModel,
    optimizer: torch.optim.Optimizer,
    *,
    replica: Replica,
    run: str,
    step: int,
    rest: Mapping[str, Any],
) -> None:
    """Save what `replica` holds after `step`. The device must have executed the step: saving executes nothing.

    Args:
        folder: of the checkpoint.
        model: whose shards are saved, with what torch_xla needs to put them together.
        optimizer: of `model`.
        replica: whose shards they are.
        run: common to all replicas.
        step: the last one trained.
        rest: what else the training goes on with.
    """
    origin = Origin(
        run=run,
        step=step,
        rank=replica.rank,
        ranks=replica.ranks,
        process=PROCESS,
        parameters=_parameters(model, optimizer),
        layout=to_lists(model.layout),
    )
    way = model.checkpointing
    if way:
        way.save(model.module, optimizer, folder, {**rest, ORIGIN: asdict(origin)})
        return
    module = cast(Any, model.module)
    states = {
        "model": dict(module.state_dict()),
        "shard_metadata": module.get_shard_metadata() if hasattr(module, "get_shard_metadata") else {},
        "optimizer": optimizer.state_dict(),
        **rest,
    }
    write_sealed(shard_path(folder, replica.rank, replica.ranks), tree_map(_to_cpu, states), origin)


def _to_cpu(value: Any) -> Any:
    return value.detach().cpu().clone() if isinstance(value, Tensor) else value


def _parameters(model: WrappedModel, optimizer: torch.optim.Optimizer) -> list[str]:
    """Return the names of the parameters of `optimizer`, in its order."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.parameters()}
    return [names[parameter] for group in optimizer.param_groups for parameter in group["params"]]


def load_model_shard(folder: Path, model: WrappedModel, *, replica: Replica) -> None:
    """Load the shards of `replica` into `model`, before it has an optimizer: one may begin with copies of them.

    Raises:
        CheckpointError: they are missing or damaged, or do not fit; the model is as it was.
    """
    if model.checkpointing:
        return
    shard = read_shard(shard_path(folder, replica.rank, replica.ranks))
    problems = state_problems(shard.states["model"], model.module.state_dict())
    if problems:
        raise _unfit(shard, "the model", problems)
    model.module.load_state_dict(shard.states["model"])


def load_optimizer_shard(
    folder: Path, model: WrappedModel, optimizer: torch.optim.Optimizer, *, replica: Replica
) -> tuple[Origin, dict[str, Any]]:
    """Load the state of the shards of `replica` into `optimizer`.

    Returns:
        Where it comes from, and what else was saved.

    Raises:
        CheckpointError: it is missing or damaged, or does not fit; the optimizer is as it was.
    """
    shard = read_shard(shard_path(folder, replica.rank, replica.ranks))
    saved, parameters = list(shard.origin.parameters), _parameters(model, optimizer)
    if saved != parameters:
        problems = [f"it has the parameters {', '.join(parameters)}", f"saved were those of {', '.join(saved)}"]
        raise _unfit(shard, "the optimizer", problems)
    way = model.checkpointing
    if way:
        way.load(model.module, optimizer, folder)
    else:
        optimizer.load_state_dict(shard.states["optimizer"])
    return shard.origin, {name: state for name, state in shard.states.items() if name not in STATES}


def _unfit(shard: Shard, what: str, problems: list[str]) -> CheckpointError:
    return CheckpointError(
        f"{shard.path.name} does not fit {what}", details=[place(shard.path)], problems=problems, next=AGAIN
    )


def state_problems(saved: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> list[str]:
    """Return how the `saved` state of a model differs in names and shapes from the one `wanted`."""
    problems = [f"{name}: was not saved" for name in wanted if name not in saved]
    problems += [f"{name}: the model has none" for name in saved if name not in wanted]
    problems += [
        f"{name}: was saved with shape {list(saved[name].shape)}, the model has {list(tensor.shape)}"
        for name, tensor in wanted.items()
        if name in saved and saved[name].shape != tensor.shape
    ]
    return problems
