"""Verdicts and reports made by hand: one verdict for every status."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from xla_equiv.store.report import Report
from xla_equiv.values.verdict import (
    Comparison,
    ComparisonKind,
    Expectation,
    Finding,
    KeyGroup,
    Measurement,
    Status,
    Verdict,
)

MARGINS = {Status.EXACT: 0.0, Status.WITHIN: 0.12, Status.DRIFT: 0.6, Status.OUTSIDE: 21.36, Status.NONFINITE: math.inf}
WHATS = {
    Status.UNVERIFIED: "no TPU: /dev/accel* is absent",
    Status.UNPROVEN: "no while in the compiled graph",
    Status.BLIND: "every gradient of the reference is zero",
    Status.CRASHED: "the worker was killed by signal 11",
    Status.TIMEOUT: "stopped after 300 s at step 3",
    Status.STALE: "the batches are not those that it was recorded with",
    Status.NOGOLDEN: "golden/mlp/while[xla-cpu].toml does not exist",
}
KEY = "grad/blocks.3.attn.qkv.weight"


def measurement(status: Status) -> Measurement:
    """Return what was measured at the worst place of a comparison that ended with `status`."""
    return Measurement(
        key=KEY,
        step=12,
        dtype="float32",
        shape=(64, 64),
        status=status,
        size=4096,
        max_abs=4.7e-6,
        max_rel=3.9e-3,
        margin=MARGINS[status],
        min_rtol=math.inf if status is Status.NONFINITE else 0.0038201,
        min_atol=math.inf if status is Status.NONFINITE else 4.51e-6,
        outside=3,
        nonfinite=int(status is Status.NONFINITE),
        index=(5, 17),
        candidate_value=math.nan if status is Status.NONFINITE else 1.2034e-3,
        reference_value=1.1987e-3,
        rtol=1e-4,
        atol=1e-7,
        decided_by="suite [grad/*]",
        why="reassociated dot products | no more",
    )


def comparison(status: Status, *, kind: ComparisonKind = ComparisonKind.EQUIVALENCE, against: str = "") -> Comparison:
    """Return a comparison that ended with `status`, over one group of keys where something was measured."""
    against = against or "reference loop[cpu]"
    if status not in MARGINS:
        missing = Finding(status=status, what=f"{KEY} is missing from the candidate", key=KEY, step=3)
        return Comparison(kind=kind, against=against, status=status, findings=(missing,))
    found = measurement(status)
    if status is Status.DRIFT:  # every measurement is inside its tolerance; only the comparison knows
        found = replace(found, status=Status.WITHIN)
    bad = () if status.is_green else (Finding(status=status, what="outside", key=KEY, step=3, measurement=found),)
    group = KeyGroup(
        group="grad/*",
        compared=148,
        outside=41 * len(bad),
        max_abs=found.max_abs,
        max_rel=found.max_rel,
        min_rtol=found.min_rtol,
        min_atol=found.min_atol,
        first_outside=3 * len(bad),
        status=found.status,
        measurement=found,
        decided_by=("suite [grad/*]",),
    )
    likely = () if status.is_green else ("the candidate ran matmul precision 'default'",)
    return Comparison(
        kind=kind, against=against, status=status, groups=(group,), findings=bad, compared=148, likely=likely
    )


def verdict(status: Status, *, expectation: Expectation = Expectation.NONE) -> Verdict:
    """Return a verdict of `status` on a test of its own name."""
    is_judged = status in MARGINS or status in (Status.MISSING, Status.UNSTABLE)
    is_expecting = expectation is not Expectation.NONE
    return Verdict(
        test=f"mlp::{status.value.lower()}[xla:cpu]",
        status=status,
        what=WHATS.get(status, "" if status.is_green else f"{KEY} is wrong"),
        remedy="set PJRT_DEVICE=TPU on a machine with a TPU" if status is Status.UNVERIFIED else "",
        comparisons=(comparison(status),) if is_judged else (),
        expectation=expectation,
        why_expected="carried tensors come back in reverse order" if is_expecting else "",
        log="logs/0.txt",
    )


@pytest.fixture
def make_verdict() -> Callable[..., Verdict]:
    """Return the function that makes a verdict of a status."""
    return verdict


@pytest.fixture
def make_comparison() -> Callable[..., Comparison]:
    """Return the function that makes a comparison of a status."""
    return comparison


@pytest.fixture
def full_report() -> Report:
    """Return a report with a verdict of every status, expected failures, and published values."""
    published = comparison(Status.WITHIN, kind=ComparisonKind.ANCHOR, against="published: the table of 2.6")
    golden = comparison(Status.DRIFT, kind=ComparisonKind.REGRESSION, against="golden")
    three = (comparison(Status.WITHIN), published, golden)
    met = Verdict(test="mlp::met[cpu]", status=Status.WITHIN, comparisons=three)
    return Report(
        created="2026-01-02T03:04:05Z",
        run=".xla_equiv/runs/20260102T030405Z",
        provenance={"python": "3.11", "torch": "2.9.0", "torch_xla": "2.9.0", "XLA_FLAGS": ""},
        options={"suites": "mlp", "rtol": ""},
        verdicts=(
            *(verdict(status) for status in Status),
            met,
            verdict(Status.OUTSIDE, expectation=Expectation.MET),
            verdict(Status.EXACT, expectation=Expectation.NOT_MET),
        ),
        notes=("golden/old.toml is not used by any suite",),
        exit_code=1,
    )
