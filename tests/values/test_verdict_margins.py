"""The share of a tolerance that a verdict used, and how it changed since its golden was accepted."""

import math

from xla_equiv.values.verdict import Comparison, ComparisonKind, KeyGroup, Measurement, Status, Verdict


def comparison(kind: ComparisonKind, *margins: float) -> Comparison:
    def group(margin: float) -> KeyGroup:
        status = Status.WITHIN if margin <= 1 else Status.OUTSIDE
        worst = Measurement(key="grad/a", step=1, dtype="float32", shape=(), status=status, margin=margin)
        return KeyGroup(
            group="grad/*",
            compared=1,
            outside=0,
            max_abs=0.0,
            max_rel=0.0,
            min_rtol=0.0,
            min_atol=0.0,
            first_outside=0,
            status=status,
            measurement=worst,
            decided_by=(),
        )

    return Comparison(kind=kind, against="x", status=Status.WITHIN, groups=tuple(map(group, margins)))


EQUIVALENCE = comparison(ComparisonKind.EQUIVALENCE, 0.25, 0.5, 0.125)
REGRESSION = comparison(ComparisonKind.REGRESSION, 0.75)


def test_the_largest_margin_counts() -> None:
    assert EQUIVALENCE.margin == 0.5
    assert Verdict(test="a", status=Status.WITHIN, comparisons=(EQUIVALENCE, REGRESSION)).margin == 0.75
    assert comparison(ComparisonKind.ANCHOR).margin == Verdict(test="a", status=Status.CRASHED).margin == 0.0


def test_the_worst_group_is_the_gravest_and_then_the_fullest() -> None:
    assert EQUIVALENCE.worst_group is EQUIVALENCE.groups[1]
    assert comparison(ComparisonKind.ANCHOR).worst_group is None
    mixed = comparison(ComparisonKind.ANCHOR, 0.5, 2.0, 0.9)
    assert mixed.worst_group is mixed.groups[1]


def test_the_change_is_that_of_equivalence() -> None:
    verdict = Verdict(test="a", status=Status.WITHIN, comparisons=(REGRESSION, EQUIVALENCE), accepted_margin=0.375)
    assert verdict.equivalence is EQUIVALENCE
    assert verdict.margin_change == 0.125


def test_without_both_margins_there_is_no_change() -> None:
    assert math.isnan(Verdict(test="a", status=Status.WITHIN, comparisons=(EQUIVALENCE,)).margin_change)
    alone = Verdict(test="a", status=Status.WITHIN, comparisons=(REGRESSION,), accepted_margin=0.5)
    assert alone.equivalence is None
    assert math.isnan(alone.margin_change)
