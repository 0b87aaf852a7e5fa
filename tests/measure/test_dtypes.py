"""The rule on every dtype that a trace can hold, and on shapes without or with few elements."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import tolerance

from xla_equiv.measure.metrics import measure
from xla_equiv.values.trace import Array
from xla_equiv.values.verdict import Status

FLOATS = [ml_dtypes.bfloat16, np.float16, np.float32, np.float64]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
EVERY = [*FLOATS, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, *INTEGERS, np.bool_, np.complex64, np.complex128]


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_limit_is_inside_and_the_next_number_outside(dtype: type) -> None:
    reference = np.array([0, 2, 4], dtype)
    at = np.array([0, 2, 5], dtype)
    above = at.copy()
    above.view(f"u{above.itemsize}")[2] += 1
    found = measure(reference, at, tolerance(rtol=0.25))
    assert (found.status, found.margin, found.max_abs, found.max_rel) == (Status.WITHIN, 1.0, 1.0, 0.25)
    found = measure(reference, above, tolerance(rtol=0.25))
    assert (found.status, found.outside, found.index) == (Status.OUTSIDE, 1, (2,))
    assert (found.reference_value, found.candidate_value) == (4.0, float(above[2]))


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_small_difference_is_measured_as_it_is(dtype: type) -> None:
    reference = np.array([1.0], dtype)
    candidate = (reference.view(f"u{reference.itemsize}") + 1).view(dtype)
    step = float(candidate[0]) - 1.0
    found = measure(reference, candidate, tolerance(rtol=2 * step))
    assert (found.status, found.margin, found.max_abs, found.min_rtol) == (Status.WITHIN, 0.5, step, step)


@pytest.mark.parametrize("dtype", EVERY)
def test_equal_bits_are_exact_in_every_dtype(dtype: type) -> None:
    values = np.array([0, 1, 1, 0, 1, 1], dtype).reshape(2, 3)
    found = measure(values, values.copy(), tolerance())
    assert (found.status, found.dtype) == (Status.EXACT, np.dtype(dtype).name)


@pytest.mark.parametrize("dtype", EVERY)
def test_one_element_is_enough_to_be_outside_in_every_dtype(dtype: type) -> None:
    reference, candidate = np.array([1, 0, 1], dtype), np.array([1, 1, 1], dtype)
    found = measure(reference, candidate, tolerance(rtol=0.5, atol=0.5))
    assert (found.status, found.outside, found.index, found.max_abs) == (Status.OUTSIDE, 1, (1,), 1.0)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_that_float64_cannot_tell_apart_differ(dtype: type) -> None:
    reference, candidate = np.array([2**53, 7], dtype), np.array([2**53 + 1, 7], dtype)
    found = measure(reference, candidate, tolerance())
    assert (found.status, found.outside, found.max_abs, found.min_atol) == (Status.OUTSIDE, 1, 1.0, 1.0)
    assert measure(reference, candidate, tolerance(atol=1.0)).status is Status.WITHIN


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1), st.booleans())
@settings(deadline=None)
def test_unequal_integers_are_never_equal(one: int, other: int, is_near: bool) -> None:
    other = min(one + 1, 2**63 - 1) if is_near else other
    found = measure(np.array([one]), np.array([other]), tolerance())
    assert (found.status is Status.EXACT) == (one == other)
    assert (found.status is Status.OUTSIDE) == (one != other)


def test_unsigned_integers_do_not_wrap_around() -> None:
    found = measure(np.array([0], np.uint8), np.array([255], np.uint8), tolerance(atol=254.0))
    assert (found.status, found.max_abs) == (Status.OUTSIDE, 255.0)
    low, high = np.array([-128], np.int8), np.array([127], np.int8)
    assert measure(low, high, tolerance(atol=255.0)).margin == 1.0


def test_complex_numbers_are_measured_by_absolute_value() -> None:
    found = measure(np.array([3 + 4j]), np.array([3 + 3j]), tolerance(rtol=0.2))
    assert (found.status, found.margin) == (Status.WITHIN, 1.0)


@pytest.mark.parametrize("dtype", EVERY)
def test_a_single_value_without_dimensions(dtype: type) -> None:
    found = measure(np.array(0, dtype), np.array(1, dtype), tolerance())
    assert (found.status, found.shape, found.index, found.size) == (Status.OUTSIDE, (), (), 1)
    assert (found.reference_value, found.candidate_value) == (0.0, 1.0)


@pytest.mark.parametrize("dtype", EVERY)
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2, 2)])
def test_arrays_without_elements_are_exact(dtype: type, shape: tuple[int, ...]) -> None:
    found = measure(np.zeros(shape, dtype), np.zeros(shape, dtype), tolerance())
    assert (found.status, found.size, found.margin, found.index) == (Status.EXACT, 0, 0.0, ())


def test_arrays_without_elements_of_other_shapes_are_missing() -> None:
    empty: Array = np.zeros((0, 2))
    assert measure(empty, np.zeros((0, 3)), tolerance()).status is Status.MISSING


@pytest.mark.parametrize(
    ("dtype", "one", "other", "distance"),
    [
        (np.int64, 2**62, 2**62 + 200, 200),
        (np.int64, -(2**62), -(2**62) - 200, 200),
        (np.uint64, 2**63, 2**63 + 11, 11),
        (np.uint64, 2**64 - 12, 2**64 - 1, 11),
        (np.int64, -(2**63), 2**63 - 1, 2**64 - 1),
        (np.uint64, 0, 2**64 - 1, 2**64 - 1),
        (np.int32, -(2**31), 2**31 - 1, 2**32 - 1),
        (np.int8, -128, 127, 255),
        (np.uint8, 0, 255, 255),
    ],
)
def test_integers_are_subtracted_before_they_are_rounded(dtype: type, one: int, other: int, distance: int) -> None:
    pair = np.array([one], dtype), np.array([other], dtype)
    for reference, candidate in (pair, pair[::-1]):
        found = measure(reference, candidate, tolerance(atol=10.0))
        assert (found.status, found.outside, found.max_abs) == (Status.OUTSIDE, 1, float(distance))
        assert measure(reference, candidate, tolerance(atol=float(distance))).status is Status.WITHIN


def test_booleans_differ_by_one() -> None:
    reference, candidate = np.array([True, False]), np.array([True, True])
    for one, other in ((reference, candidate), (candidate, reference)):
        found = measure(one, other, tolerance(atol=0.5))
        assert (found.status, found.outside, found.max_abs) == (Status.OUTSIDE, 1, 1.0)
        assert measure(one, other, tolerance(atol=1.0)).status is Status.WITHIN


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
@settings(deadline=None)
def test_the_distance_of_integers_is_the_exact_one_rounded_once(one: int, other: int) -> None:
    assert measure(np.array([one]), np.array([other]), tolerance()).max_abs == float(abs(one - other))
