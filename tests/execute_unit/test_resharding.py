"""Optimizer state that was saved by some ranks and is loaded by others: the same, whatever their numbers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from xla_equiv.execute.backends.native import NativeCpu
from xla_equiv.execute.checkpoints.consolidated import OPTIMIZER_FILE, whole_optimizer
from xla_equiv.execute.checkpoints.files import write_sealed
from xla_equiv.execute.checkpoints.handover import Handover
from xla_equiv.execute.checkpoints.resharding import load_consolidated_optimizer
from xla_equiv.execute.checkpoints.shard_files import read_shards
from xla_equiv.execute.checkpoints.sharded import save_shard
from xla_equiv.execute.replicas import Replica
from xla_equiv.execute.wrapped import WrappedModel
from xla_equiv.store.stage_traces import checkpoint_folder
from xla_equiv.values.errors import CheckpointError
from xla_equiv.values.shards import Member
from xla_equiv.values.spread import Spread
from xla_equiv.values.stages import Form, Stage
from xla_equiv.values.treatment import Treatment

Shapes = dict[str, tuple[int, ...]]


class Shards(nn.Module):
    """Flat parameters, each this rank's shard of the members of one unit."""

    def __init__(self, model: nn.Module, units: Mapping[str, tuple[Member, ...]], replica: Replica) -> None:
        super().__init__()
        for unit, members in units.items():
            flat = torch.cat([model.get_parameter(member.name).detach().flatten() for member in members])
            size = -(-flat.numel() // replica.ranks)
            padded = torch.zeros(size * replica.ranks)
            padded[: flat.numel()] = flat
            self.register_parameter(unit, nn.Parameter(padded[replica.rank * size :][:size].clone()))


class Sharding(Treatment):
    """Shards a model on the CPU, all parameters in one unit or each in one of its own."""

    def __init__(self, replica: Replica, *, is_flat: bool) -> None:
        self._replica, self._is_flat = replica, is_flat

    def prepare_model(self, model: nn.Module) -> nn.Module:
        members = [Member(name, tuple(parameter.shape)) for name, parameter in model.named_parameters()]
        self._units = {"flat": tuple(members)} if self._is_flat else {f"of_{one.name}": (one,) for one in members}
        return Shards(model, self._units, self._replica)

    def shards(self, model: nn.Module) -> Mapping[str, tuple[Member, ...]]:
        return self._units


def model_of(shapes: Shapes) -> nn.Module:
    model = nn.Module()
    for number, (name, shape) in enumerate(shapes.items()):
        model.register_parameter(name, nn.Parameter(torch.arange(1.0, 1.0 + torch.Size(shape).numel()).view(shape) + 100 * number))
    return model


def trained(model: WrappedModel, create: Any) -> torch.optim.Optimizer:
    """Return an optimizer after two steps, whose gradients are the parameters themselves."""
    optimizer: torch.optim.Optimizer = create(model.module.parameters())
    for _ in range(2):
        for parameter in model.module.parameters():
            parameter.grad = parameter.detach().clone()
        optimizer.step()
    return optimizer


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.5, weight_decay=0.0)


def momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.5, momentum=0.9)


def save(folder: Path, shapes: Shapes, create: Any, *, ranks: int, is_flat: bool) -> None:
    """Save the state of an optimizer in `folder`, of which each rank has trained its shard, and put it together."""
    for rank in range(ranks):
        replica = Replica(rank, ranks)
        model = WrappedModel(model_of(shapes), [Sharding(replica, is_flat=is_flat)])
        save_shard(folder, model, trained(model, create), replica=replica, run="one", step=2, rest={"own": rank})
    shards = read_shards(folder)
    write_sealed(folder / OPTIMIZER_FILE, {**whole_optimizer(shards), "model_sha256": ""}, shards[0].origin)


def slots(optimizer: torch.optim.Optimizer) -> list[dict[str, Tensor]]:
    return [optimizer.state[parameter] for group in optimizer.param_groups for parameter in group["params"]]


RANKS = st.integers(1, 5)
SHAPES = st.lists(st.lists(st.integers(1, 4), max_size=3).map(tuple), min_size=1, max_size=4).map(
    lambda shapes: {f"p{number}": shape for number, shape in enumerate(shapes)}
)


