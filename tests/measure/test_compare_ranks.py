"""Traces in which replicas differ: each rank is compared, and nothing is lost."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import compare

from xla_equiv.values.ranks import is_of_each_rank, split_rank
from xla_equiv.values.verdict import Status

Arrays = dict[tuple[int, str], Any]

BASE: Arrays = {(step, key): [float(step), 2.0] for step in (1, 2) for key in ("loss", "grad/a", "grad/b")}
NEAR, FAR = [2.0, 2.001], [2.0, 7.0]
"""Beside what all ranks hold at step 2: inside the tolerance and outside."""


def with_rank(key: str, values: list[float]) -> Arrays:
    return {**BASE, (2, key): values}


def test_a_rank_that_differs_within_the_tolerance_agrees() -> None:
    for reference, candidate in ((BASE, with_rank("grad/a@rank3", NEAR)), (with_rank("grad/a@rank3", NEAR), BASE)):
        found = compare(reference, candidate)
        assert (found.status, found.findings, found.compared) == (Status.WITHIN, (), 7)


def test_a_rank_of_the_candidate_is_held_against_what_all_of_the_reference_hold() -> None:
    found = compare(BASE, with_rank("grad/a@rank3", FAR))
    (finding,) = found.findings
    assert (found.status, finding.key, finding.step) == (Status.OUTSIDE, "grad/a@rank3", 2)
    assert finding.what == "grad/a@rank3 has 1 of 2 elements outside tolerance"
    assert finding.measurement is not None
    assert (finding.measurement.reference_value, finding.measurement.candidate_value) == (2.0, 7.0)


def test_a_rank_of_the_reference_is_held_against_what_all_of_the_candidate_hold() -> None:
    (finding,) = compare(with_rank("grad/a@rank3", FAR), BASE).findings
    assert (finding.key, finding.step) == ("grad/a@rank3", 2)
    assert finding.measurement is not None
    assert (finding.measurement.reference_value, finding.measurement.candidate_value) == (7.0, 2.0)


def test_a_rank_that_differs_on_both_sides_is_held_against_itself() -> None:
    assert compare(with_rank("grad/a@rank3", FAR), with_rank("grad/a@rank3", FAR)).status is Status.EXACT
    found = compare(with_rank("grad/a@rank3", FAR), with_rank("grad/a@rank3", [2.0, 8.0]))
    assert [finding.key for finding in found.findings] == ["grad/a@rank3"]


def test_ranks_that_differ_on_one_side_each_are_both_held_against_the_others() -> None:
    found = compare(with_rank("grad/a@rank1", FAR), with_rank("grad/a@rank3", FAR))
    assert [finding.key for finding in found.findings] == ["grad/a@rank1", "grad/a@rank3"]


def test_a_rank_beside_nothing_is_missing() -> None:
    gone = {place: values for place, values in BASE.items() if place != (2, "grad/a")}
    rank = {**gone, (2, "grad/a@rank3"): FAR}
    found = compare(gone, rank)
    (finding,) = found.findings
    assert (found.status, finding.what) == (
        Status.MISSING,
        "grad/a@rank3 is missing from the reference at 1 step, first 2",
    )
    assert compare(rank, gone).findings[0].what.startswith("grad/a@rank3 is missing from the candidate")


@pytest.mark.parametrize("key", ["loss@rank1", "loss/0@rank1", "local_grad/a@rank1"])
def test_nothing_stands_for_what_every_rank_has_of_its_own(key: str) -> None:
    base = {**BASE, (2, "loss/0"): NEAR, (2, "local_grad/a"): NEAR}
    found = compare(base, {**base, (2, key): NEAR})
    (finding,) = found.findings
    assert (finding.status, finding.key) == (Status.MISSING, key)


def test_a_rank_of_another_dtype_or_shape_is_missing() -> None:
    (finding,) = compare(BASE, with_rank("grad/a@rank3", [2.0])).findings
    assert finding.what == "grad/a@rank3 is float32[1] in the candidate, float32[2] in the reference"


def test_ranks_are_grouped_with_what_they_are_ranks_of() -> None:
    (losses, gradients) = compare(BASE, with_rank("grad/a@rank3", FAR)).groups
    assert (losses.group, gradients.group, gradients.compared, gradients.outside) == ("loss", "grad/*", 5, 1)


def test_what_cannot_be_seen_cannot_be_seen_on_any_rank() -> None:
    found = compare(BASE, with_rank("grad/a@rank3", FAR), unobserved=["grad/a"])
    assert (found.status, found.compared) == (Status.EXACT, 4)
    only_the_rank = compare(BASE, with_rank("grad/a@rank3", FAR), unobserved=["grad/*@rank*"])
    assert (only_the_rank.status, only_the_rank.compared) == (Status.EXACT, 6)


PLACES = st.tuples(
    st.integers(1, 2),
    st.sampled_from(["loss", "loss/0", "local_grad/a", "grad/a", "grad/b", "param/a"]),
    st.sampled_from(["", "@rank0", "@rank1", "@rank2"]),
).map(lambda parts: (parts[0], parts[1] + parts[2]))
TRACES = st.dictionaries(PLACES, st.sampled_from([[1.0, 2.0], [1.0, 3.0]]), max_size=12)


def has(arrays: Arrays, step: int, key: str) -> bool:
    """Return whether something in `arrays` says what `key` holds at `step`."""
    base, rank = split_rank(key)
    return (step, key) in arrays or (rank is not None and not is_of_each_rank(base) and (step, base) in arrays)


@given(TRACES, TRACES)
@settings(deadline=None)
def test_every_key_of_every_rank_is_compared_or_missing(reference: Arrays, candidate: Arrays) -> None:
    found = compare(reference, candidate)
    places = {*reference, *candidate}
    lacking = {
        (key, side)
        for arrays, side in ((candidate, "candidate"), (reference, "reference"))
        for step, key in places
        if not has(arrays, step, key)
    }
    missing = [finding for finding in found.findings if finding.status is Status.MISSING and finding.key]
    assert {(finding.key, finding.what.split()[5]) for finding in missing} == lacking
    assert found.compared == sum(has(reference, *place) and has(candidate, *place) for place in places)


@given(TRACES, TRACES)
@settings(deadline=None)
def test_every_difference_of_a_rank_is_found(reference: Arrays, candidate: Arrays) -> None:
    def held(arrays: Arrays, step: int, key: str) -> Any:
        return arrays.get((step, key), arrays.get((step, split_rank(key)[0])))

    wrong = {
        (step, key)
        for step, key in {*reference, *candidate}
        if has(reference, step, key)
        and has(candidate, step, key)
        and held(reference, step, key) != held(candidate, step, key)
    }
    found = compare(reference, candidate)
    assert {(finding.step, finding.key) for finding in found.findings if finding.measurement} == wrong
