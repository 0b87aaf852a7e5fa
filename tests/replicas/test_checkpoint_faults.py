"""Checkpoints that are incomplete, mixed or damaged: refused in words that name file, rank and run, and left as they are."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from xla_equiv.execute.checkpoints.consolidated import MODEL_FILE, OPTIMIZER_FILE, consolidate
from xla_equiv.execute.checkpoints.files import ORIGIN, write_sealed
from xla_equiv.execute.checkpoints.resharding import (
    check_consolidated,
    load_consolidated_model,
    load_consolidated_optimizer,
)
from xla_equiv.execute.checkpoints.shard_files import check_shards, read_shard, shard_path
from xla_equiv.execute.checkpoints.sharded import load_model_shard, load_optimizer_shard
from xla_equiv.execute.replicas import Replica
from xla_equiv.execute.wrapped import WrappedModel
from xla_equiv.store.traces import read_trace
from xla_equiv.treatments import LoopedAccumulation
from xla_equiv.values.errors import CheckpointError

NAMES = [f"checkpoint_rank-0000000{rank}-of-00000002.pth" for rank in range(2)]
Damage = Callable[[Path], object]


def checkpoint_of(run: Path, variant: str) -> Path:
    return run / "traces" / "resuming" / f"plain.{variant}[xla-cpu]" / "checkpoint-00001"


@pytest.fixture
def checkpoint(resumed_run: Path, tmp_path: Path) -> Path:
    """Return a copy of a checkpoint of 2 ranks, sharded and consolidated, to be damaged."""
    copied = tmp_path / "checkpoint-00001"
    shutil.copytree(checkpoint_of(resumed_run, "consolidated"), copied)
    return copied


def without(rank: int, *states: str) -> Damage:
    """Return what drops `states` from the file of `rank`."""

    def damage(folder: Path) -> None:
        path = shard_path(folder, rank, 2)
        content = torch.load(path)
        torch.save({name: state for name, state in content.items() if name not in states}, path)

    return damage


def with_origin(rank: int, **changes: Any) -> Damage:
    """Return what rewrites the file of `rank` as one of another origin."""

    def damage(folder: Path) -> None:
        shard = read_shard(shard_path(folder, rank, 2))
        write_sealed(shard.path, shard.states, replace(shard.origin, **changes))

    return damage


def bend(path: Path) -> None:
    """Change the last bit of one number in the file of tensors `path`."""
    content = path.read_bytes()
    tensor = next(iter(torch.load(path)["model"].values())).numpy().tobytes()
    place = content.index(tensor) + 4
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])


FAULTS: dict[str, tuple[Damage, list[str]]] = {
    "a_lost_shard": (
        lambda folder: (folder / NAMES[1]).unlink(),
        ["checkpoint-00001 has no shard of rank 1 of 2", "found     rank 0 of run RUN"],
    ),
    "no_shards": (
        lambda folder: [(folder / name).unlink() for name in NAMES],
        ["there is no checkpoint in checkpoint-00001"],
    ),
    "a_shard_under_the_name_of_another": (
        lambda folder: shutil.copy(folder / NAMES[0], folder / NAMES[1]),
        [f"{NAMES[1]} is the shard of rank 0 of 2", "found     run RUN, step 1", f"rename it to {NAMES[0]}"],
    ),
    "a_shard_of_more_ranks": (
        lambda folder: (folder / NAMES[1]).rename(folder / "checkpoint_rank-00000001-of-00000004.pth"),
        ["checkpoint_rank-00000001-of-00000004.pth is the shard of rank 1 of 2"],
    ),
    "two_runs": (
        with_origin(1, run="another"),
        ["checkpoint-00001 mixes shards of more than one run", "found     run RUN: rank 0", "found     run another: rank 1"],
    ),
    "two_steps": (
        with_origin(0, step=7),
        ["checkpoint-00001 mixes shards of more than one step", "found     step 7: rank 0", "found     step 1: rank 1"],
    ),
    "two_layouts": (
        with_origin(1, layout={"flat": [("weight", [5, 10]), ("bias", [5])]}),
        [
            "checkpoint-00001 mixes shards of more than one layout",
            "found     shards of weight[5, 10], bias[5]: rank 0",
            "found     shards of weight[5, 10]+bias[5]: rank 1",
        ],
    ),
    "no_model": (without(1, "model"), [f"{NAMES[1]} has no model", "found     shard_metadata, optimizer, carried"]),
    "no_optimizer": (without(0, "optimizer"), [f"{NAMES[0]} has no optimizer", "found     model, shard_metadata, carried"]),
    "no_metadata": (without(0, "shard_metadata"), [f"{NAMES[0]} has no shard_metadata", "found     model, optimizer"]),
    "metadata_alone": (
        without(1, "model", "optimizer", "carried", "generator", "device_seed"),
        [f"{NAMES[1]} has no model and no optimizer", "found     shard_metadata, origin"],
    ),
    "of_another_tool": (without(0, ORIGIN), [f"{NAMES[0]} has no origin"]),
    "cut_short": (
        lambda folder: (folder / NAMES[0]).write_bytes((folder / NAMES[0]).read_bytes()[:900]),
        [f"{NAMES[0]} is damaged", "because   RuntimeError: "],
    ),
    "one_bit": (
        lambda folder: bend(folder / NAMES[1]),
        [f"{NAMES[1]} is damaged", "because   its content differs from its SHA-256"],
    ),
    "not_states": (lambda folder: torch.save([1], folder / NAMES[0]), [f"{NAMES[0]} is damaged", "it holds a list"]),
}


def refusal(act: Callable[[], object], folder: Path) -> str:
    """Return the message with which `act` refuses; it may change nothing in `folder`."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(CheckpointError) as caught:
        act()
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    lines = str(caught.value).splitlines()
    assert lines[0] == f"CheckpointError: {caught.value.headline}"
    assert any(line.split()[0] == "where" for line in lines)
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("use", ["load", "consolidate"])
def test_broken_shards_are_refused(checkpoint: Path, fault: str, use: str) -> None:
    damage, texts = FAULTS[fault]
    run = read_shard(checkpoint / NAMES[0]).origin.run
    damage(checkpoint)
    act = {"load": lambda: check_shards(checkpoint, ranks=2, step=1), "consolidate": lambda: consolidate(checkpoint)}[use]
    message = refusal(act, checkpoint)
    assert [text for text in texts if text.replace("RUN", run) not in message] == [], message


