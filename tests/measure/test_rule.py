"""The rule |candidate - reference| <= atol + rtol * |reference|, at its limit and on random data."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import PARTS, pairs, tolerance

from xla_equiv.measure.metrics import measure
from xla_equiv.values.trace import Array
from xla_equiv.values.verdict import Status

JUST_ABOVE_ONE = math.nextafter(1.0, 2.0)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(("reference", "rtol", "atol"), [(8.0, 0.25, 0.5), (-8.0, 0.25, 0.5), (8.0, 0.25, 0.0), (0.0, 0.25, 0.5)])
def test_the_limit_itself_is_inside(reference: float, rtol: float, atol: float, sign: float) -> None:
    limit = atol + rtol * abs(reference)
    at = measure(np.array([reference]), np.array([reference + sign * limit]), tolerance(rtol, atol))
    assert (at.status, at.margin, at.outside) == (Status.WITHIN, 1.0, 0)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_one_unit_in_the_last_place_decides(sign: float) -> None:
    reference, limit = np.array([8.0]), 2.5
    end = 8.0 + sign * limit
    inside = measure(reference, np.array([math.nextafter(end, 8.0)]), tolerance(0.25, 0.5))
    assert inside.status is Status.WITHIN
    assert inside.margin < 1.0
    outside = measure(reference, np.array([math.nextafter(end, sign * math.inf)]), tolerance(0.25, 0.5))
    assert (outside.status, outside.outside) == (Status.OUTSIDE, 1)
    assert outside.margin > 1.0


def test_the_reference_scales_the_limit_and_not_the_candidate() -> None:
    assert measure(np.array([100.0]), np.array([110.5]), tolerance(0.1)).status is Status.OUTSIDE
    assert measure(np.array([110.5]), np.array([100.0]), tolerance(0.1)).status is Status.WITHIN


def test_where_the_limit_is_zero_only_equal_values_pass() -> None:
    assert measure(np.zeros(2), np.zeros(2), tolerance()).status is Status.EXACT
    found = measure(np.zeros(2), np.array([0.0, 5e-324]), tolerance(rtol=1.0))
    assert (found.status, found.margin, found.max_rel, found.min_rtol) == (Status.OUTSIDE, math.inf, math.inf, math.inf)
    assert (found.min_atol, found.index) == (5e-324, (1,))


def test_what_is_measured_at_the_worst_element() -> None:
    reference, candidate = np.array([[1.0, 2.0], [4.0, -8.0]]), np.array([[1.0, 2.5], [4.25, -8.5]])
    found = measure(reference, candidate, tolerance(0.25, 0.5), key="grad/a", step=7)
    assert (found.key, found.step, found.dtype, found.shape, found.size) == ("grad/a", 7, "float64", (2, 2), 4)
    assert (found.status, found.outside, found.nonfinite) == (Status.WITHIN, 0, 0)
    assert (found.margin, found.index) == (0.5, (0, 1))
    assert (found.reference_value, found.candidate_value) == (2.0, 2.5)
    assert (found.max_abs, found.max_rel) == (0.5, 0.25)
    assert (found.rtol, found.atol, found.decided_by, found.why) == (0.25, 0.5, "suite [*]", "a reason")


def test_a_sign_of_zero_is_within_but_not_exact() -> None:
    found = measure(np.array([1.0, 0.0]), np.array([1.0, -0.0]), tolerance())
    assert (found.status, found.margin, found.max_abs, found.outside) == (Status.WITHIN, 0.0, 0.0, 0)


@pytest.mark.parametrize(
    "candidate", [np.zeros((2, 3), np.float32), np.zeros((3, 2)), np.zeros(6), np.zeros((2, 3, 1)), np.zeros((2, 3), np.int64)]
)
def test_another_dtype_or_shape_is_missing_and_never_broadcast(candidate: Array) -> None:
    assert measure(np.zeros((2, 3)), candidate, tolerance(1.0, 1.0)).status is Status.MISSING


def test_a_difference_too_large_for_a_number_is_outside() -> None:
    found = measure(np.array([1e308]), np.array([-1e308]), tolerance(0.5))
    assert (found.status, found.max_abs) == (Status.OUTSIDE, math.inf)


@given(pairs(), PARTS, PARTS)
@settings(deadline=None)
def test_it_passes_exactly_what_numpy_calls_close(pair: tuple[Array, Array], rtol: float, atol: float) -> None:
    reference, candidate = pair
    found = measure(reference, candidate, tolerance(rtol, atol))
    close = np.isclose(candidate, reference, rtol=rtol, atol=atol)
    assert found.status.is_green == bool(close.all())
    assert found.outside == np.count_nonzero(~close)


@given(pairs(), PARTS, PARTS)
@settings(deadline=None)
def test_the_margin_is_above_one_exactly_when_something_is_outside(
    pair: tuple[Array, Array], rtol: float, atol: float
) -> None:
    found = measure(*pair, tolerance(rtol, atol))
    assert (found.margin > 1.0) == (found.status is Status.OUTSIDE) == (found.outside > 0)


@given(st.floats(1.0, 2.0), st.integers(-60, 60))
@settings(deadline=None)
def test_the_next_number_above_the_limit_has_a_margin_above_one(limit: float, exponent: int) -> None:
    limit = math.ldexp(limit, exponent)
    above = math.nextafter(limit, math.inf)
    assert measure(np.zeros(1), np.array([limit]), tolerance(atol=limit)).margin == 1.0
    assert JUST_ABOVE_ONE <= measure(np.zeros(1), np.array([above]), tolerance(atol=limit)).margin < 1 + 1e-12


@given(pairs(), PARTS, PARTS)
@settings(deadline=None)
def test_the_index_is_of_the_element_that_used_the_most(pair: tuple[Array, Array], rtol: float, atol: float) -> None:
    reference, candidate = pair
    found = measure(reference, candidate, tolerance(rtol, atol))
    if found.status is Status.EXACT:
        assert found.index == ()
        return
    assert (found.reference_value, found.candidate_value) == (reference[found.index], candidate[found.index])
    alone = measure(reference[found.index].reshape(1), candidate[found.index].reshape(1), tolerance(rtol, atol))
    assert alone.margin == found.margin


@given(pairs(), PARTS, PARTS)
@settings(deadline=None)
def test_a_copy_is_exact_whatever_the_tolerance(pair: tuple[Array, Array], rtol: float, atol: float) -> None:
    found = measure(pair[0], pair[0].copy(), tolerance(rtol, atol))
    assert (found.status, found.margin, found.max_abs, found.min_rtol, found.min_atol) == (Status.EXACT, 0, 0, 0, 0)


@given(pairs(), PARTS, PARTS)
@settings(deadline=None)
def test_only_the_bits_decide_between_exact_and_within(pair: tuple[Array, Array], rtol: float, atol: float) -> None:
    found = measure(*pair, tolerance(rtol, atol))
    assert (found.status is Status.EXACT) == (pair[0].tobytes() == pair[1].tobytes())


@given(pairs(), PARTS, PARTS)
@settings(deadline=None)
def test_memory_layout_does_not_matter(pair: tuple[Array, Array], rtol: float, atol: float) -> None:
    reference, candidate = pair
    strided = np.stack([candidate, candidate], axis=-1)[..., 0]
    found = measure(reference, candidate, tolerance(rtol, atol))
    assert measure(np.array(reference, order="F"), np.asarray(strided), tolerance(rtol, atol)) == found
