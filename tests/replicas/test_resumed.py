"""A training that a fresh process resumes: equal to the unbroken one, or caught, or ended with a message that says why."""

from pathlib import Path

import pytest

from xla_equiv.store.report import read_report
from xla_equiv.store.traces import is_complete, read_facts, read_trace, step_file
from xla_equiv.values.verdict import Status, Verdict


def verdict_of(run: Path, variant: str) -> Verdict:
    verdicts = read_report(run / "report.json").verdicts
    return next(verdict for verdict in verdicts if verdict.test == f"resuming::{variant}[xla:cpu]")


def trace_of(run: Path, variant: str) -> Path:
    return run / "traces" / "resuming" / f"{variant}[xla-cpu]"


@pytest.mark.parametrize("form", ["sharded", "consolidated"])
def test_a_resumed_training_equals_the_unbroken_one_bit_for_bit(resumed_run: Path, form: str) -> None:
    comparison = verdict_of(resumed_run, f"plain.{form}").equivalence
    assert comparison is not None
    assert comparison.status is Status.EXACT
    assert {group.group for group in comparison.groups} >= {"loss", "grad/*", "optim/*/exp_avg", "optim/*/step", "param/*"}


def test_it_may_be_resumed_again_and_by_fewer(resumed_run: Path) -> None:
    comparison = verdict_of(resumed_run, "plain.twice").equivalence
    assert comparison is not None
    assert comparison.status is Status.WITHIN
    assert comparison.unobserved == ("local_grad/*", "loss@rank*", "loss/*@rank*")


@pytest.mark.parametrize(
    ("variant", "key", "step"),
    [("forgets_state.sharded", "optim/weight/step", 2), ("turns_shards.consolidated", "loss/0@rank0", 2)],
)
def test_what_is_not_loaded_rightly_is_caught_at_the_first_step_after(
    resumed_run: Path, variant: str, key: str, step: int
) -> None:
    comparison = verdict_of(resumed_run, variant).equivalence
    assert comparison is not None
    assert comparison.status is Status.OUTSIDE
    assert key in {finding.key for finding in comparison.findings if finding.step == step}
    assert comparison.first_bad_step == step


def test_the_trace_joins_what_the_stages_recorded(resumed_run: Path) -> None:
    resumed, unbroken = (read_trace(trace_of(resumed_run, f"plain.{name}")) for name in ("sharded", "unbroken"))
    assert resumed.entries == unbroken.entries
    assert resumed.facts.inputs == unbroken.facts.inputs
    assert resumed.facts.settings == unbroken.facts.settings
    assert set(resumed.facts.graph.fingerprints) == set(unbroken.facts.graph.fingerprints)
    assert resumed.facts.unproven == ()
    stages = [read_facts(trace_of(resumed_run, "plain.sharded") / f"stage-{number}") for number in (1, 2)]
    assert resumed.facts.run_s == sum(stage.run_s for stage in stages)


@pytest.mark.parametrize(
    ("variant", "what"),
    [
        ("plain.lost_shard", "CheckpointError: checkpoint-00001 has no shard of rank 1 of 2 (rank 0 of run "),
        ("plain.torn", "CheckpointError: consolidated.pth is damaged (RuntimeError: "),
    ],
)
def test_a_broken_checkpoint_ends_the_training_and_leaves_what_there_is(resumed_run: Path, variant: str, what: str) -> None:
    verdict, trace = verdict_of(resumed_run, variant), trace_of(resumed_run, variant)
    assert verdict.status is Status.CRASHED
    assert verdict.what.startswith(what)
    assert verdict.attempts == 1
    assert not is_complete(trace)
    assert is_complete(trace / "stage-1")
    assert step_file(trace / "stage-1", 1).is_file()
    assert (trace / "checkpoint-00001" / "checkpoint_rank-00000000-of-00000002.pth").is_file()