@settings(max_examples=30, deadline=None)
@given(shapes=SHAPES, saved=RANKS, loaded=RANKS, was_flat=st.booleans(), is_flat=st.booleans(), create=st.sampled_from([adamw, momentum]))
def test_state_does_not_depend_on_how_it_was_sharded(
    tmp_path_factory: pytest.TempPathFactory, shapes: Shapes, saved: int, loaded: int, was_flat: bool, is_flat: bool, create: Any
) -> None:
    folder = tmp_path_factory.mktemp("resharding")
    save(folder, shapes, create, ranks=saved, is_flat=was_flat)
    for rank in range(loaded):
        replica = Replica(rank, loaded)
        model = WrappedModel(model_of(shapes), [Sharding(replica, is_flat=is_flat)])
        optimizer = create(model.module.parameters())
        _, rest = load_consolidated_optimizer(folder, model, optimizer, replica=replica)
        assert rest == ({"own": rank} if saved == loaded else {})
        reference = trained(WrappedModel(model_of(shapes), [Sharding(replica, is_flat=is_flat)]), create)
        for found, wanted in zip(slots(optimizer), slots(reference), strict=True):
            assert found.keys() == wanted.keys()
            assert all(torch.equal(found[slot], wanted[slot]) for slot in wanted)
    whole = WrappedModel(model_of(shapes), [])
    optimizer = create(whole.module.parameters())
    load_consolidated_optimizer(folder, whole, optimizer, replica=Replica())
    for found, wanted in zip(slots(optimizer), slots(trained(WrappedModel(model_of(shapes), []), create)), strict=True):
        assert all(torch.equal(found[slot], wanted[slot]) for slot in wanted)


def test_groups_keep_their_options_and_do_not_become_one(tmp_path: Path) -> None:
    shapes: Shapes = {"one": (3,), "other": (2, 2)}

    def grouped(parameters: Any) -> torch.optim.Optimizer:
        first, *rest = parameters
        groups = [{"params": [first], "lr": 0.5}, *([{"params": rest, "lr": 0.25}] if rest else [])]
        return torch.optim.AdamW(groups)

    save(tmp_path, shapes, grouped, ranks=2, is_flat=False)
    whole = WrappedModel(model_of(shapes), [])
    optimizer = grouped(whole.module.parameters())
    for group in optimizer.param_groups:
        group["lr"] = 9.0
    load_consolidated_optimizer(tmp_path, whole, optimizer, replica=Replica())
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.25]
    flat = WrappedModel(model_of(shapes), [Sharding(Replica(), is_flat=True)])
    with pytest.raises(CheckpointError) as caught:
        load_consolidated_optimizer(tmp_path, flat, grouped(flat.module.parameters()), replica=Replica())
    assert "its groups [0, 1] have become one" in str(caught.value)


def test_counts_that_differ_cannot_become_one(tmp_path: Path) -> None:
    shapes: Shapes = {"one": (3,), "other": (2,)}

    def uneven(parameters: Any) -> torch.optim.Optimizer:
        optimizer = adamw(parameters)
        optimizer.register_step_post_hook(lambda *arguments: optimizer.state[optimizer.param_groups[0]["params"][0]]["step"].add_(1))
        return optimizer

    save(tmp_path, shapes, uneven, ranks=2, is_flat=False)
    flat = WrappedModel(model_of(shapes), [Sharding(Replica(), is_flat=True)])
    with pytest.raises(CheckpointError) as caught:
        load_consolidated_optimizer(tmp_path, flat, adamw(flat.module.parameters()), replica=Replica())
    assert "step is not the same for one, other" in str(caught.value)


def test_what_each_replica_carries_cannot_be_shared_out_anew(tmp_path: Path) -> None:
    folder = checkpoint_folder(tmp_path, 2)
    save(folder, {"one": (3,)}, adamw, ranks=2, is_flat=True)
    stage = Stage(number=2, first=3, last=4, spread=Spread.ONE, replicas=1, treatments=(), takes=Form.CONSOLIDATED)
    model = WrappedModel(model_of({"one": (3,)}), [])
    taking = Handover(stage, tmp_path, replica=Replica(), run="one")
    with pytest.raises(CheckpointError) as caught:
        taking.take_up(model, adamw(model.module.parameters()), (torch.zeros(3),), NativeCpu())
    assert "has carried tensors of 2 replicas, and 1 are to go on" in str(caught.value)
    assert taking.take_up(model, adamw(model.module.parameters()), (), NativeCpu())[0] == ()


def test_what_the_process_that_saved_loads_itself_proves_nothing(tmp_path: Path) -> None:
    stages = [
        Stage(number=1, first=1, last=2, spread=Spread.ONE, replicas=1, treatments=(), leaves=Form.SHARDED),
        Stage(number=2, first=3, last=4, spread=Spread.ONE, replicas=1, treatments=(), takes=Form.SHARDED),
    ]
    backend, carried = NativeCpu(), (torch.arange(3.0),)
    model = WrappedModel(model_of({"one": (3,)}), [])
    optimizer = trained(model, adamw)
    leaving, taking = (Handover(stage, tmp_path, replica=Replica(), run="one") for stage in stages)
    assert leaving.take_up(model, optimizer, carried, backend) == (carried, "")
    leaving.leave(model, optimizer, carried, backend)
    draws = torch.rand(3)
    again = WrappedModel(model_of({"one": (3,)}), [])
    taking.fill_shards(again)
    (found,), unproven = taking.take_up(again, adamw(again.module.parameters()), (torch.zeros(3),), backend)
    assert unproven == "Resumed: the process that saved the checkpoint has loaded it, too"
    assert torch.equal(found, carried[0])
    assert torch.equal(torch.rand(3), draws), "the generator goes on as it would have"
    assert all(torch.equal(one, other) for one, other in zip(again.module.parameters(), model.module.parameters(), strict=True))
