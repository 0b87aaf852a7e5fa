"""NaN and inf never pass, unless it is said that equal ones do."""

import math

import ml_dtypes
import numpy as np
import pytest
from made_traces import tolerance

from xla_equiv.measure.metrics import measure
from xla_equiv.values.verdict import Measurement, Status

VALUES = [math.nan, math.inf, -math.inf]
WIDE = 1e6


def measured(reference: float, candidate: float, *, equal_nonfinite: bool = False, dtype: type = np.float32) -> Measurement:
    one, other = np.array([1.0, reference], dtype), np.array([1.0, candidate], dtype)
    return measure(one, other, tolerance(WIDE, WIDE, equal_nonfinite=equal_nonfinite))


@pytest.mark.parametrize("is_accepting", [False, True])
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_on_one_side_it_never_passes(dtype: type, value: float, is_accepting: bool) -> None:
    for pair in ((value, 2.0), (2.0, value)):
        found = measured(*pair, equal_nonfinite=is_accepting, dtype=dtype)
        assert (found.status, found.nonfinite, found.outside, found.index) == (Status.NONFINITE, 1, 1, (1,))
        assert found.margin == found.min_rtol == found.min_atol == math.inf


@pytest.mark.parametrize("value", VALUES)
def test_the_same_on_both_sides_passes_only_when_that_is_said(value: float) -> None:
    refused = measured(value, value)
    assert (refused.status, refused.nonfinite, refused.outside, refused.margin) == (Status.NONFINITE, 1, 1, math.inf)
    accepted = measured(value, value, equal_nonfinite=True)
    assert (accepted.status, accepted.nonfinite, accepted.outside, accepted.margin) == (Status.EXACT, 1, 0, 0.0)


@pytest.mark.parametrize("pair", [(math.nan, math.inf), (math.inf, math.nan), (math.inf, -math.inf), (-math.inf, math.nan)])
def test_two_that_are_not_the_same_never_pass(pair: tuple[float, float]) -> None:
    assert measured(*pair, equal_nonfinite=True).status is Status.NONFINITE


def test_equal_ones_elsewhere_do_not_excuse_an_element_that_is_outside() -> None:
    reference, candidate = np.array([math.nan, 1.0, math.inf]), np.array([math.nan, 2.0, math.inf])
    found = measure(reference, candidate, tolerance(0.5, equal_nonfinite=True))
    assert (found.status, found.index, found.outside, found.nonfinite) == (Status.OUTSIDE, (1,), 1, 2)
    assert (found.margin, found.max_abs) == (2.0, 1.0)


def test_equal_ones_elsewhere_leave_the_rest_within() -> None:
    reference, candidate = np.array([math.nan, 1.0]), np.array([math.nan, 1.25])
    found = measure(reference, candidate, tolerance(0.5, equal_nonfinite=True))
    assert (found.status, found.margin, found.min_rtol) == (Status.WITHIN, 0.5, 0.25)


def test_the_first_bad_element_is_shown_and_not_the_one_farthest_outside() -> None:
    reference = np.array([1.0, math.nan, 1.0, math.inf])
    candidate = np.array([9.0, math.nan, 99.0, 1.0])
    found = measure(reference, candidate, tolerance(0.5))
    assert (found.status, found.index, found.outside, found.nonfinite) == (Status.NONFINITE, (1,), 4, 2)
    assert math.isnan(found.reference_value)
    accepting = measure(reference, candidate, tolerance(0.5, equal_nonfinite=True))
    assert (accepting.index, accepting.outside) == ((3,), 3)
    assert (accepting.reference_value, accepting.candidate_value) == (math.inf, 1.0)


def test_the_finite_elements_are_measured_all_the_same() -> None:
    found = measure(np.array([math.nan, 4.0]), np.array([0.0, 5.0]), tolerance(0.5))
    assert (found.max_abs, found.max_rel) == (1.0, 0.25)


def test_unlike_bits_of_nan_are_equal_but_not_exact() -> None:
    one, other = np.array([0x7FC00000], np.uint32).view(np.float32), np.array([0x7FC00001], np.uint32).view(np.float32)
    assert measure(one, other, tolerance(equal_nonfinite=True)).status is Status.WITHIN
    assert measure(one, other, tolerance()).status is Status.NONFINITE
