"""Ways in which a treatment may not have taken effect must end as UNPROVEN, or OUTSIDE where numbers show it."""

from collections.abc import Mapping

import pytest

from xla_equiv.store.report import Report
from xla_equiv.values.verdict import Status, Verdict

UNPROVEN: Mapping[str, str] = {
    "broken_treatments::checkpoint_not_applied": "Checkpointing: layers.0 ran without its checkpoint",
    "broken_treatments::checkpoint_of_one_layer": "Checkpointing: layers.1 ran without its checkpoint",
    "broken_treatments::checkpoint_that_keeps": "Checkpointing: layers.0 was run again in the backward pass 0 of 8 times",
    "broken_treatments::checkpoint_that_runs_twice": "Checkpointing: layers.0 was run again in the backward pass 0 of 8 times",
    "broken_treatments::autocast_of_one_layer": "Autocast: of 56 matrix products 12 were traced in bfloat16",
    "broken_treatments::silent_loop": "WhileAccumulation: an optimised graph has no while loop; needed are loops of 2",
    "broken_treatments::loop_after_the_first_step": "WhileAccumulation: an optimised graph has no while loop; needed are loops of 2",
    "broken_treatments::autocast_off": "Autocast: no matrix product was traced in bfloat16",
    "broken_treatments::scan_falls_back": "ScanLayers: the members of 'layers' are not scanned",
    "broken_treatments::dynamo_falls_back": "DynamoForward: dynamo captured no graph",
    "broken_treatments::dynamo_breaks": "DynamoForward: dynamo left the graph 1 times",
    "broken_treatments::precision_set_too_late": "MatmulPrecision: the matrix products have precision default, not highest",
    "broken_sharding::checkpoints_nothing": "XlaFSDP: no unit has an input that requires a gradient",
    "broken_sharding::divides_the_first": "SpmdTensorParallel: an optimised graph takes 5 of 6 parameters f32[12,24] on each device",
    "broken_sharding::wraps_nothing": "XlaFSDP: the optimised graphs have no all-gather and no reduce-scatter of 2 devices, but all-reduce of all",
}
"""Test -> how the reason begins, after the class that the mutant is derived from."""

OUTSIDE: Mapping[str, str] = {
    "broken_treatments::stale_batch": "loss/1",
    "broken_recomputation::dropout.redrawn": "grad/input.weight",
    "broken_recomputation::side_effect.preserved": "grad/input.weight",
    "broken_recomputation::side_effect.redrawn": "grad/input.weight",
    "broken_dropout::always_alike": "loss/0",
    "broken_dropout::more_often": "grad_norm",
    "broken_dropout::unscaled": "grad/input.weight",
}
"""Test -> the first wrong key."""

HARMLESS = ("broken_recomputation::dropout.preserved", "broken_sharding::fsdp", "broken_dropout::by_hand")


def verdict_of(report: Report, name: str) -> Verdict:
    return next(one for one in report.verdicts if one.test == f"{name}[xla:cpu]")


@pytest.mark.parametrize("name", UNPROVEN)
def test_a_treatment_without_effect_is_unproven_though_the_numbers_agree(broken_treatments: Report, name: str) -> None:
    verdict = verdict_of(broken_treatments, name)
    assert verdict.status is Status.UNPROVEN, verdict.what
    assert not verdict.is_green
    assert UNPROVEN[name].partition(": ")[2] in verdict.what
    assert verdict.equivalence is not None
    assert verdict.equivalence.status.is_green


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_treatment_that_changes_the_numbers_is_outside(broken_treatments: Report, name: str) -> None:
    verdict = verdict_of(broken_treatments, name)
    assert verdict.status is Status.OUTSIDE, verdict.what
    assert verdict.equivalence is not None
    first = verdict.equivalence.findings[0]
    assert (first.step, first.key) == (1, OUTSIDE[name])


@pytest.mark.parametrize("name", HARMLESS)
def test_the_treatment_that_is_whole_passes(broken_treatments: Report, name: str) -> None:
    verdict = verdict_of(broken_treatments, name)
    assert verdict.status is Status.NOGOLDEN, verdict.what
    assert verdict.equivalence is not None
    assert verdict.equivalence.status.is_green


def test_every_candidate_stands_in_a_table(broken_treatments: Report) -> None:
    candidates = {one.test.removesuffix("[xla:cpu]") for one in broken_treatments.verdicts if one.equivalence}
    assert candidates == {*UNPROVEN, *OUTSIDE, *HARMLESS}
