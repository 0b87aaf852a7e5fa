"""Replicas that fail, or that execute what the others do not: said so, with the rank, and the others are judged."""

from collections.abc import Callable
from pathlib import Path

import pytest
from project import SUITE_FILES, Project, Ran

from xla_equiv.store.traces import read_trace
from xla_equiv.values.shards import HeldBy
from xla_equiv.values.verdict import Comparison, ComparisonKind, Status, Verdict

SELECTED = "plain or scalar.data_parallel or scalar.fsdp or scalar.big_batch"


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Ran]:
    project = Project(tmp_path_factory.mktemp("lost"), "replicas")
    return project, project.xla_equiv("run", "--workers", "2", "-k", SELECTED, "--out", "run")


def verdict_of(lost: tuple[Project, Ran], label: str) -> Verdict:
    return lost[0].verdicts()[f"replicas::{label}"]


def log_of(lost: tuple[Project, Ran], label: str) -> str:
    return (lost[0].root / "run" / verdict_of(lost, label).log).read_text(errors="replace")


def test_the_run_ends_with_the_code_of_what_could_not_run(lost: tuple[Project, Ran]) -> None:
    ran = lost[1]
    assert (ran.code, ran.err) == (3, "")
    assert "4 crashed" in ran.out
    assert "1 retried" in ran.out


@pytest.mark.parametrize("label", ["plain.raising[cpu]", "plain.raising[xla:cpu]"])
def test_an_exception_of_one_replica_is_a_crash_that_names_its_rank(lost: tuple[Project, Ran], label: str) -> None:
    verdict = verdict_of(lost, label)
    what = "rank 1 of 2: ArithmeticError: the batch of replica 1"
    assert (verdict.status, verdict.attempts, verdict.what) == (Status.CRASHED, 1, what)
    assert f"CRASHED: replicas::{label} crashed: {what}" in lost[1].out
    assert "raise ArithmeticError(" in log_of(lost, label)


@pytest.mark.parametrize("label", ["plain.raising[cpu]", "plain.raising[xla:cpu]"])
def test_what_the_replicas_recorded_before_is_kept(lost: tuple[Project, Ran], label: str) -> None:
    folder = trace_of(lost, label)
    assert [path.name for path in sorted(folder.iterdir())] == ["rank-000", "rank-001"]
    names = {path.name for path in (folder / "rank-001").iterdir()}
    assert names == {"step-00000.safetensors", "step-00001.safetensors"}


def test_a_replica_that_executes_once_more_than_the_others_ends_its_worker(lost: tuple[Project, Ran]) -> None:
    verdict = verdict_of(lost, "plain.syncing[xla:cpu]")
    assert (verdict.status, verdict.attempts) == (Status.CRASHED, 2)
    assert verdict.what.startswith("the worker was ended by SIGABRT")
    assert "the worker was ended by SIGABRT" in verdict.first_failure
    rendezvous = "Expected 2 threads to join the rendezvous, but only 1 of them arrived on time"
    assert rendezvous in log_of(lost, "plain.syncing[xla:cpu]")


def test_a_scalar_that_cannot_be_joined_is_said_to_need_a_join(lost: tuple[Project, Ran]) -> None:
    verdict = verdict_of(lost, "scalar.big_batch[cpu]")
    assert (verdict.status, verdict.attempts) == (Status.CRASHED, 1)
    assert verdict.what == (
        "ValueError: a batch has a scalar tensor: give the Case a `join` that says what it is for all replicas together"
    )


def equivalence(verdict: Verdict) -> Comparison:
    return next(one for one in verdict.comparisons if one.kind is ComparisonKind.EQUIVALENCE)


@pytest.mark.parametrize("label", ["plain.ddp[cpu]", "plain.big_batch[cpu]", "plain.fsdp[xla:cpu]"])
def test_the_other_variants_are_judged_and_agree(lost: tuple[Project, Ran], label: str) -> None:
    verdict = verdict_of(lost, label)
    assert (verdict.status, equivalence(verdict).status) == (Status.NOGOLDEN, Status.WITHIN)
    assert {"loss", "grad/*", "grad_norm", "param/*"} <= {group.group for group in equivalence(verdict).groups}


def test_replicas_may_have_scalars_that_differ(lost: tuple[Project, Ran]) -> None:
    """A scalar that becomes a part of the graph makes graphs that differ, and replicas that wait for each other."""
    verdict = verdict_of(lost, "scalar.data_parallel[xla:cpu]")
    assert (verdict.status, verdict.attempts) == (Status.NOGOLDEN, 1)


def test_the_norm_of_gradients_that_are_shared_out_does_not_depend_on_which_are_recorded(
    lost: tuple[Project, Ran],
) -> None:
    found = equivalence(verdict_of(lost, "scalar.fsdp[xla:cpu]"))
    assert (found.status, found.findings) == (Status.WITHIN, ())
    compared = {group.group: group.compared for group in found.groups}
    assert (compared["grad/*"], compared["grad_norm"]) == (1, 2)


def trace_of(lost: tuple[Project, Ran], label: str) -> Path:
    return lost[0].root / "run" / "traces" / "replicas" / label.replace(":", "-")


@pytest.mark.parametrize("label", ["plain.ddp[cpu]", "plain.data_parallel[xla:cpu]", "plain.fsdp[xla:cpu]"])
def test_replicas_leave_one_trace(lost: tuple[Project, Ran], label: str) -> None:
    trace = read_trace(trace_of(lost, label))
    assert trace.facts.ranks == 2
    assert {"batch/1/0/0@rank0", "batch/2/1/0@rank1", "param/weight"} <= trace.facts.inputs.keys()
    own = [f"{loss}@rank{rank}" for loss in ("loss/0", "loss/1", "loss") for rank in (0, 1)]
    local = [f"local_grad/{name}@rank{rank}" for name in ("weight", "bias") for rank in (0, 1)]
    assert {key for key in trace.keys if "@" in key} == {*own, *(local if "data_parallel" in label else [])}


def test_only_shards_are_kept_beside_the_trace_and_it_says_where_they_lay(lost: tuple[Project, Ran]) -> None:
    for label in ("plain.ddp[cpu]", "plain.data_parallel[xla:cpu]"):
        assert not list(trace_of(lost, label).glob("rank-*"))
        assert not read_trace(trace_of(lost, label)).facts.placement
    folder = trace_of(lost, "plain.fsdp[xla:cpu]")
    assert [path.name for path in sorted(folder.glob("rank-*"))] == ["rank-000", "rank-001"]
    assert read_trace(folder).facts.placement == {
        "weight": (HeldBy(0, 0, 3), HeldBy(1, 3, 6)),
        "bias": (HeldBy(0, 0, 1), HeldBy(1, 1, 2)),
    }


def test_two_ways_to_spread_replicas_are_refused(project: Callable[..., Project]) -> None:
    made = project("replicas")
    text = (SUITE_FILES / "replicas.py").read_text()
    text = text.replace("import DDP,", "import DDP, SpmdDataParallel,")
    made.write("replicas", text.replace("[LOOP, DDP()]", "[LOOP, DDP(), SpmdDataParallel()]"))
    ran = made.run()
    problems = ("- LoopedAccumulation: one device", "- DDP: replicas", "- SpmdDataParallel: spmd")
    headline = "variant 'ddp' is impossible: its treatments spread replicas in two ways"
    ran.refuses("SuiteError", "replicas.py", headline, *problems)
