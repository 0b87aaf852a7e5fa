"""Measuring in blocks gives what one block gives."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from made_traces import FINITE, PARTS, tolerance

from xla_equiv.measure import metrics
from xla_equiv.values.trace import Array
from xla_equiv.values.verdict import Measurement

SHAPES = st.shared(array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5), key="shape")
ELEMENTS = FINITE | st.sampled_from([math.nan, math.inf, -math.inf])


def in_blocks(size: int, *arguments: object) -> dict[str, object]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "BLOCK_ELEMENTS", size)
        found: Measurement = metrics.measure(*arguments)  # type: ignore[arg-type]
    return {name: repr(value) for name, value in dataclasses.asdict(found).items()}


@given(
    arrays(np.float64, SHAPES, elements=ELEMENTS),
    arrays(np.float64, SHAPES, elements=ELEMENTS),
    PARTS,
    PARTS,
    st.booleans(),
    st.integers(1, 7),
)
@settings(deadline=None)
def test_the_size_of_a_block_changes_nothing(
    reference: Array, candidate: Array, rtol: float, atol: float, is_accepting: bool, size: int
) -> None:
    arguments = (reference, candidate, tolerance(rtol, atol, equal_nonfinite=is_accepting))
    assert in_blocks(size, *arguments) == in_blocks(1000, *arguments)


@pytest.mark.parametrize("offset", [-1, 0, 1])
@pytest.mark.parametrize("place", [0, metrics.BLOCK_ELEMENTS - 1, metrics.BLOCK_ELEMENTS, -1])
def test_one_bad_element_of_a_large_tensor_is_found(place: int, offset: int) -> None:
    reference = np.ones(2 * metrics.BLOCK_ELEMENTS + offset, np.float32)
    candidate = reference.copy()
    candidate[place] = 1.5
    found = metrics.measure(reference, candidate, tolerance(0.25))
    assert (found.outside, found.margin, found.index) == (1, 2.0, (place % reference.size,))


def test_equal_values_that_are_not_finite_do_not_move_the_index_of_the_worst() -> None:
    reference, candidate = np.array([1.0, 1.0, math.nan, 1.0]), np.array([1.0, 9.0, math.nan, 1.5])
    found = in_blocks(2, reference, candidate, tolerance(1.0, equal_nonfinite=True))
    assert (found["index"], found["margin"], found["outside"]) == ("(1,)", "8.0", "1")


def test_large_integers_are_told_apart_in_every_block() -> None:
    reference = np.full(10, 2**60)
    candidate = reference.copy()
    candidate[7] += 1
    assert in_blocks(3, reference, candidate, tolerance())["index"] == "(7,)"
