"""The findings of a comparison in order, and its measurements put together by group of keys."""

import math
from typing import Any

import numpy as np
from made_traces import compare, trace

from xla_equiv.measure.compare import compare_traces
from xla_equiv.values.tolerance import Level, Tolerance, ToleranceTable
from xla_equiv.values.verdict import ComparisonKind, Finding, Status

KEYS = ("loss/0", "loss", "grad/z", "grad/a", "grad_norm", "optim/z/exp_avg", "optim/a/exp_avg", "param/z")
BASE: dict[tuple[int, str], Any] = {(step, key): [1.0, 2.0] for step in (1, 2, 10) for key in KEYS}


def test_findings_come_by_step_and_then_as_they_were_computed() -> None:
    bad = [(10, "loss"), (2, "param/z"), (2, "grad/a"), (2, "grad/z"), (10, "grad/z")]
    found = compare(BASE, {**BASE, **{place: [1.0, 3.0] for place in bad}})
    assert [(finding.step, finding.key) for finding in found.findings] == [
        (2, "grad/z"),
        (2, "grad/a"),
        (2, "param/z"),
        (10, "loss"),
        (10, "grad/z"),
    ]
    assert found.first_bad_step == 2


def test_the_order_is_that_of_the_reference() -> None:
    changed = {**BASE, (1, "grad/a"): [9.0, 9.0], (1, "grad/z"): [9.0, 9.0]}
    backwards = dict(reversed(changed.items()))
    assert [finding.key for finding in compare(BASE, backwards).findings] == ["grad/z", "grad/a"]


def test_every_finding_says_what_is_wrong_and_carries_its_numbers() -> None:
    found = compare(BASE, {**BASE, (1, "loss"): [1.0, math.nan], (2, "loss"): [1.5, 3.0]})
    nonfinite, outside = found.findings
    assert (nonfinite.status, nonfinite.what) == (
        Status.NONFINITE,
        "loss has 1 of 2 elements that are NaN or inf on at least one side",
    )
    assert (outside.status, outside.what) == (Status.OUTSIDE, "loss has 2 of 2 elements outside tolerance")
    assert outside.measurement is not None
    assert (outside.measurement.key, outside.measurement.step, outside.measurement.index) == ("loss", 2, (0,))


def test_keys_are_put_together_in_groups_in_recorded_order() -> None:
    found = compare(BASE, BASE)
    assert [(group.group, group.compared) for group in found.groups] == [
        ("loss/*", 3),
        ("loss", 3),
        ("grad/*", 6),
        ("grad_norm", 3),
        ("optim/*/exp_avg", 6),
        ("param/*", 3),
    ]
    assert {group.status for group in found.groups} == {Status.EXACT}
    assert found.compared == len(BASE)


def test_a_group_holds_the_extremes_of_its_members() -> None:
    changed = {**BASE, (2, "grad/a"): [1.0, 2.5], (10, "grad/z"): [1.5, 2.0], (1, "grad/z"): [1.0005, 2.0]}
    found = compare(BASE, changed)
    group = next(group for group in found.groups if group.group == "grad/*")
    assert (group.status, group.outside, group.first_outside) == (Status.OUTSIDE, 2, 2)
    assert (group.max_abs, group.max_rel, group.min_rtol, group.min_atol) == (0.5, 0.5, 0.5, 0.499)
    assert (group.measurement.key, group.measurement.step) == ("grad/z", 10)
    assert group.decided_by == ("suite [*]",)
    assert found.worst_group is group
    assert found.margin == group.measurement.margin
    assert math.isclose(found.margin, 500.0)


def test_a_green_group_is_within_when_one_member_is() -> None:
    found = compare(BASE, {**BASE, (1, "loss"): [1.0, 2.001]})
    assert {group.group: group.status for group in found.groups}["loss"] is Status.WITHIN
    assert found.status is Status.WITHIN
    assert {found.first_bad_step, *(group.first_outside for group in found.groups)} == {0}


def test_the_gravest_finding_or_group_is_the_status() -> None:
    assert compare(BASE, {**BASE, (1, "loss"): [math.inf, 9.0], (2, "loss"): [9.0, 9.0]}).status is Status.NONFINITE
    blind = Finding(status=Status.BLIND, what="blind")
    assert compare(BASE, {**BASE, (1, "loss"): [9.0, 9.0]}, known_findings=[blind]).status is Status.OUTSIDE


def test_every_key_is_measured_under_its_own_tolerance() -> None:
    rules = {
        "*": Tolerance(rtol=0.0, atol=0.0, why="exact"),
        "grad/*": Tolerance(rtol=0.5, why="wide"),
        "param/*": Tolerance(rtol=0.5, atol=0.5, why="wide, once recorded", only=("regression",)),
    }
    changed = {**BASE, (1, "grad/a"): [1.5, 2.0], (2, "param/z"): [1.5, 2.0]}

    def bad_keys(kind: ComparisonKind) -> list[str]:
        table = ToleranceTable([(Level.SUITE, rules)])
        found = compare_traces(trace(BASE), trace(changed), table, kind=kind, against="x")
        return [finding.key for finding in found.findings]

    assert bad_keys(ComparisonKind.EQUIVALENCE) == ["param/z"]
    assert bad_keys(ComparisonKind.REGRESSION) == []


def test_integers_stay_exact_under_a_tolerance_for_all_keys() -> None:
    counted = {**BASE, (1, "buffer/n"): np.array([4])}
    found = compare(counted, {**counted, (1, "buffer/n"): np.array([5])}, rtol=1.0)
    (finding,) = found.findings
    assert (finding.key, finding.status) == ("buffer/n", Status.OUTSIDE)
    assert finding.measurement is not None
    assert finding.measurement.decided_by == "project default [int64]"
