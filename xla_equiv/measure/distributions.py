"""Whether the values of two runs have the same distribution over their draws."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xla_equiv.measure.metrics import same_bits
from xla_equiv.values.tolerance import ResolvedTolerance
from xla_equiv.values.trace import Array
from xla_equiv.values.verdict import Measurement, Status

FAMILY_ALPHA = 1e-6
"""Probability that a comparison of two equal distributions finds any difference, in all its values together."""

STATISTICS = ("mean", "mean deviation from the median")
"""What is tested of each value: its mean, and its spread."""

TESTS = len(STATISTICS)


def measure_distribution(
    reference: Array, candidate: Array, tolerance: ResolvedTolerance, *, key: str, step: int, values: int
) -> Measurement:
    """Return how far the distributions of one key are apart.

    For each element, Welch's t-test of the means over the draws, and of the mean absolute deviations from the
    median (Brown and Forsythe). Each is taken two-sided at FAMILY_ALPHA / (2 values). The margin is the largest
    |difference| / (critical value * standard error + atol + rtol * |mean|); 1.0 is exactly at the limit. The tolerance
    is for what does not depend on the random numbers, and is rounded otherwise.

    Args:
        reference: shape (draws, ...), of the trusted side.
        candidate: the same of the other side, of the same dtype and shape.
        tolerance: the numbers in force for this key.
        key: copied into the result.
        step: copied into the result.
        values: elements that the whole comparison looks at, each of which may be found different by chance.

    Returns:
        A Measurement of the element and the test that is nearest to its limit, which `statistic` names. Its values are
        those of the statistic, `atol` is the limit, and `min_rtol` and `min_atol` what the tolerance would have to be.

    Source:
        B. L. Welch, Biometrika 34 (1947); M. B. Brown and A. B. Forsythe, J. Am. Stat. Assoc. 69 (1974).
    """
    common: dict[str, Any] = {
        "key": key,
        "step": step,
        "dtype": reference.dtype.name,
        "shape": tuple(reference.shape[1:]),
        "size": int(reference[0].size),
        "decided_by": f"Welch's t-test, {len(reference)} draws" + (f", and {tolerance.decided_by}" if tolerance.atol or tolerance.rtol else ""),
        "why": f"family-wise error {FAMILY_ALPHA:g} over {TESTS} tests of {values} values",
    }
    if reference.size == 0:
        return Measurement(status=Status.EXACT, **common)
    r, c = (_columns(side) for side in (reference, candidate))
    finite = np.isfinite(r).all(0) & np.isfinite(c).all(0)
    if not finite.all():
        bad = int(np.count_nonzero(~finite))
        common |= {"margin": math.inf, "min_rtol": math.inf, "min_atol": math.inf}
        return Measurement(status=Status.NONFINITE, nonfinite=bad, outside=bad, **common)
    alpha = FAMILY_ALPHA / (TESTS * max(values, 1))
    found = [_welch(r, c, alpha, tolerance), _welch(_deviations(r), _deviations(c), alpha, tolerance)]
    margins = np.nan_to_num(np.stack([margin for margin, *_ in found]), nan=math.inf)
    outside = int(np.count_nonzero((margins > 1).any(0)))
    test, position = (int(i) for i in np.unravel_index(int(margins.argmax()), margins.shape))
    margin, means, others, limits = (float(part[position]) for part in found[test])
    status = Status.OUTSIDE if outside else Status.EXACT if same_bits(reference, candidate) else Status.WITHIN
    return Measurement(
        status=status,
        max_abs=float(np.abs(found[0][2] - found[0][1]).max(initial=0.0)),
        margin=margin,
        min_rtol=_least_rtol(found, tolerance),
        min_atol=max(float((np.abs(two - one) - limit).max(initial=0.0)) for _, one, two, limit in found) + tolerance.atol if outside else 0.0,
        statistic=STATISTICS[test],
        outside=outside,
        index=_index(position, reference),
        candidate_value=others,
        reference_value=means,
        atol=limits,
        **common,
    )


def _least_rtol(found: Sequence[tuple[NDArray[np.float64], ...]], tolerance: ResolvedTolerance) -> float:
    """Return the least rtol with which every mean and spread would be inside; inf where none would."""
    needed = 0.0
    for margin, one, two, limit in found:
        lacking = np.abs(two - one) - limit + tolerance.rtol * np.abs(one)
        with np.errstate(all="ignore"):
            needed = max(needed, float(np.where(margin > 1, lacking / np.abs(one), 0.0).max(initial=0.0)))
    return needed


def _deviations(draws: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.abs(draws - np.median(draws, axis=0))


def _columns(draws: Array) -> NDArray[np.float64]:
    """Return one column for each element, two where it is complex."""
    flat = np.reshape(draws, (len(draws), -1))
    return flat.astype(np.complex128).view(np.float64) if np.iscomplexobj(flat) else flat.astype(np.float64)


def _index(position: int, draws: Array) -> tuple[int, ...]:
    """Return the index of the element that column number `position` is of."""
    element = position // 2 if np.iscomplexobj(draws) else position
    return tuple(int(i) for i in np.unravel_index(element, draws.shape[1:])) if draws.ndim > 1 else ()


def _welch(
    r: NDArray[np.float64], c: NDArray[np.float64], alpha: float, tolerance: ResolvedTolerance
) -> tuple[NDArray[np.float64], ...]:
    """Return, for each element: margin, mean of `r`, mean of `c`, limit of their difference."""
    from scipy import stats  # type: ignore[import-untyped]  # here, for comparing without draws must not wait for it

    one, two = r.mean(0), c.mean(0)
    with np.errstate(all="ignore"):
        v, w = r.var(0, ddof=1) / len(r), c.var(0, ddof=1) / len(c)
        share = np.where(v + w > 0, v / (v + w), 0.5)
        freedom = 1.0 / (share**2 / (len(r) - 1) + (1.0 - share) ** 2 / (len(c) - 1))
        limit = stats.t.isf(alpha / 2, freedom) * np.sqrt(v + w) + tolerance.atol + tolerance.rtol * np.abs(one)
        margin = np.where(one != two, np.abs(two - one) / limit, 0.0)
    return margin, one, two, limit
