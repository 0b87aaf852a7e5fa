"""Which tolerances exist at all."""

import math

import pytest

from xla_equiv import ComparisonKind, Tolerance
from xla_equiv.values.errors import ToleranceError

IMPOSSIBLE = [-1.0, -1e-300, math.nan, math.inf, -math.inf, -1, 10**400, "1e-3"]


@pytest.mark.parametrize("value", IMPOSSIBLE)
@pytest.mark.parametrize("part", ["rtol", "atol"])
def test_a_part_that_is_no_finite_number_of_at_least_zero_is_refused(part: str, value: float) -> None:
    with pytest.raises(ToleranceError) as caught:
        Tolerance(**{part: value}, why="a reason")
    assert caught.value.problems == (f"{part}: {value!r} is not a finite number of at least 0",)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("value", [0.0, -0.0, 0, 1, 1e-300, 5e-324, 1e300])
def test_every_finite_number_of_at_least_zero_is_taken(value: float) -> None:
    assert Tolerance(rtol=value, atol=value, why="a reason").rtol == value


@pytest.mark.parametrize("why", ["", " ", "\n\t"])
def test_a_tolerance_without_a_reason_is_refused(why: str) -> None:
    with pytest.raises(ToleranceError, match="every tolerance has a reason"):
        Tolerance(rtol=1e-3, why=why)


def test_a_tolerance_without_a_number_is_refused() -> None:
    with pytest.raises(ToleranceError, match="neither rtol nor atol"):
        Tolerance(why="a reason")


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(ToleranceError) as caught:
        Tolerance(rtol=-1.0, atol=math.nan, why="", only=("equivalance",))
    assert [problem.partition(":")[0] for problem in caught.value.problems] == ["rtol", "atol", "why", "only"]


def test_a_comparison_that_does_not_exist_is_refused_with_the_closest() -> None:
    with pytest.raises(ToleranceError, match="did you mean 'regression'"):
        Tolerance(rtol=1e-3, why="a reason", only=("regresion",))


@pytest.mark.parametrize("kind", [*ComparisonKind, *(kind.value for kind in ComparisonKind)])
def test_every_comparison_can_be_named(kind: str) -> None:
    assert Tolerance(rtol=1e-3, why="a reason", only=(kind,)).only == (kind,)
