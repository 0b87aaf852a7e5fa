"""Broken trainers must be caught, at the right key and step; harmless rewrites must pass."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from xla_equiv.store.report import Report
from xla_equiv.store.traces import read_trace
from xla_equiv.values.patterns import matches
from xla_equiv.values.steps import is_key_selected
from xla_equiv.values.suite import DEFAULT_GOLDEN
from xla_equiv.values.verdict import Comparison, ComparisonKind, Measurement, Status, Verdict

STEPS = 3
MISSING, NONFINITE, OUTSIDE = Status.MISSING, Status.NONFINITE, Status.OUTSIDE


@dataclass(frozen=True)
class Caught:
    """How a fault must show: status of the verdict, first wrong key and its step, and more where it is known.

    `only` is a pattern that every key which is wrong in that step must match.
    """

    status: Status
    key: str
    step: int = 1
    index: tuple[int, ...] | None = None
    likely: str = ""
    only: str = "*"


CAUGHT: Mapping[str, Caught] = {
    "broken_accumulation::loss_not_divided[cpu]": Caught(
        OUTSIDE, "loss", likely="4 times the reference at step 1: the accumulated loss was not divided"
    ),
    "broken_accumulation::loss_divided_twice[cpu]": Caught(
        OUTSIDE, "loss", likely="0.25 times the reference at step 1: the accumulated loss was divided twice"
    ),
    "broken_accumulation::last_micro_batch_dropped[cpu]": Caught(MISSING, "loss/3"),
    "broken_accumulation::last_backward_dropped[cpu]": Caught(OUTSIDE, "grad/entry.weight", only="[!lc]*"),
    "broken_accumulation::zero_grad_forgotten[cpu]": Caught(OUTSIDE, "grad/entry.weight", step=2, only="[!lc]*"),
    "broken_accumulation::batches_swapped[cpu]": Caught(OUTSIDE, "loss/0"),
    "broken_accumulation::batches_of_the_step_before[cpu]": Caught(OUTSIDE, "loss/0", step=2),
    "broken_accumulation::labels_rolled[cpu]": Caught(OUTSIDE, "loss/0"),
    "broken_accumulation::clipped_each_micro_batch[cpu]": Caught(OUTSIDE, "grad/entry.weight", only="[!lc]*"),
    "broken_accumulation::carried_stale[cpu]": Caught(OUTSIDE, "carried/0", only="carried/*"),
    "broken_accumulation::carried_permuted[cpu]": Caught(OUTSIDE, "carried/0", only="carried/*"),
    "broken_accumulation::parameters_averaged[cpu]": Caught(OUTSIDE, "param/mix.weight", only="param/mix.weight"),
    "broken_accumulation::forward_recomputed[cpu]": Caught(OUTSIDE, "buffer/norm.running_mean", only="buffer/*"),
    "broken_gradients::one_zeroed[cpu]": Caught(OUTSIDE, "grad/mix.weight", likely="not accumulated, or cleared"),
    "broken_gradients::one_scaled[cpu]": Caught(OUTSIDE, "grad/mix.weight", likely="1.001 times the reference"),
    "broken_gradients::one_scaled_in_the_end[cpu]": Caught(
        OUTSIDE, "grad/exit.bias", step=3, likely="1.001 times the reference at step 3"
    ),
    "broken_gradients::sign_flipped[cpu]": Caught(OUTSIDE, "grad/entry.weight", likely="its sign is flipped"),
    "broken_gradients::one_transposed[cpu]": Caught(OUTSIDE, "grad/mix.weight"),
    "broken_gradients::one_element[cpu]": Caught(OUTSIDE, "grad/mix.weight", index=(2, 3)),
    "broken_gradients::one_rounded_to_bfloat16[cpu]": Caught(OUTSIDE, "grad/exit.weight"),
    "broken_gradients::one_missing[cpu]": Caught(MISSING, "grad/entry.weight"),
    "broken_gradients::clipped_twice[cpu]": Caught(OUTSIDE, "grad/entry.weight", likely="0.5 times the reference"),
    "broken_gradients::nan_at_step_2[cpu]": Caught(NONFINITE, "grad/mix.weight", step=2, index=(2, 3)),
    "broken_gradients::inf_at_step_3[cpu]": Caught(NONFINITE, "grad/mix.weight", step=3, index=(2, 3)),
    "broken_gradients::wrong_seed[cpu]": Caught(
        OUTSIDE, "input/param/entry.weight", step=0, likely="did not train on the same inputs"
    ),
    "broken_gradients::statistics_frozen[cpu]": Caught(OUTSIDE, "loss/0"),
    "broken_on_xla::while_not_divided[xla:cpu]": Caught(
        OUTSIDE, "grad/entry.weight", likely="the accumulated loss was not divided by the number of micro-batches"
    ),
}
UNPROVEN = "broken_on_xla::silent_loop[xla:cpu]"
REWRITES = (
    "Unchanged",
    "SummedBackwards",
    "SummedInFloat64",
    "OneBackward",
    "DividedAfterwards",
    "SeparateBuffer",
    "ZeroedGradients",
    "CopiedModel",
    "Reshaped",
)
HARMLESS = tuple(f"harmless_rewrites::{name}[cpu]" for name in REWRITES)
HARMLESS_ON_XLA = ("broken_on_xla::synced_each[xla:cpu]", "broken_on_xla::detour[xla:cpu]")


def verdict_of(run: tuple[Report, int], test: str) -> Verdict:
    return next(verdict for verdict in run[0].verdicts if verdict.test == test)


def equivalence(verdict: Verdict) -> Comparison:
    (found,) = equivalences(verdict)
    return found


def equivalences(verdict: Verdict) -> list[Comparison]:
    return [one for one in verdict.comparisons if one.kind is ComparisonKind.EQUIVALENCE]


def check_measurement(run: tuple[Report, int], verdict: Verdict, found: Measurement) -> None:
    """Make sure that what was measured stands in the saved traces, at the place that is named."""
    folder = Path(run[0].run)
    reference = folder / "traces" / verdict.test.partition("::")[0] / "loop[cpu]"
    place = (found.step, found.key)
    for trace, value in ((folder / verdict.trace, found.candidate_value), (reference, found.reference_value)):
        array = next(array for entry, array in read_trace(trace).arrays() if (entry.step, entry.key) == place)
        assert float(array[found.index]) == pytest.approx(value, rel=0, abs=0, nan_ok=True)
    assert found.margin > 1
    assert found.outside >= 1


@pytest.mark.parametrize("test", CAUGHT)
def test_a_broken_trainer_is_caught_at_its_key_and_step(mutants_run: tuple[Report, int], test: str) -> None:
    verdict, wanted = verdict_of(mutants_run, test), CAUGHT[test]
    assert verdict.status is wanted.status
    assert not verdict.is_green
    comparison = equivalence(verdict)
    first = comparison.findings[0]
    assert (first.key, first.step) == (wanted.key, wanted.step)
    assert wanted.step == 0 or comparison.first_bad_step == wanted.step
    assert wanted.likely in "; ".join(comparison.likely)
    wrong = [finding.key for finding in comparison.findings if finding.step == wanted.step]
    assert [key for key in wrong if not matches(key, wanted.only)] == []
    measurement = next(finding.measurement for finding in comparison.findings if finding.measurement)
    assert wanted.index in (None, measurement.index)
    check_measurement(mutants_run, verdict, measurement)


def test_a_fault_in_one_tensor_is_seen_in_no_other_gradient_of_its_step(mutants_run: tuple[Report, int]) -> None:
    for name in ("one_zeroed", "one_scaled", "one_transposed", "one_element"):
        found = equivalence(verdict_of(mutants_run, f"broken_gradients::{name}[cpu]")).findings
        assert [one.key for one in found if one.step == 1 and one.key.startswith("grad/")] == ["grad/mix.weight"]


def test_a_loop_that_says_it_is_a_while_is_unproven(mutants_run: tuple[Report, int]) -> None:
    verdict = verdict_of(mutants_run, UNPROVEN)
    assert verdict.status is Status.UNPROVEN
    assert "no while loop; needed are loops of 4" in verdict.what
    assert equivalence(verdict).status.is_green


@pytest.mark.parametrize("test", HARMLESS)
def test_a_harmless_rewrite_passes(second_run: tuple[Report, int], test: str) -> None:
    verdict = verdict_of(second_run, test)
    assert verdict.status in (Status.EXACT, Status.WITHIN)
    own = next(one for one in verdict.comparisons if one.kind is ComparisonKind.REGRESSION)
    assert own.status is Status.EXACT


@pytest.mark.parametrize("test", HARMLESS_ON_XLA)
def test_a_harmless_rewrite_on_xla_agrees(mutants_run: tuple[Report, int], test: str) -> None:
    verdict = verdict_of(mutants_run, test)
    assert verdict.status is Status.NOGOLDEN
    assert equivalence(verdict).status is Status.WITHIN


def test_the_exit_codes_tell_broken_from_harmless(
    mutants_run: tuple[Report, int], second_run: tuple[Report, int]
) -> None:
    assert (mutants_run[1], second_run[1]) == (1, 0)


def test_some_rewrites_change_bits_so_that_the_tolerance_is_used(second_run: tuple[Report, int]) -> None:
    statuses = {test: equivalence(verdict_of(second_run, test)).status for test in HARMLESS}
    assert statuses["harmless_rewrites::Unchanged[cpu]"] is Status.EXACT
    assert statuses["harmless_rewrites::SummedBackwards[cpu]"] is Status.WITHIN
    margins = [equivalence(verdict_of(second_run, test)).margin for test in HARMLESS]
    assert 0 < max(margins) < 1


def test_every_candidate_of_the_suites_stands_in_a_table(mutants_run: tuple[Report, int]) -> None:
    candidates = {one.test for one in mutants_run[0].verdicts if equivalences(one)}
    assert candidates == {*CAUGHT, *HARMLESS, *HARMLESS_ON_XLA, UNPROVEN}
    assert len(CAUGHT) >= 10
    assert len(HARMLESS) >= 5


def test_the_suites_set_no_tolerance_of_their_own(mutants_run: tuple[Report, int]) -> None:
    deciders = {
        text
        for verdict in mutants_run[0].verdicts
        for comparison in verdict.comparisons
        for group in comparison.groups
        for text in group.decided_by
    }
    assert deciders
    assert {text.partition(" [")[0] for text in deciders} == {"project default"}
    assert max(g.measurement.rtol for v in mutants_run[0].verdicts for c in v.comparisons for g in c.groups) < 1e-5


@pytest.mark.parametrize("test", CAUGHT)
def test_what_a_golden_keeps_would_be_enough_to_catch_it(mutants_run: tuple[Report, int], test: str) -> None:
    """A golden keeps less than a trace: the fault must still show at the steps and keys that are kept."""
    findings = equivalence(verdict_of(mutants_run, test)).findings
    kept = [f for f in findings if is_key_selected(f.key, f.step, DEFAULT_GOLDEN, steps=STEPS) or f.step == 0]
    assert kept
