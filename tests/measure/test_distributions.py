"""Comparing what many draws have in common: means and spreads, not values."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from xla_equiv.measure.compare import compare_traces
from xla_equiv.measure.distributions import FAMILY_ALPHA, measure_distribution
from xla_equiv.values.tolerance import ResolvedTolerance, ToleranceTable
from xla_equiv.values.trace import RunFacts, memory_trace
from xla_equiv.values.verdict import ComparisonKind, Measurement, Status

DRAWS, SHAPE = 48, (3, 5)
NONE = ResolvedTolerance(0.0, 0.0, "a test", "a test", "only the draws decide")


def draws(seed: int, *, mean: float = 0.0, spread: float = 1.0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(mean, spread, (DRAWS, *SHAPE)).astype(np.float32)


def measured(reference: NDArray[np.float32], candidate: NDArray[np.float32], values: int = 15) -> Measurement:
    return measure_distribution(reference, candidate, NONE, key="grad/a", step=2, values=values)


def test_other_draws_of_one_distribution_agree() -> None:
    found = measured(draws(0), draws(1))
    assert found.status is Status.WITHIN
    assert 0 < found.margin < 1
    assert (found.key, found.step, found.shape, found.size) == ("grad/a", 2, SHAPE, 15)


def test_the_same_draws_are_exact() -> None:
    assert measured(draws(0), draws(0)).status is Status.EXACT


def test_another_mean_of_one_element_is_found_there() -> None:
    candidate = draws(1)
    candidate[:, 1, 4] += 3.0
    found = measured(draws(0), candidate)
    assert (found.status, found.index, found.outside) == (Status.OUTSIDE, (1, 4), 1)
    assert found.candidate_value == pytest.approx(candidate[:, 1, 4].mean(), rel=1e-6)
    assert abs(found.candidate_value - found.reference_value) / found.atol == pytest.approx(found.margin)


def test_the_tolerance_that_would_pass_is_said() -> None:
    candidate = draws(1, mean=5.0)
    candidate[:, 1, 4] += 3.0
    reference = draws(0, mean=5.0)
    found = measured(reference, candidate)
    assert (found.status, found.statistic) == (Status.OUTSIDE, "mean")
    for rtol, atol in ((found.min_rtol, 0.0), (0.0, found.min_atol)):
        for share, status in ((1.001, Status.WITHIN), (0.999, Status.OUTSIDE)):
            tolerance = ResolvedTolerance(share * rtol, share * atol, "command line", "a test", "why")
            again = measure_distribution(reference, candidate, tolerance, key="grad/a", step=2, values=15)
            assert again.status is status
            assert again.decided_by.endswith(f"draws, and {tolerance.decided_by}")


def test_another_spread_with_the_same_mean_is_found() -> None:
    candidate = draws(1)
    candidate[:, 0, 2] = candidate[:, 0, 2].mean() + 6.0 * (candidate[:, 0, 2] - candidate[:, 0, 2].mean())
    found = measured(draws(0), candidate)
    assert (found.status, found.index) == (Status.OUTSIDE, (0, 2))
    assert found.statistic == "mean deviation from the median"


def test_draws_that_are_all_alike_are_found() -> None:
    reference = draws(0)
    found = measured(reference, np.broadcast_to(reference.mean(0), reference.shape).copy())
    assert found.status is Status.OUTSIDE


def test_values_without_any_spread_must_be_equal() -> None:
    constant = np.full((DRAWS, *SHAPE), 0.5, np.float32)
    assert measured(constant, constant).status is Status.EXACT
    found = measured(constant, constant + np.float32(1e-6))
    assert (found.status, found.margin) == (Status.OUTSIDE, math.inf)


def test_nan_never_agrees() -> None:
    broken = draws(0)
    broken[7, 0, 0] = np.nan
    found = measured(broken, broken)
    assert (found.status, found.nonfinite) == (Status.NONFINITE, 1)


def test_more_values_that_could_differ_by_chance_widen_the_limit() -> None:
    few, many = (measured(draws(0), draws(1), values=values) for values in (15, 15000))
    assert many.margin < few.margin


def test_equal_distributions_come_near_the_limit_as_rarely_as_they_should() -> None:
    """Of 400 comparisons at a family-wise error of 1e-6 none may fail; at a tenth of the tests' limit many would."""
    margins = [measured(draws(2 * n), draws(2 * n + 1)).margin for n in range(400)]
    assert FAMILY_ALPHA == 1e-6
    assert max(margins) < 1
    assert max(margins) > 0.6


def test_a_trace_of_draws_is_compared_key_by_key() -> None:
    arrays = {(1, "loss"): draws(0)[:, 0, 0], (1, "grad/a"): draws(1)}
    others = {(1, "loss"): draws(2)[:, 0, 0], (1, "grad/a"): draws(3, mean=4.0)}
    one, two = (memory_trace(RunFacts(test="a::b[cpu]", steps=1), recorded) for recorded in (arrays, others))
    kind = ComparisonKind.EQUIVALENCE
    found = compare_traces(one, two, ToleranceTable(()), kind=kind, against="b[cpu]", in_distribution=True)
    assert [finding.key for finding in found.findings] == ["grad/a"]
    assert {group.group: group.status for group in found.groups} == {"loss": Status.WITHIN, "grad/*": Status.OUTSIDE}
    assert found.groups[0].measurement.why.endswith("over 2 tests of 16 values")


def test_what_does_not_depend_on_random_numbers_may_be_rounded_otherwise() -> None:
    constant = np.full((DRAWS, *SHAPE), 0.5, np.float32)
    rounding = ResolvedTolerance(1e-5, 0.0, "a test", "a test", "rounding")
    found = measure_distribution(constant, constant * np.float32(1 + 2e-6), rounding, key="a", step=1, values=15)
    assert found.status is Status.WITHIN
    assert 0.1 < found.margin < 0.3


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_values_of_any_size_are_compared(scale: float) -> None:
    reference = np.random.default_rng(0).normal(0.0, scale, (DRAWS, 3))
    assert measured(reference, reference + 100.0 * scale).status is Status.OUTSIDE  # type: ignore[arg-type]


def test_imaginary_parts_are_compared() -> None:
    reference = draws(0).astype(np.complex64)
    found = measured(reference, reference + 1j * (10.0 + draws(1)))  # type: ignore[arg-type]
    assert found.status is Status.OUTSIDE
    assert len(found.index) == 2


def test_an_array_without_elements_is_exact() -> None:
    assert measured(np.ones((DRAWS, 0), np.float32), np.ones((DRAWS, 0), np.float32)).status is Status.EXACT
