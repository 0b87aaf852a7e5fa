"""The text of a verdict: complete for every status, short, and true."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_equiv.faces.failure_text import CLAUSES, failure_text, neighbours, percent, round_up
from xla_equiv.values.verdict import Comparison, ComparisonKind, Expectation, Status, Verdict

Make = Callable[..., Verdict]
MakeComparison = Callable[..., Comparison]


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("expectation", Expectation)
def test_every_status_has_a_text(status: Status, expectation: Expectation, make_verdict: Make) -> None:
    lines = failure_text(make_verdict(status, expectation=expectation)).splitlines()
    assert lines[0].startswith(f"{status.value}: mlp::{status.value.lower()}[xla:cpu] ")
    assert CLAUSES[status] in lines[0]
    assert len(lines) <= 8
    assert lines[-1].startswith("  next ")
    assert "nan," not in lines[0]


def test_a_numeric_failure_says_where_how_much_and_what_would_pass(make_verdict: Make) -> None:
    assert failure_text(make_verdict(Status.OUTSIDE)) == (
        "OUTSIDE: mlp::outside[xla:cpu] left its tolerance (equivalence against reference loop[cpu])\n"
        "  where     step 12 · grad/blocks.3.attn.qkv.weight · index (5, 17)\n"
        "  numbers   candidate 1.2034e-03   reference 1.1987e-03   |diff| 4.70e-06\n"
        "  limit     1e-07 + 0.0001*|reference| = 2.2e-07   used 2136 %   "
        "grad/* would pass with rtol 3.9e-03   set by suite [grad/*]\n"
        "  spread    first bad at step 3 in grad/blocks.3.attn.qkv.weight; 41 of 148 tensors outside; 0 non-finite\n"
        "  likely    the candidate ran matmul precision 'default'\n"
        "  next      xla-equiv show 'mlp::outside[xla:cpu]' --run RUN --against 'reference loop[cpu]' "
        "--key 'grad/blocks.3.*'"
    )


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (Status.NOGOLDEN, "next      xla-equiv golden accept runs/7 -k 'mlp::nogolden[xla:cpu]' --why \"...\""),
        (Status.STALE, "next      xla-equiv golden accept runs/7 -k 'mlp::stale[xla:cpu]' --why \"...\""),
        (Status.CRASHED, "next      tail -n 50 runs/7/logs/0.txt"),
        (Status.TIMEOUT, "log       runs/7/logs/0.txt"),
        (Status.UNVERIFIED, "next      set PJRT_DEVICE=TPU on a machine with a TPU"),
        (Status.NONFINITE, "no tolerance would pass"),
    ],
)
def test_each_kind_of_failure_says_what_to_do(status: Status, line: str, make_verdict: Make) -> None:
    assert line in failure_text(make_verdict(status), run="runs/7")


def test_an_expected_failure_that_did_not_occur_names_the_line_to_remove(make_verdict: Make) -> None:
    text = failure_text(make_verdict(Status.EXACT, expectation=Expectation.NOT_MET))
    assert "expected failure did not occur: it agrees in every bit" in text
    assert "expected  carried tensors come back in reverse order" in text
    assert "next      remove the ExpectedFailure of exact[xla:cpu] from suites/mlp.py" in text


def test_the_command_survives_when_there_is_too_much_to_say(
    make_verdict: Make, make_comparison: MakeComparison
) -> None:
    both = (make_comparison(Status.OUTSIDE), make_comparison(Status.OUTSIDE, kind=ComparisonKind.ANCHOR))
    verdict = replace(
        make_verdict(Status.OUTSIDE, expectation=Expectation.NOT_MET),
        comparisons=both,
        attempts=2,
        first_failure="crashed\n" * 100,
        remedy="do something else",
    )
    lines = failure_text(verdict).splitlines()
    assert len(lines) == 8
    assert lines[-1].startswith("  next      xla-equiv show")


def test_a_second_comparison_that_failed_is_named(make_verdict: Make, make_comparison: MakeComparison) -> None:
    golden = make_comparison(Status.OUTSIDE, kind=ComparisonKind.REGRESSION, against="golden")
    verdict = replace(make_verdict(Status.OUTSIDE), comparisons=(make_comparison(Status.OUTSIDE), golden))
    assert "also      OUTSIDE in regression against golden" in failure_text(verdict)


def test_numbers_are_long_enough_to_differ(make_verdict: Make) -> None:
    verdict = make_verdict(Status.OUTSIDE)
    group = verdict.comparisons[0].groups[0]
    close = replace(group.measurement, candidate_value=1.00000012, reference_value=1.0)
    comparison = replace(verdict.comparisons[0], groups=(replace(group, measurement=close),))
    text = failure_text(replace(verdict, comparisons=(comparison,)))
    assert "candidate 1.0000001e+00   reference 1.0000000e+00" in text
    whole = replace(close, dtype="int64", candidate_value=1.0, reference_value=4.0, rtol=0.0, atol=0.0)
    comparison = replace(comparison, groups=(replace(group, measurement=whole),))
    text = failure_text(replace(verdict, comparisons=(comparison,)))
    assert "candidate 1   reference 4" in text
    assert "limit     0: must be equal" in text


@given(x=st.floats(min_value=0.0), digits=st.integers(1, 4))
def test_rounding_up_never_loses_and_keeps_the_digits(x: float, digits: int) -> None:
    rounded = round_up(x, digits)
    assert rounded >= x
    if math.isfinite(rounded):
        assert float(f"{rounded:.{digits - 1}e}") == rounded
    if 1e-300 < x < 1e300:
        assert rounded <= x * (1 + 10.0 ** (1 - digits)) * (1 + 1e-15)
        assert round_up(rounded, digits) == rounded


@given(margin=st.floats(min_value=0.0, allow_nan=False))
def test_percent_never_says_the_limit_when_it_is_not_met(margin: float) -> None:
    text = percent(margin)
    value = float(text.removesuffix(" %").lstrip(">"))
    assert (value > 100 or text == ">100 %") == (margin > 1 and margin * 100 > 100)
    assert len(text) <= 10


@pytest.mark.parametrize(
    ("key", "pattern"),
    [
        ("grad/blocks.3.attn.qkv.weight", "grad/blocks.3.*"),
        ("optim/fc.weight/exp_avg", "optim/fc.*"),
        ("param/0.weight", "param/0.*"),
        ("carried/2", "carried/*"),
        ("grad/scale", "grad/*"),
        ("loss/3", "loss/*"),
        ("grad_norm", "grad_norm"),
    ],
)
def test_the_neighbours_of_a_key(key: str, pattern: str) -> None:
    assert neighbours(key) == pattern