def test_shards_of_two_runs_of_the_same_training_are_told_apart(resumed_run: Path, checkpoint: Path) -> None:
    shutil.copy(checkpoint_of(resumed_run, "sharded") / NAMES[1], checkpoint)
    message = refusal(lambda: check_shards(checkpoint, ranks=2, step=1), checkpoint)
    assert "mixes shards of more than one run" in message


def test_another_number_of_ranks_or_another_step_is_refused(checkpoint: Path) -> None:
    message = refusal(lambda: check_shards(checkpoint, ranks=4, step=1), checkpoint)
    assert "checkpoint-00001 has the shards of 2 ranks, and 4 are to load them" in message
    assert "load its consolidated form" in message
    for check in (lambda: check_shards(checkpoint, ranks=2, step=5), lambda: check_consolidated(checkpoint, step=5)):
        assert "was saved after step 1, not after step 5" in refusal(check, checkpoint)


@pytest.mark.parametrize(
    ("damage", "texts"),
    [
        (lambda folder: (folder / MODEL_FILE).unlink(), [f"there is no {MODEL_FILE}"]),
        (lambda folder: (folder / OPTIMIZER_FILE).unlink(), [f"there is no {OPTIMIZER_FILE}"]),
        (lambda folder: bend(folder / MODEL_FILE), [f"{MODEL_FILE} is not the model that {OPTIMIZER_FILE} belongs to"]),
        (
            lambda folder: torch.save({"model": {"weight": torch.ones(5, 10)}}, folder / MODEL_FILE),
            [f"{MODEL_FILE} is not the model that {OPTIMIZER_FILE} belongs to", "or of another run"],
        ),
        (lambda folder: torch.save({"state": 1}, folder / MODEL_FILE), [f"{MODEL_FILE} has no model", "found     state"]),
        (
            lambda folder: torch.save({"state": 1}, folder / OPTIMIZER_FILE),
            [f"{OPTIMIZER_FILE} has no shared and no groups and no rests and no model_sha256 and no origin"],
        ),
    ],
)
def test_a_broken_consolidated_checkpoint_is_refused(checkpoint: Path, damage: Damage, texts: list[str]) -> None:
    damage(checkpoint)
    message = refusal(lambda: check_consolidated(checkpoint, step=1), checkpoint)
    assert [text for text in texts if text not in message] == [], message


