"""Probable causes of a difference, from facts of the two runs only."""

from collections.abc import Mapping, Sequence

import numpy as np

from xla_equiv.measure.rank_attribution import rank_causes
from xla_equiv.values.ranks import split_rank
from xla_equiv.values.trace import Array, Trace
from xla_equiv.values.verdict import Comparison, ComparisonKind, Finding, Status

UNEXPLAINED = 1e-2
"""Share of a difference that may stay unexplained for "the candidate is a multiple of the reference" to be said."""

NEAR_RATIO = 1e-3
"""How near a multiple must be to a telling one, such as the number of micro-batches, for its meaning to be said."""

ROUNDING_RATIO = 1e-5
"""A multiple this close to 1 is rounding, not a cause: 84 units in the last place of float32."""

EXPLAINING_PROVENANCE = ("torch", "torch_xla", "libtpu", "device", "matmul_precision", "cpu_capability", "XLA_FLAGS")


def likely_causes(reference: Trace, candidate: Trace, comparison: Comparison, *, micro_batches: int) -> tuple[str, ...]:
    """Return what probably caused the findings of `comparison`, most telling first."""
    bad = [finding for finding in comparison.findings if finding.measurement is not None]
    if not bad:
        return ()
    causes = rank_causes(reference, candidate, bad)
    ratio = "" if causes else _ratio_cause(reference, candidate, bad, micro_batches)
    if ratio:
        causes.append(ratio)
    causes += provenance_differences(reference.facts.provenance, candidate.facts.provenance)
    if comparison.graph:
        is_live = comparison.kind is ComparisonKind.EQUIVALENCE
        what = "graphs differ" if is_live else "the compiled graph changed since the golden was recorded"
        causes.append(f"{what}: {comparison.graph}")
    return tuple(causes)


def provenance_differences(reference: Mapping[str, str], candidate: Mapping[str, str]) -> list[str]:
    """Return the named values that explain numbers and differ between two runs on one kind of backend."""
    if reference.get("backend") != candidate.get("backend"):
        return []
    return [
        f"{name}: candidate ran {candidate[name]!r}, reference {reference[name]!r}"
        for name in EXPLAINING_PROVENANCE
        if name in reference and name in candidate and reference[name] != candidate[name]
    ]


def _ratio_cause(reference: Trace, candidate: Trace, bad: Sequence[Finding], micro_batches: int) -> str:
    first = next((finding for finding in bad if finding.key.startswith("grad/")), None)
    if first is None or first.status is not Status.OUTSIDE or first.step != bad[0].step:
        return ""
    place = (first.step, first.key)
    one, two = _own_or_shared(reference, *place), _own_or_shared(candidate, *place)
    ratio = multiple_of(one, two)
    if ratio is None or abs(ratio - 1.0) <= ROUNDING_RATIO:
        return ""
    text = f"{first.key} of the candidate is {ratio:.7g} times the reference at step {first.step}"
    return text + _ratio_meaning(ratio, micro_batches)


def _own_or_shared(trace: Trace, step: int, key: str) -> Array:
    """Return what stands under `key`, or under the key of all ranks where the rank has nothing of its own."""
    arrays = {entry.key: entry for entry in trace.entries if entry.step == step}
    return trace.read(arrays.get(key) or arrays[split_rank(key)[0]])


def _ratio_meaning(ratio: float, micro_batches: int) -> str:
    meanings = (
        (0.0, "it was not accumulated, or cleared"),
        (-1.0, "its sign is flipped"),
        (float(micro_batches), "the accumulated loss was not divided by the number of micro-batches"),
        (1.0 / micro_batches, "the accumulated loss was divided twice by the number of micro-batches"),
    )
    for value, meaning in meanings:
        is_near = abs(ratio - value) <= NEAR_RATIO * max(abs(value), NEAR_RATIO)
        if is_near and (micro_batches > 1 or value <= 0):
            return f": {meaning}"
    return ""


def multiple_of(reference: Array, candidate: Array) -> float | None:
    """Return a when candidate = a * reference explains their difference, else None. Least squares in float64."""
    r, c = np.ravel(reference).astype(np.float64), np.ravel(candidate).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        squared = float(r @ r)
    if not np.isfinite(squared) or squared == 0.0 or not np.isfinite(c).all():
        return None
    ratio = float(c @ r) / squared
    residual, difference = float(np.linalg.norm(c - ratio * r)), float(np.linalg.norm(c - r))
    return ratio if residual <= UNEXPLAINED * difference else None


def attribute(equivalence: Comparison | None, own_golden: Comparison | None, anchor: Comparison | None) -> str:
    """Return what the three comparisons say together; '' when they agree or one is missing.

    Args:
        equivalence: candidate against the live reference.
        own_golden: candidate against its own golden.
        anchor: reference against its golden.
    """
    if equivalence is None or own_golden is None or anchor is None:
        return ""
    arms, own, trusted = equivalence.status.is_green, own_golden.status.is_green, anchor.status.is_green
    if any(c.status in (Status.NOGOLDEN, Status.STALE) for c in (own_golden, anchor)):
        return ""
    readings = {
        (False, False, True): "treatment regression: the candidate moved, the reference did not",
        (False, True, False): "the reference regressed: it moved off its golden, the candidate did not",
        (True, False, False): "environment drift: both arms moved together off their goldens",
        (True, False, True): "the candidate's golden is stale or wrong: the arms agree and the reference meets its own",
        (True, True, False): "the reference's golden is stale or wrong: the arms agree and the candidate meets its own",
        (False, False, False): "both arms moved off their goldens, and apart",
        (False, True, True): "the arms have always been apart: each still meets its own golden",
    }
    return readings.get((arms, own, trusted), "")
