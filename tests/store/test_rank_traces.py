"""The records of replicas on disk, and the trace that is made of them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from xla_equiv.measure.inputs import digest
from xla_equiv.store.rank_traces import INITIAL, join_rank_traces, rank_folder, write_rank_step
from xla_equiv.store.tensors import write_tensors
from xla_equiv.store.traces import FACTS_FILE, read_facts, read_trace, step_file, write_facts
from xla_equiv.values.errors import TraceError
from xla_equiv.values.shards import HeldBy, Layout, Member
from xla_equiv.values.trace import Array, RunFacts

RANKS, STEPS = 3, 2
LAYOUT: Layout = {"flat": (Member("a", (2, 2)), Member("b", (3,)))}
WHOLE = np.arange(1, 10, dtype=np.float32)
"""What the shards of all ranks hold together: parameter `a`, parameter `b`, two elements of padding."""

WholeStep = Callable[[int, int], tuple[dict[str, Array], Collection[str]]]
"""(step, rank) -> key -> array, and the keys that hold a shard."""


def replicated(step: int, rank: int) -> tuple[dict[str, Array], Collection[str]]:
    """Return what a replica records that holds everything; rank 2 has another gradient at step 2."""
    weight = np.array([[1, 2], [3, 4]], np.float32)
    if step == INITIAL:
        return {"param/a": weight, "buffer/n": np.array(0)}, ()
    gradient = weight + (rank == 2 and step == 2)
    return {"loss": np.float32(step + rank), "grad/a": gradient, "param/a": weight / step}, ()


def sharded(step: int, rank: int) -> tuple[dict[str, Array], Collection[str]]:
    """Return what a replica records that holds a third of one flat tensor."""
    shard = np.split(WHOLE, RANKS)[rank]
    if step == INITIAL:
        return {"param/flat": shard}, ["param/flat"]
    arrays = {"grad/flat": shard * step, "optim/flat/step": np.float32(step), "param/flat": shard}
    return {"loss": np.float32(step), **arrays}, ["grad/flat", "param/flat"]


def write(folder: Path, recorded: WholeStep = replicated, **facts: tuple[str, ...]) -> Path:
    """Write what every replica of a run records."""
    layout = LAYOUT if recorded is sharded else {}
    for rank in range(RANKS):
        for step in range(STEPS + 1):
            arrays, keys = recorded(step, rank)
            write_rank_step(folder, step, arrays, rank=rank, ranks=RANKS, layout=layout, sharded=keys)
        inputs = {f"batch/1/0/0@rank{rank}": digest(np.full(2, rank))}
        write_facts(rank_folder(folder, rank), RunFacts(test="a::b[c]", steps=STEPS, inputs=inputs, **facts))
    return folder


def join(folder: Path, wants: Callable[[str, int], bool] = lambda key, step: True) -> RunFacts:
    return join_rank_traces(folder, steps=range(1, STEPS + 1), ranks=RANKS, wants=wants)


def content(folder: Path) -> dict[tuple[int, str], Array]:
    return {(entry.step, entry.key): array for entry, array in read_trace(folder).arrays()}


def file_of(folder: Path, rank: int, step: int) -> Path:
    return step_file(rank_folder(folder, rank), step)


def test_the_trace_of_the_run_has_each_steps_keys_once_and_what_differs_by_rank(tmp_path: Path) -> None:
    facts = join(write(tmp_path))
    assert read_facts(tmp_path) == facts
    losses = ["loss@rank0", "loss@rank1", "loss@rank2", "loss"]
    assert [key for step, key in content(tmp_path) if step == 1] == [*losses, "grad/a", "grad_norm", "param/a"]
    found = content(tmp_path)
    assert [key for step, key in found if step == 2] == [*losses, "grad/a", "grad/a@rank2", "grad_norm", "param/a"]
    assert [found[2, key].item() for key in losses] == [2.0, 3.0, 4.0, 3.0]
    assert np.array_equal(found[2, "grad/a@rank2"], found[2, "grad/a"] + 1)


def test_shards_become_the_parameters_in_them(tmp_path: Path) -> None:
    join(write(tmp_path, sharded))
    found = content(tmp_path)
    assert not [key for _, key in found if "flat" in key]
    for step in (1, 2):
        assert np.array_equal(found[step, "param/a"], [[1, 2], [3, 4]])
        assert np.array_equal(found[step, "param/b"], [5, 6, 7])
        assert np.array_equal(found[step, "grad/b"], np.multiply([5, 6, 7], step))
        assert (found[step, "optim/a/step"], found[step, "optim/b/step"]) == (step, step)


def test_the_facts_say_how_many_replicas_there_were_and_what_they_began_with(tmp_path: Path) -> None:
    facts = join(write(tmp_path, notes=("tied again",), unproven=("no all-reduce",)))
    assert (facts.ranks, facts.placement, facts.steps, facts.test) == (RANKS, {}, STEPS, "a::b[c]")
    assert (facts.notes, facts.unproven) == (("tied again",), ("no all-reduce",))
    arrays, _ = replicated(INITIAL, 0)
    batches = {f"batch/1/0/0@rank{rank}": digest(np.full(2, rank)) for rank in range(RANKS)}
    assert facts.inputs == {**{key: digest(array) for key, array in arrays.items()}, **batches}


def test_initial_parameters_of_shards_are_those_of_the_whole(tmp_path: Path) -> None:
    facts = join(write(tmp_path, sharded))
    begun = {"param/a": WHOLE[:4].reshape(2, 2), "param/b": WHOLE[4:7]}
    assert {key: facts.inputs[key] for key in begun} == {key: digest(array) for key, array in begun.items()}


def test_a_replica_that_began_with_something_else_is_an_input_of_its_own(tmp_path: Path) -> None:
    write(tmp_path)
    other = {key: array + 1 for key, array in replicated(INITIAL, 1)[0].items()}
    write_rank_step(tmp_path, INITIAL, other, rank=1, ranks=RANKS, layout={}, sharded=())
    inputs = join(tmp_path).inputs
    assert inputs["param/a@rank1"] == digest(other["param/a"]) != inputs["param/a"]


def test_the_facts_say_which_elements_lay_on_which_replica(tmp_path: Path) -> None:
    facts = join(write(tmp_path, sharded))
    assert facts.placement == {
        "a": (HeldBy(0, 0, 3), HeldBy(1, 3, 4)),
        "b": (HeldBy(1, 0, 2), HeldBy(2, 2, 3)),
    }
    assert read_facts(tmp_path) == facts


def test_the_records_of_replicas_are_kept_when_they_hold_shards_only(tmp_path: Path) -> None:
    folders = [rank_folder(tmp_path, rank) for rank in range(RANKS)]
    join(write(tmp_path))
    assert not any(folder.exists() for folder in folders)
    join(write(tmp_path, sharded))
    for rank, folder in enumerate(folders):
        names = [FACTS_FILE, *(step_file(folder, step).name for step in range(STEPS + 1))]
        assert sorted(path.name for path in folder.iterdir()) == names
        assert np.array_equal(np.split(WHOLE, RANKS)[rank], load(file_of(tmp_path, rank, 1))["param/flat"])


def load(path: Path) -> Mapping[str, Array]:
    from safetensors.numpy import load_file

    found: Mapping[str, Array] = load_file(path)
    return found


def test_a_gradient_norm_that_no_replica_could_compute_is_computed_of_the_whole(tmp_path: Path) -> None:
    join(write(tmp_path, sharded))
    found = content(tmp_path)
    for step in (1, 2):
        norm = found[step, "grad_norm"]
        assert (norm.dtype, norm.shape) == (np.float32, ())
        assert norm == np.float32(step * np.sqrt(np.square(WHOLE[:7]).sum()))


def test_a_gradient_norm_that_the_replicas_have_recorded_is_theirs(tmp_path: Path) -> None:
    def recorded(step: int, rank: int) -> tuple[dict[str, Array], Collection[str]]:
        arrays, keys = replicated(step, rank)
        return ({**arrays, "grad_norm": np.float32(7)} if step else arrays), keys

    join(write(tmp_path, recorded))
    assert content(tmp_path)[1, "grad_norm"] == 7


def test_a_run_that_records_no_gradient_has_no_norm_of_them(tmp_path: Path) -> None:
    def recorded(step: int, rank: int) -> tuple[dict[str, Array], Collection[str]]:
        return {"param/a": np.zeros(2, np.float32)}, ()

    join(write(tmp_path, recorded))
    assert list(content(tmp_path)) == [(1, "param/a"), (2, "param/a")]


def test_only_what_is_wanted_is_kept_whatever_its_rank(tmp_path: Path) -> None:
    asked = set()

    def wants(key: str, step: int) -> bool:
        asked.add(key)
        return (key, step) in {("grad/a", 2), ("loss", 1)}

    join(write(tmp_path), wants)
    assert list(content(tmp_path)) == [
        *((1, key) for key in ("loss@rank0", "loss@rank1", "loss@rank2", "loss")),
        (2, "grad/a"),
        (2, "grad/a@rank2"),
    ]
    assert asked == {"loss", "grad/a", "grad_norm", "param/a"}


def test_of_a_tensor_that_is_shared_out_the_wanted_parameter_is_kept(tmp_path: Path) -> None:
    join(write(tmp_path, sharded), lambda key, step: key == "param/b")
    assert list(content(tmp_path)) == [(1, "param/b"), (2, "param/b")]


def refuse(folder: Path, headline: str, because: str | None = None, *, step: str = "run the suite again") -> None:
    """Make sure that joining fails, and leaves no trace that could be taken for a whole one."""
    with pytest.raises(TraceError) as caught:
        join(folder)
    assert caught.value.headline == headline
    if because is not None:
        assert because in " ".join(text for _, text in caught.value.details)
    assert caught.value.next == step
    assert not (folder / FACTS_FILE).exists()


@pytest.mark.parametrize(("rank", "step"), [(0, 0), (1, 1), (2, 2)])
def test_a_file_that_is_missing_is_named(tmp_path: Path, rank: int, step: int) -> None:
    path = file_of(write(tmp_path), rank, step)
    path.unlink()
    refuse(tmp_path, f"{path} is damaged", "cannot be read: ")


def test_the_folder_of_a_rank_that_is_missing_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    path = rank_folder(tmp_path, 1) / FACTS_FILE
    for file in rank_folder(tmp_path, 1).iterdir():
        file.unlink()
    refuse(tmp_path, f"{path} is damaged", "No such file", step="")


@pytest.mark.parametrize("damage", [lambda whole: b"", lambda whole: whole[:-1], lambda whole: whole[:-1] + b"\x55"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = file_of(write(tmp_path), 2, 1)
    path.write_bytes(damage(path.read_bytes()))
    refuse(tmp_path, f"{path} is damaged")


@pytest.mark.parametrize(
    ("rank", "step", "ranks"),
    [(0, 1, RANKS), (1, 2, RANKS), (1, 1, 4)],
    ids=["another rank", "another step", "more ranks"],
)
def test_the_file_of_another_rank_or_step_or_run_is_refused(tmp_path: Path, rank: int, step: int, ranks: int) -> None:
    write(tmp_path)
    arrays, _ = replicated(1, 1)
    write_rank_step(tmp_path / "other", step, arrays, rank=rank, ranks=ranks, layout={}, sharded=())
    path = file_of(tmp_path, 1, 1)
    path.write_bytes(file_of(tmp_path / "other", rank, step).read_bytes())
    refuse(tmp_path, f"{path} is not the file of step 1, rank 1 of 3", f"step {step}, rank {rank} of {ranks}")


def test_a_file_that_is_not_a_replicas_is_refused(tmp_path: Path) -> None:
    path = file_of(write(tmp_path), 1, 1)
    write_tensors(path, replicated(1, 1)[0], {"step": 1})
    refuse(tmp_path, f"{path} is not the file of step 1, rank 1 of 3", "step 1, rank None of None")


def test_replicas_that_recorded_other_keys_are_named(tmp_path: Path) -> None:
    write(tmp_path)
    arrays, _ = replicated(2, 1)
    del arrays["grad/a"]
    write_rank_step(tmp_path, 2, arrays, rank=1, ranks=RANKS, layout={}, sharded=())
    headline = "the replicas' records of step 2 do not fit together"
    refuse(tmp_path, headline, "rank 0 recorded grad/a, rank 1 did not", step="")


def test_shards_that_do_not_fit_together_are_named(tmp_path: Path) -> None:
    write(tmp_path, sharded)
    arrays, keys = sharded(1, 1)
    arrays["param/flat"] = arrays["param/flat"][:2]
    write_rank_step(tmp_path, 1, arrays, rank=1, ranks=RANKS, layout=LAYOUT, sharded=keys)
    headline = "the replicas' records of step 1 do not fit together"
    refuse(tmp_path, headline, "the shards have the shapes [[3], [2], [3]], not one flat shape", step="")


def test_later_steps_alone_are_joined_without_what_the_replicas_began_with(tmp_path: Path) -> None:
    write(tmp_path)
    for rank in range(RANKS):
        file_of(tmp_path, rank, INITIAL).unlink()
        file_of(tmp_path, rank, 1).unlink()
    facts = join_rank_traces(tmp_path, steps=range(2, 3), ranks=RANKS, wants=lambda key, step: True)
    assert sorted(facts.inputs) == [f"batch/1/0/0@rank{rank}" for rank in range(RANKS)]
    assert [path.name for path in tmp_path.glob("step-*")] == ["step-00002.safetensors"]


def test_a_trace_without_replicas_says_that_there_was_one(tmp_path: Path) -> None:
    facts = RunFacts(test="a::b[c]", steps=0)
    write_facts(tmp_path, facts)
    assert read_facts(tmp_path) == replace(facts, ranks=1, placement={})


def test_ranks_that_cut_the_model_differently_are_refused(tmp_path: Path) -> None:
    for rank, name in enumerate(("w", "v")):
        layout = {"flat": (Member(name, (2,)),)}
        arrays = {"param/flat": np.zeros(1, np.float32)}
        write_rank_step(tmp_path, 0, arrays, rank=rank, ranks=2, layout=layout, sharded={"param/flat"})
        write_facts(rank_folder(tmp_path, rank), RunFacts(test="s::v[cpu]", steps=1))
    with pytest.raises(TraceError, match="rank 1 recorded step 0 in another layout than rank 0"):
        join_rank_traces(tmp_path, steps=range(1, 2), ranks=2, wants=lambda key, step: True)
