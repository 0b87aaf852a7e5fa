"""What several replicas did wrong is told from the numbers: whose gradient, whose shard, which parameter."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from xla_equiv.measure.rank_attribution import rank_causes
from xla_equiv.values.shards import HeldBy
from xla_equiv.values.trace import Array, RunFacts, Trace, memory_trace
from xla_equiv.values.verdict import Finding, Status

RANKS, SIZE = 4, 24
OWN = [np.random.default_rng(rank).normal(size=SIZE).astype(np.float32) for rank in range(RANKS)]
MEAN = np.mean(OWN, axis=0).astype(np.float32)


def trace_of(values: Mapping[str, Array], *, step: int = 1, held: tuple[HeldBy, ...] = ()) -> Trace:
    facts = RunFacts(test="s::v[xla:cpu]", steps=step, ranks=RANKS, placement={"w": held} if held else {})
    return memory_trace(facts, {(step, key): value for key, value in values.items()})


REFERENCE = trace_of({**{f"local_grad/w@rank{rank}": own for rank, own in enumerate(OWN)}, "grad/w": MEAN})


def causes(reference: Trace, candidate: Trace, *keys: str, step: int = 1) -> str:
    findings = [Finding(status=Status.OUTSIDE, key=key, step=step, what="") for key in keys]
    return "; ".join(rank_causes(reference, candidate, findings))


@pytest.mark.parametrize(
    ("gradient", "said"),
    [
        (np.sum(OWN, axis=0), "summed, not averaged"),
        (MEAN / RANKS, "averaged twice"),
        (MEAN - OWN[3] / RANKS, "the contribution of rank 3 is missing"),
        (MEAN - (OWN[0] + OWN[2]) / RANKS, "the contribution of rank 0, 2 is missing"),
        (OWN[1], "it is rank 1's own gradient times 1: it was not reduced"),
        (OWN[1] / RANKS, "it is rank 1's own gradient times 0.25"),
        (MEAN + (OWN[2] - OWN[1] / 2) / RANKS, "went in with the weights 0.25 0.125 0.5 0.25, not 0.25 each"),
        (MEAN + OWN[2] / RANKS, "rank 2's gradient went in with the weight 0.5, not 0.25"),
    ],
)
def test_a_gradient_is_told_as_a_sum_of_the_ranks_own(gradient: Array, said: str) -> None:
    found = causes(REFERENCE, trace_of({"grad/w": gradient.astype(np.float32)}), "grad/w")
    assert said in found
    assert found.startswith("grad/w at step 1: ")


def test_a_gradient_that_no_sum_explains_gets_no_cause() -> None:
    other = np.random.default_rng(9).normal(size=SIZE).astype(np.float32)
    assert causes(REFERENCE, trace_of({"grad/w": other}), "grad/w") == ""


def test_the_mean_itself_gets_no_cause() -> None:
    assert causes(REFERENCE, trace_of({"grad/w": np.nextafter(MEAN, np.float32(9))}), "grad/w") == ""


def test_one_replica_has_no_ranks_to_blame() -> None:
    one = memory_trace(RunFacts(test="s::v[cpu]", steps=1), {(1, "grad/w"): MEAN})
    assert causes(one, one, "grad/w") == ""


def test_elements_that_are_off_are_placed_in_shards() -> None:
    held = tuple(HeldBy(rank, 6 * rank, 6 * rank + 6) for rank in range(RANKS))
    wrong = MEAN.copy()
    wrong[13:15] += 1
    assert "lie in the shard of rank 2" in causes(trace_of({"param/w": MEAN}), trace_of({"param/w": wrong}, held=held), "param/w")


def test_swapped_shards_are_recognised() -> None:
    held = tuple(HeldBy(rank, 6 * rank, 6 * rank + 6) for rank in range(RANKS))
    swapped = np.concatenate([MEAN[6:12], MEAN[:6], MEAN[12:]])
    found = causes(trace_of({"param/w": MEAN}), trace_of({"param/w": swapped}, held=held), "param/w")
    assert "rank 0 holds the shard of rank 1; rank 1 holds the shard of rank 0" in found


def test_a_value_of_the_step_before_is_stale() -> None:
    arrays = {(1, "param/w"): MEAN, (2, "param/w"): MEAN + 1, (2, "param/w@rank3"): MEAN}
    candidate = memory_trace(RunFacts(test="s::v[xla:cpu]", steps=2, ranks=RANKS), arrays)
    reference = replace(candidate, entries=candidate.entries[:2])
    assert "rank 3 still has the value of the step before" in causes(reference, candidate, "param/w@rank3", step=2)
