"""What each replica recorded, in a folder of its own beside the trace of the whole run."""

import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from xla_equiv.measure.inputs import digest
from xla_equiv.measure.replicas import join_ranks, total_norm
from xla_equiv.store.tensors import DamagedFile, read_tensors, write_tensors
from xla_equiv.store.traces import read_facts, step_file, write_facts, write_step
from xla_equiv.values.errors import TraceError
from xla_equiv.values.ranks import split_rank
from xla_equiv.values.shards import HeldBy, Layout, from_lists, placement, to_lists
from xla_equiv.values.trace import Array, InputDigest, RunFacts, computed_at

INITIAL = 0
"""Number of the step file that holds what a replica began with."""


def rank_folder(folder: Path, rank: int) -> Path:
    """Return where replica `rank` of the run that records into `folder` records."""
    return folder / f"rank-{rank:03d}"


def write_rank_step(
    folder: Path,
    step: int,
    arrays: Mapping[str, Array],
    *,
    rank: int,
    ranks: int,
    layout: Layout,
    sharded: Collection[str],
) -> None:
    """Save what replica `rank` recorded at `step`; the file says how its shards lie in the whole.

    Args:
        folder: of the whole run.
        step: from 1; 0 for what the replica began with.
        arrays: key -> array; a shard is flat.
        rank: whose it is.
        ranks: how many replicas there are.
        layout: name of each sharded tensor -> the parameters in it.
        sharded: the keys in `arrays` that hold a shard.
    """
    about = {
        "step": step,
        "rank": rank,
        "ranks": ranks,
        "layout": to_lists(layout),
        "sharded": [key for key in arrays if key in sharded],
    }
    write_tensors(step_file(rank_folder(folder, rank), step), arrays, about)


def join_rank_traces(folder: Path, *, steps: range, ranks: int, wants: Callable[[str, int], bool]) -> RunFacts:
    """Write the trace of the whole run into `folder`, from what its replicas recorded there, and return its facts.

    The replicas' own folders are kept when they hold shards.

    Args:
        folder: of the whole run.
        steps: which were recorded; what the replicas began with is recorded before step 1 only.
        ranks: how many replicas there were.
        wants: (key, step) -> whether the trace keeps it.

    Raises:
        TraceError: a file is missing or damaged, or the replicas do not fit together.
    """
    facts = [read_facts(rank_folder(folder, rank)) for rank in range(ranks)]
    inputs: dict[str, InputDigest] = {}
    held: dict[str, tuple[HeldBy, ...]] = {}
    for step in ([INITIAL] if steps.start == 1 else []) + list(steps):
        arrays, placed = _join_step(folder, step, ranks)
        held |= placed
        if step == INITIAL:
            inputs = {key: digest(array) for key, array in arrays.items()}
        else:
            if "grad_norm" not in arrays and any(key.startswith("grad/") for key in arrays):
                arrays["grad_norm"] = total_norm(arrays)
            wanted = {key: arrays[key] for key in sorted(arrays, key=computed_at) if wants(split_rank(key)[0], step)}
            write_step(folder, step, wanted)
    for one in facts:
        inputs |= one.inputs
    joined = replace(facts[0], inputs=inputs, ranks=ranks, placement=held)
    write_facts(folder, joined)
    if not held:
        for rank in range(ranks):
            shutil.rmtree(rank_folder(folder, rank))
    return joined


def _join_step(folder: Path, step: int, ranks: int) -> tuple[dict[str, Array], dict[str, tuple[HeldBy, ...]]]:
    """Return key -> whole array of one step, and where the sharded parameters lay."""
    files = []
    for rank in range(ranks):
        path = step_file(rank_folder(folder, rank), step)
        try:
            file = read_tensors(path)
        except DamagedFile as error:
            raise TraceError(
                f"{path} is damaged", details=[("because", str(error))], next="run the suite again"
            ) from error
        stated = (file.about.get("step"), file.about.get("rank"), file.about.get("ranks"))
        if stated != (step, rank, ranks):
            raise TraceError(
                f"{path} is not the file of step {step}, rank {rank} of {ranks}",
                details=[("found", "step {}, rank {} of {}".format(*stated))],
                next="run the suite again",
            )
        files.append(file)
        if file.about["layout"] != files[0].about["layout"] or file.about["sharded"] != files[0].about["sharded"]:
            raise TraceError(
                f"rank {rank} recorded step {step} in another layout than rank 0",
                details=[("where", str(path))],
                next="let all replicas wrap the model in the same way",
            )
    layout = from_lists(files[0].about["layout"])
    sharded = files[0].about["sharded"]
    try:
        joined = join_ranks([file.arrays for file in files], layout, sharded)
    except ValueError as error:
        raise TraceError(
            f"the replicas' records of step {step} do not fit together", details=[("because", str(error))]
        ) from error
    held: dict[str, tuple[HeldBy, ...]] = {}
    for name, members in layout.items():
        if f"param/{name}" in sharded:
            held |= placement(members, files[0].arrays[f"param/{name}"].size, ranks)
    return joined, held
