"""How far two arrays of one key and step are apart."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xla_equiv.values.tolerance import ResolvedTolerance
from xla_equiv.values.trace import Array
from xla_equiv.values.verdict import Measurement, Status

BLOCK_ELEMENTS = 1 << 18
"""Elements measured at a time: keeps memory flat whatever the size of a tensor."""

ABOVE_LIMIT = math.nextafter(1.0, 2.0)
"""The least margin of an element outside: the quotient of neighbouring numbers may round to 1."""


def measure(
    reference: Array, candidate: Array, tolerance: ResolvedTolerance, *, key: str = "", step: int = 0
) -> Measurement:
    """Return how far `candidate` is from `reference`, element by element in float64.

    An element passes when |candidate - reference| <= atol + rtol * |reference|. NaN and inf never pass,
    unless the tolerance accepts equal ones and both sides hold the same.

    Args:
        reference: array of the trusted side.
        candidate: array of the same dtype and shape; anything else is MISSING, not measured.
        tolerance: the numbers in force for this key.
        key: copied into the result.
        step: copied into the result.

    Returns:
        A Measurement whose status is EXACT (equal bit patterns), WITHIN, OUTSIDE, NONFINITE or MISSING.
    """
    common: dict[str, Any] = {
        "key": key,
        "step": step,
        "dtype": reference.dtype.name,
        "shape": tuple(reference.shape),
        "size": int(reference.size),
        "rtol": tolerance.rtol,
        "atol": tolerance.atol,
        "decided_by": tolerance.decided_by,
        "why": tolerance.why,
    }
    if reference.dtype != candidate.dtype or reference.shape != candidate.shape:
        return Measurement(status=Status.MISSING, **common)
    flat_reference, flat_candidate = np.ravel(reference), np.ravel(candidate)
    worst = _Worst()
    for start in range(0, flat_reference.size, BLOCK_ELEMENTS):
        block = slice(start, start + BLOCK_ELEMENTS)
        worst.add(flat_reference[block], flat_candidate[block], tolerance, start)
    if worst.bad_nonfinite:
        status = Status.NONFINITE
    elif worst.outside:
        status = Status.OUTSIDE
    else:
        status = Status.EXACT if same_bits(flat_reference, flat_candidate) else Status.WITHIN
    has_worst = status is not Status.EXACT and reference.size > 0
    position = worst.position if has_worst else 0
    return Measurement(
        status=status,
        max_abs=worst.max_abs,
        max_rel=worst.max_rel,
        margin=math.inf if worst.bad_nonfinite else worst.margin,
        min_rtol=math.inf if worst.bad_nonfinite else worst.min_rtol,
        min_atol=math.inf if worst.bad_nonfinite else worst.min_atol,
        outside=worst.outside,
        nonfinite=worst.nonfinite,
        index=tuple(int(i) for i in np.unravel_index(position, reference.shape)) if has_worst else (),
        candidate_value=_number(flat_candidate[position]) if has_worst else math.nan,
        reference_value=_number(flat_reference[position]) if has_worst else math.nan,
        **common,
    )


def _number(value: np.generic) -> float:
    return float(np.real(value))


def same_bits(one: Array, other: Array) -> bool:
    """Return whether two contiguous arrays of one dtype and shape hold the same bit patterns."""
    one, other = np.ravel(one), np.ravel(other)
    return bool(np.array_equal(one.view(np.uint8), other.view(np.uint8))) if one.size else True


def _wide(values: Array) -> NDArray[np.float64]:
    """Return `values` in float64, or complex128 where they are complex."""
    return values.astype(np.complex128 if np.iscomplexobj(values) else np.float64)


def _distance(reference: Array, candidate: Array) -> NDArray[np.float64]:
    """Return |candidate - reference| of integers, taken before float64 rounds them; modulo 2^64 it cannot overflow."""
    high, low = np.maximum(reference, candidate), np.minimum(reference, candidate)
    return (high.astype(np.uint64) - low.astype(np.uint64)).astype(np.float64)


class _Worst:
    """The running extremes over the blocks of one tensor."""

    def __init__(self) -> None:
        self.max_abs = self.max_rel = self.margin = self.min_rtol = self.min_atol = 0.0
        self.outside = self.nonfinite = self.bad_nonfinite = 0
        self.position = 0
        self.infinite_by = 0.0

    def add(self, reference: Array, candidate: Array, tolerance: ResolvedTolerance, start: int) -> None:
        """Take in one block, whose first element stands at `start`."""
        r, c = _wide(reference), _wide(candidate)
        finite = np.isfinite(r) & np.isfinite(c)
        if not finite.all():
            self._add_nonfinite(r, c, ~finite, tolerance, start)
            r, c = np.where(finite, r, 0.0), np.where(finite, c, 0.0)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            difference = _distance(reference, candidate) if reference.dtype.kind in "biu" else np.abs(c - r)
            magnitude = np.abs(r)
            limit = tolerance.atol + tolerance.rtol * magnitude
            margin = np.where(difference > 0, difference / limit, 0.0)
            margin = np.where(difference > limit, np.maximum(margin, ABOVE_LIMIT), margin)
            relative = np.where(difference > 0, difference / magnitude, 0.0)
            excess = np.maximum(difference - tolerance.atol, 0.0)
            min_rtol = np.where(excess > 0, excess / magnitude, 0.0)
            min_atol = np.maximum(difference - tolerance.rtol * magnitude, 0.0)
        self.outside += int(np.count_nonzero(difference > limit))
        self.max_abs = max(self.max_abs, float(difference.max(initial=0.0)))
        self.max_rel = max(self.max_rel, float(relative.max(initial=0.0)))
        self.min_rtol = max(self.min_rtol, float(min_rtol.max(initial=0.0)))
        self.min_atol = max(self.min_atol, float(min_atol.max(initial=0.0)))
        if margin.size:
            self._take_worst(margin, difference, start)

    def _take_worst(self, margin: NDArray[np.float64], difference: NDArray[np.float64], start: int) -> None:
        """Remember the largest margin and its place; among infinite ones (nothing is allowed), the largest difference."""
        largest = int(margin.argmax())
        if np.isinf(margin[largest]):
            largest = int(np.where(np.isinf(margin), difference, -1.0).argmax())
        found = (float(margin[largest]), float(difference[largest]) if np.isinf(margin[largest]) else 0.0)
        if found > (self.margin, self.infinite_by):
            self.margin, self.infinite_by = found
            if not self.bad_nonfinite:
                self.position = start + largest

    def _add_nonfinite(
        self,
        r: NDArray[np.float64],
        c: NDArray[np.float64],
        where: NDArray[np.bool_],
        tolerance: ResolvedTolerance,
        start: int,
    ) -> None:
        same = (r == c) | (np.isnan(r) & np.isnan(c))
        bad = where & ~same if tolerance.equal_nonfinite else where
        if bad.any() and not self.bad_nonfinite:
            self.position = start + int(bad.argmax())
        self.nonfinite += int(np.count_nonzero(where))
        self.bad_nonfinite += int(np.count_nonzero(bad))
        self.outside += int(np.count_nonzero(bad))
