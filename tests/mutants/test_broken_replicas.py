"""Ten ways to break several replicas must be caught, with the rank and the parameter."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from xla_equiv.store.report import Report
from xla_equiv.values.verdict import ComparisonKind, Status, Verdict


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


def verdict_of(report: Report, name: str) -> Verdict:
    return next(one for one in report.verdicts if one.test == f"broken_replicas::{name}[xla:cpu]")


@pytest.mark.parametrize("name", CAUGHT)
def test_a_broken_replica_is_caught_with_rank_and_parameter(broken_replicas: Report, name: str) -> None:
    verdict, wanted = verdict_of(broken_replicas, name), CAUGHT[name]
    assert verdict.status is Status.OUTSIDE, verdict.what
    comparison = next(one for one in verdict.comparisons if one.kind is ComparisonKind.EQUIVALENCE)
    assert (comparison.findings[0].key, comparison.findings[0].step) == (wanted.key, wanted.step)
    assert wanted.likely in "; ".join(comparison.likely)


def test_replicas_that_are_not_broken_agree(broken_replicas: Report) -> None:
    verdict = verdict_of(broken_replicas, "healthy_fsdp")
    comparison = next(one for one in verdict.comparisons if one.kind is ComparisonKind.EQUIVALENCE)
    assert comparison.status.is_green


def test_every_candidate_stands_in_the_table(broken_replicas: Report) -> None:
    candidates = {one.test.partition("::")[2].partition("[")[0] for one in broken_replicas.verdicts if one.comparisons}
    assert candidates == {*CAUGHT, "healthy_fsdp", "data_parallel"}
