"""`min_rtol` and `min_atol` are the least values that would have passed."""

import math

from hypothesis import assume, given, settings
from made_traces import PARTS, pairs, tolerance

from xla_equiv.measure.metrics import measure
from xla_equiv.values.trace import Array

ROUNDING = 1e-9
"""Relative room for the rounding of the sum and of the difference; the elements span 12 digits."""


@given(pairs(), PARTS, PARTS)
@settings(deadline=None)
def test_with_the_least_rtol_it_passes(pair: tuple[Array, Array], rtol: float, atol: float) -> None:
    least = measure(*pair, tolerance(rtol, atol)).min_rtol
    assume(least < 1e12)
    assert measure(*pair, tolerance(least * (1 + ROUNDING) + 1e-15, atol)).status.is_green


@given(pairs(), PARTS, PARTS)
@settings(deadline=None)
def test_with_less_than_the_least_rtol_it_fails(pair: tuple[Array, Array], rtol: float, atol: float) -> None:
    least = measure(*pair, tolerance(rtol, atol)).min_rtol
    assume(1e-3 < least < math.inf)
    assert not measure(*pair, tolerance(least * (1 - 1e-3), atol)).status.is_green


@given(pairs(), PARTS, PARTS)
@settings(deadline=None)
def test_where_no_rtol_helps_the_least_is_infinite(pair: tuple[Array, Array], rtol: float, atol: float) -> None:
    if measure(*pair, tolerance(rtol, atol)).min_rtol == math.inf:
        assert not measure(*pair, tolerance(1e250, atol)).status.is_green


@given(pairs(), PARTS, PARTS)
@settings(deadline=None)
def test_with_the_least_atol_it_passes(pair: tuple[Array, Array], rtol: float, atol: float) -> None:
    least = measure(*pair, tolerance(rtol, atol)).min_atol
    room = least * ROUNDING + 1e-9  # |candidate - reference| is up to 2e6 and may lose its last digits
    assert measure(*pair, tolerance(rtol, least + room)).status.is_green


@given(pairs(), PARTS, PARTS)
@settings(deadline=None)
def test_with_less_than_the_least_atol_it_fails(pair: tuple[Array, Array], rtol: float, atol: float) -> None:
    least = measure(*pair, tolerance(rtol, atol)).min_atol
    assume(least > 1e-6)
    assert not measure(*pair, tolerance(rtol, least * (1 - 1e-3))).status.is_green


@given(pairs(), PARTS, PARTS)
@settings(deadline=None)
def test_what_passes_already_needs_no_more_than_it_has(pair: tuple[Array, Array], rtol: float, atol: float) -> None:
    found = measure(*pair, tolerance(rtol, atol))
    if found.status.is_green:
        assert found.min_rtol <= rtol * (1 + ROUNDING) + 1e-15
        assert found.min_atol <= atol * (1 + ROUNDING) + 1e-15
    else:
        assert found.min_rtol > rtol * (1 - ROUNDING) - 1e-15
        assert found.min_atol > atol * (1 - ROUNDING) - 1e-15
