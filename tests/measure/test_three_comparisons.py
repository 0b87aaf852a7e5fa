"""What equivalence, regression and anchor say together."""

import pytest

from xla_equiv.measure.attribution import attribute
from xla_equiv.values.verdict import Comparison, ComparisonKind, Status

GREEN, BAD = Status.WITHIN, Status.OUTSIDE


def reading(arms: Status, own: Status, anchor: Status) -> str:
    kinds = (ComparisonKind.EQUIVALENCE, ComparisonKind.REGRESSION, ComparisonKind.ANCHOR)
    three = [Comparison(kind=kind, against="x", status=status) for kind, status in zip(kinds, (arms, own, anchor), strict=True)]
    return attribute(*three)


@pytest.mark.parametrize(
    ("arms", "own", "anchor", "start"),
    [
        (GREEN, GREEN, GREEN, ""),
        (BAD, BAD, GREEN, "treatment regression"),
        (BAD, GREEN, BAD, "the reference regressed"),
        (GREEN, BAD, BAD, "environment drift"),
        (GREEN, BAD, GREEN, "the candidate's golden is stale or wrong"),
        (GREEN, GREEN, BAD, "the reference's golden is stale or wrong"),
        (BAD, BAD, BAD, "both arms moved off their goldens, and apart"),
        (BAD, GREEN, GREEN, "the arms have always been apart"),
    ],
)
def test_every_combination_has_its_reading(arms: Status, own: Status, anchor: Status, start: str) -> None:
    found = reading(arms, own, anchor)
    assert found.startswith(start)
    assert bool(found) == bool(start)


def test_every_green_status_counts_as_agreement() -> None:
    assert reading(Status.DRIFT, Status.EXACT, Status.WITHIN) == ""
    assert reading(Status.EXACT, Status.NONFINITE, Status.DRIFT).startswith("the candidate's golden")


@pytest.mark.parametrize("absent", [Status.NOGOLDEN, Status.STALE])
def test_without_a_golden_nothing_is_said(absent: Status) -> None:
    assert reading(BAD, absent, GREEN) == ""
    assert reading(BAD, GREEN, absent) == ""


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_without_one_of_the_three_nothing_is_said(gone: int) -> None:
    three = [Comparison(kind=ComparisonKind.ANCHOR, against="x", status=BAD)] * 3
    assert attribute(*(None if number == gone else one for number, one in enumerate(three))) == ""
