"""What of two traces is compared, and what is found when they do not hold the same keys."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import compare

from xla_equiv.values.verdict import ComparisonKind, Finding, Status

BASE: dict[tuple[int, str], Any] = {
    (step, key): [float(step), 2.0] for step in (1, 2, 3) for key in ("loss", "grad/a", "grad/b", "param/a")
}


def without(*places: tuple[int, str]) -> dict[tuple[int, str], Any]:
    return {place: values for place, values in BASE.items() if place not in places}


def test_two_equal_traces_are_exact() -> None:
    found = compare(BASE, BASE)
    assert (found.status, found.findings, found.compared) == (Status.EXACT, (), 12)
    assert (found.kind, found.against) == (ComparisonKind.EQUIVALENCE, "reference")


@given(st.sets(st.sampled_from(sorted(BASE)), min_size=1), st.booleans())
@settings(deadline=None)
def test_no_key_and_step_can_be_left_out_of_either_side(gone: set[tuple[int, str]], is_candidate: bool) -> None:
    part = without(*gone)
    found = compare(BASE, part) if is_candidate else compare(part, BASE)
    assert found.status is Status.MISSING
    side = "candidate" if is_candidate else "reference"
    first = {key: min(step for step, other in gone if other == key) for _, key in gone}
    missing = [finding for finding in found.findings if finding.key]
    assert {finding.key: finding.step for finding in missing} == first
    assert all(f"missing from the {side}" in finding.what for finding in missing)


def test_a_missing_step_is_found_at_that_step() -> None:
    found = compare(BASE, without(*((2, key) for key in ("loss", "grad/a", "grad/b", "param/a"))))
    assert {(finding.step, finding.status) for finding in found.findings} == {(2, Status.MISSING)}
    assert len(found.findings) == 4


def test_how_many_steps_are_missing_is_said() -> None:
    (finding,) = compare(BASE, without((2, "grad/b"), (3, "grad/b"))).findings
    assert finding.what == "grad/b is missing from the candidate at 2 steps, first 2"


def test_keys_that_are_missing_from_both_sides_are_both_named() -> None:
    found = compare(without((1, "grad/a")), without((1, "grad/b")))
    assert [finding.what for finding in found.findings] == [
        "grad/b is missing from the candidate at 1 step, first 1",
        "grad/a is missing from the reference at 1 step, first 1",
    ]


@pytest.mark.parametrize("values", [np.zeros(2, np.float64), np.zeros((2, 1), np.float32), np.zeros(0, np.float32)])
def test_another_dtype_or_shape_is_missing(values: Any) -> None:
    found = compare(BASE, {**BASE, (2, "grad/b"): values})
    (finding,) = found.findings
    assert (found.status, finding.key, finding.step, found.compared) == (Status.MISSING, "grad/b", 2, 11)
    name = f"{values.dtype.name}{list(values.shape)}"
    assert finding.what == f"grad/b is {name} in the candidate, float32[2] in the reference"


def test_what_a_treatment_cannot_see_is_left_out_and_listed() -> None:
    part = {place: values for place, values in BASE.items() if place[1] != "loss"}
    assert compare(BASE, part).status is Status.MISSING
    found = compare(BASE, part, unobserved=["loss", "loss/*"])
    assert (found.status, found.unobserved, found.compared) == (Status.EXACT, ("loss", "loss/*"), 9)


def test_a_key_that_cannot_be_seen_is_not_compared_even_where_it_differs() -> None:
    found = compare(BASE, {**BASE, (1, "loss"): [9.0, 9.0]}, unobserved=["loss"])
    assert found.status is Status.EXACT


def test_a_selection_holds_for_both_sides() -> None:
    other = {**without((3, "param/a")), (4, "param/a"): [1.0, 1.0]}
    found = compare(BASE, other, select=lambda entry: entry.step == 1)
    assert (found.status, found.compared) == (Status.EXACT, 4)


@pytest.mark.parametrize(
    ("reference", "candidate"), [({}, {}), (BASE, {}), ({}, BASE), (BASE, {(9, "loss"): [1.0]}), (without(), {(1, "x"): [1.0]})]
)
def test_nothing_compared_is_never_green(reference: Any, candidate: Any) -> None:
    for kind in ComparisonKind:
        found = compare(reference, candidate, kind=kind)
        assert (found.status, found.compared) == (Status.MISSING, 0)
        assert any("nothing was compared" in finding.what for finding in found.findings)


def test_nothing_left_by_a_selection_is_never_green() -> None:
    assert compare(BASE, BASE, select=lambda entry: False).status is Status.MISSING
    assert compare(BASE, BASE, unobserved=["*"]).status is Status.MISSING


def test_what_was_known_before_comes_first_and_counts() -> None:
    known = Finding(status=Status.OUTSIDE, what="initial value differs", key="input/param/a")
    found = compare(BASE, without((1, "loss")), known_findings=[known])
    assert found.findings[0] is known
    assert found.status is Status.MISSING
    assert compare(BASE, BASE, known_findings=[known]).status is Status.OUTSIDE