def linear(*sizes: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Linear(*(sizes or (10, 5)))
    return model, torch.optim.AdamW(model.parameters(), lr=1.0)


def states(model: nn.Module, optimizer: torch.optim.Optimizer) -> str:
    return repr((model.state_dict(), optimizer.state_dict()))


def test_the_consolidated_checkpoint_goes_into_a_model_that_is_not_wrapped(resumed_run: Path, checkpoint: Path) -> None:
    model, optimizer = linear()
    load_consolidated_model(checkpoint, model)
    wrapped = WrappedModel(model, [LoopedAccumulation()])
    origin, rest = load_consolidated_optimizer(checkpoint, wrapped, optimizer, replica=Replica())
    assert (origin.step, origin.ranks, rest) == (1, 2, {})
    trace = read_trace(checkpoint_of(resumed_run, "consolidated").parent)
    recorded = {entry.key: torch.from_numpy(trace.read(entry)) for entry in trace.entries if entry.step == 1}
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter.detach(), recorded[f"param/{name}"])
        for slot, value in optimizer.state[parameter].items():
            assert torch.equal(value, recorded[f"optim/{name}/{slot}"])
    assert optimizer.param_groups[0]["lr"] == 1e-2
    steps = {state["step"].data_ptr() for state in optimizer.state.values()}
    assert len(steps) == 2, "each parameter counts its own steps"


def test_a_model_that_the_checkpoint_does_not_fit_is_left_as_it_is(checkpoint: Path) -> None:
    model, optimizer = linear(10, 6)
    wrapped, before, second = WrappedModel(model, [LoopedAccumulation()]), states(model, optimizer), Replica(1, 2)
    message = refusal(lambda: load_consolidated_model(checkpoint, model), checkpoint)
    assert f"{MODEL_FILE} does not fit the model" in message
    assert "- weight: was saved with shape [5, 10], the model has [6, 10]" in message
    message = refusal(lambda: load_model_shard(checkpoint, wrapped, replica=second), checkpoint)
    assert f"{NAMES[1]} does not fit the model" in message
    assert "- weight: was not saved" in message
    assert "- _fsdp_shard" in message
    message = refusal(lambda: load_optimizer_shard(checkpoint, wrapped, optimizer, replica=second), checkpoint)
    assert f"{NAMES[1]} does not fit the optimizer" in message
    assert "- it has the parameters weight, bias" in message
    assert "- saved were those of _fsdp_shard" in message
    assert states(model, optimizer) == before


def test_an_optimizer_that_the_checkpoint_does_not_fit_is_left_as_it_is(checkpoint: Path) -> None:
    model = nn.Sequential(nn.Linear(10, 5))
    optimizer = torch.optim.AdamW(model.parameters())
    before = states(model, optimizer)
    wrapped = WrappedModel(model, [LoopedAccumulation()])
    act = lambda: load_consolidated_optimizer(checkpoint, wrapped, optimizer, replica=Replica())  # noqa: E731
    message = refusal(act, checkpoint)
    assert f"{OPTIMIZER_FILE} does not fit the optimizer" in message
    assert "it was saved without 0.weight" in message
    assert states(model, optimizer) == before
