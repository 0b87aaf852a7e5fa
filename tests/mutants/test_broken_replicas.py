"""Ten ways to break several replicas must be caught, with the rank and the parameter."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from xla_equiv.store.report import Report, read_report
from xla_equiv.values.verdict import ComparisonKind, Status, Verdict

SUITES = Path(__file__).parent / "replica_suites"


@dataclass(frozen=True)
class Caught:
    """How a fault must show: the first wrong key and its step, and what the report says of the cause."""

    key: str
    likely: str
    step: int = 1


CAUGHT: Mapping[str, Caught] = {
    "averaged_twice": Caught("grad/entry.weight", "the gradients of the 4 ranks were averaged twice"),
    "summed": Caught("grad/entry.weight", "the gradients of the 4 ranks were summed, not averaged"),
    "one_rank_missing": Caught("grad/entry.weight", "grad/entry.weight at step 1: the contribution of rank 2 is missing"),
    "stale_weights": Caught("param/entry.weight@rank2", "rank 2 still has the value of the step before", step=3),
    "shards_swapped": Caught("grad/first.weight", "rank 1 holds the shard of rank 2; rank 2 holds the shard of rank 1"),
    "one_parameter_not_reduced": Caught("grad/first.weight", "grad/first.weight@rank2 at step 1: it is rank 2's own gradient"),
    "wrong_bucket_order": Caught("grad/first.weight", "grad/first.weight at step 1: it is the gradient of second.weight"),
    "reduced_in_bfloat16": Caught("grad/entry.weight", "it was reduced in bfloat16, not in float32"),
    "local_norm": Caught("grad_norm", "every rank has the norm of its own shard, not the global one (rank 0:"),
    "optimizer_of_another_rank": Caught(
        "optim/entry.weight/momentum_buffer", "all elements that are off lie in the shard of rank 1, 2", step=3
    ),
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    out = tmp_path_factory.mktemp("replicas")
    command = [sys.executable, "-m", "xla_equiv", "run", "--suites", str(SUITES), "--out", str(out / "run")]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([*command, "--golden", str(out / "golden")], env=environment, stdout=subprocess.DEVNULL, check=False)
    return read_report(out / "run" / "report.json")


def verdict_of(report: Report, name: str) -> Verdict:
    return next(one for one in report.verdicts if one.test == f"broken_replicas::{name}[xla:cpu]")


@pytest.mark.parametrize("name", CAUGHT)
def test_a_broken_replica_is_caught_with_rank_and_parameter(report: Report, name: str) -> None:
    verdict, wanted = verdict_of(report, name), CAUGHT[name]
    assert verdict.status is Status.OUTSIDE, verdict.what
    comparison = next(one for one in verdict.comparisons if one.kind is ComparisonKind.EQUIVALENCE)
    assert (comparison.findings[0].key, comparison.findings[0].step) == (wanted.key, wanted.step)
    assert wanted.likely in "; ".join(comparison.likely)


def test_replicas_that_are_not_broken_agree(report: Report) -> None:
    verdict = verdict_of(report, "healthy_fsdp")
    comparison = next(one for one in verdict.comparisons if one.kind is ComparisonKind.EQUIVALENCE)
    assert comparison.status.is_green


def test_every_candidate_stands_in_the_table(report: Report) -> None:
    candidates = {one.test.partition("::")[2].partition("[")[0] for one in report.verdicts if one.comparisons}
    assert candidates == {*CAUGHT, "healthy_fsdp", "data_parallel"}
