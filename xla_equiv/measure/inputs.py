"""Whether two runs started from the same parameters and trained on the same batches."""

import hashlib
import math
import re
from collections.abc import Mapping

import numpy as np

from xla_equiv.values.trace import Array, InputDigest, RunFacts
from xla_equiv.values.verdict import Finding, Status

SAME_INPUT_RTOL = 1e-6
"""Generators of two processors differ in the last bits (2^-23) of a draw; another seed differs in the first."""


def sha256(values: Array) -> str:
    """Return the SHA-256 of the bytes of `values`."""
    return hashlib.sha256(
        np.ascontiguousarray(values).reshape(-1).view(np.uint8).data if values.size else b""
    ).hexdigest()


def moments(values: Array) -> tuple[float, float, float]:
    """Return (sum x, sum |x|, sum w x), float64, with w the fractional parts of i * golden ratio.

    The weights make a permutation of the elements visible.
    """
    flat = np.ravel(values).astype(np.float64)
    weights = np.modf(np.arange(1, flat.size + 1) * ((5**0.5 - 1) / 2))[0]
    with np.errstate(over="ignore", invalid="ignore"):
        return float(flat.sum()), float(np.abs(flat).sum()), float(flat @ weights)


def digest(values: Array) -> InputDigest:
    """Return what identifies `values` as an input of a run."""
    return InputDigest(values.dtype.name, tuple(values.shape), sha256(values), moments(values))


def is_same_input(one: InputDigest, other: InputDigest) -> bool:
    """Return whether two digests are of the same input, as far as two processors can draw the same."""
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    if one.sha256 == other.sha256:
        return True
    room = SAME_INPUT_RTOL * max(one.moments[1], other.moments[1], 1e-30)
    return math.isfinite(room) and all(abs(a - b) <= room for a, b in zip(one.moments, other.moments, strict=True))


def input_findings(reference: RunFacts, candidate: RunFacts) -> list[Finding]:
    """Return what proves that two arms of one run did not have bit-identical inputs; empty when they had."""
    findings = [
        Finding(status=Status.OUTSIDE, key=f"input/{name}", step=_step(name), what=f"{_kind(name)} {what}")
        for name, what in _differences(reference.inputs, candidate.inputs)
    ]
    return sorted(findings, key=lambda finding: finding.step)


def _differences(reference: Mapping[str, InputDigest], candidate: Mapping[str, InputDigest]) -> list[tuple[str, str]]:
    found = []
    for name in dict.fromkeys([*reference, *candidate]):
        if name not in candidate or name not in reference:
            found.append((name, f"exists in the {'reference' if name in reference else 'candidate'} only"))
        elif _bits(reference[name]) != _bits(candidate[name]):
            found.append((name, "differs between the arms: they did not train on the same inputs"))
    return found


def _bits(digest: InputDigest) -> tuple[str, str, tuple[int, ...]]:
    return digest.sha256, digest.dtype, digest.shape


def _kind(name: str) -> str:
    return "batch" if name.startswith("batch/") else "initial value"


def _step(name: str) -> int:
    """Return the step of an input name such as `batch/3/0/1`; 0 for what exists before the first step."""
    found = re.match(r"batch/(\d+)/", name)
    return int(found.group(1)) if found else 0


def golden_inputs(facts: RunFacts) -> dict[str, InputDigest]:
    """Return the inputs worth keeping in a golden: of the batches only those of the first and the last step."""
    edges = (0, 1, facts.steps)
    return {name: digest for name, digest in facts.inputs.items() if _step(name) in edges}


def stale_findings(golden: RunFacts, candidate: RunFacts) -> list[Finding]:
    """Return how the case that a golden was recorded from differs from today's; empty when it is the same.

    Inputs are compared as far as a golden keeps them; one that another tool has rewritten keeps none.
    """
    found = [
        Finding(status=Status.STALE, what=f"the case has changed: {name} is {new!r}, the golden has {old!r}")
        for name, old, new in _changed_settings(golden.settings, candidate.settings)
    ]
    kept, today = golden_inputs(golden), golden_inputs(candidate)
    changed = [
        name
        for name in dict.fromkeys([*kept, *today])
        if name not in kept or name not in today or not is_same_input(kept[name], today[name])
    ]
    if kept and changed:
        name = changed[0]
        found.append(
            Finding(
                status=Status.STALE,
                key=f"input/{name}",
                step=_step(name),
                what=f"the case has changed: {len(changed)} of {len(today)} inputs differ, first {name}: "
                f"{_describe(today.get(name))}, the golden has {_describe(kept.get(name))}",
            )
        )
    return found


def _changed_settings(old: Mapping[str, str], new: Mapping[str, str]) -> list[tuple[str, str, str]]:
    names = dict.fromkeys([*old, *new])
    return [(name, old.get(name, ""), new.get(name, "")) for name in names if old.get(name) != new.get(name)]


def _describe(digest: InputDigest | None) -> str:
    if digest is None:
        return "nothing"
    return f"{digest.dtype}{list(digest.shape)} with sum {digest.moments[0]:.6g}, sum of |x| {digest.moments[1]:.6g}"
