"""report.json and verdict files: what is written is read again, and what is foreign is refused."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_equiv.store.report import Report, read_report, read_verdict, to_json, write_report, write_verdict
from xla_equiv.values.errors import ReportError
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

T = TypeVar("T")

texts = st.text(max_size=8)
numbers = st.floats()
counts = st.integers(0, 2**40)
statuses = st.sampled_from(Status)


def few(members: st.SearchStrategy[T]) -> st.SearchStrategy[tuple[T, ...]]:
    """Return a strategy for up to two of `members`."""
    return st.lists(members, max_size=2).map(tuple)


measurements = st.builds(
    Measurement,
    key=texts,
    step=counts,
    dtype=texts,
    shape=few(counts),
    status=statuses,
    **dict.fromkeys(("size", "outside", "nonfinite"), counts),
    **dict.fromkeys(("max_abs", "max_rel", "margin", "min_rtol", "min_atol", "rtol", "atol"), numbers),
    **dict.fromkeys(("candidate_value", "reference_value"), numbers),
    index=few(counts),
    decided_by=texts,
    why=texts,
)
findings = st.builds(Finding, status=statuses, what=texts, key=texts, step=counts, measurement=st.none() | measurements)
groups = st.builds(
    KeyGroup,
    group=texts,
    **dict.fromkeys(("compared", "outside", "first_outside"), counts),
    **dict.fromkeys(("max_abs", "max_rel", "min_rtol", "min_atol"), numbers),
    status=statuses,
    measurement=measurements,
    decided_by=few(texts),
)
comparisons = st.builds(
    Comparison,
    kind=st.sampled_from(ComparisonKind),
    against=texts,
    status=statuses,
    groups=few(groups),
    findings=few(findings),
    compared=counts,
    unobserved=few(texts),
    likely=few(texts),
)
verdicts = st.builds(
    Verdict,
    test=texts,
    status=statuses,
    **dict.fromkeys(("what", "remedy", "why_expected", "first_failure", "log", "trace"), texts),
    comparisons=few(comparisons),
    expectation=st.sampled_from(Expectation),
    attempts=counts,
    notes=few(texts),
    compile_s=numbers,
    run_s=numbers,
)
reports = st.builds(
    Report,
    created=texts,
    run=texts,
    provenance=st.dictionaries(texts, texts, max_size=2),
    options=st.dictionaries(texts, texts, max_size=2),
    verdicts=few(verdicts),
    notes=few(texts),
    unfinished=few(texts),
    exit_code=st.integers(0, 4),
)


@settings(deadline=None, max_examples=50)
@given(report=reports)
def test_a_report_is_read_as_it_was_written(report: Report, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("report") / "report.json"
    write_report(report, path)
    # repr and not ==, because NaN is not equal to itself
    assert repr(read_report(path)) == repr(report)


@pytest.mark.parametrize("status", Status)
def test_a_verdict_is_read_as_it_was_written(
    status: Status, make_verdict: Callable[..., Verdict], tmp_path: Path
) -> None:
    write_verdict(make_verdict(status), tmp_path / "verdict.json")
    assert repr(read_verdict(tmp_path / "verdict.json")) == repr(make_verdict(status))


def test_the_json_is_valid_for_strict_parsers(full_report: Report, tmp_path: Path) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    write_report(full_report, tmp_path / "report.json")
    json.loads((tmp_path / "report.json").read_text(), parse_constant=refuse)
    assert json.loads(to_json([math.nan, math.inf, -math.inf]), parse_constant=refuse) == ["nan", "inf", "-inf"]


def test_text_that_is_no_unicode_does_not_cost_the_report(full_report: Report, tmp_path: Path) -> None:
    write_report(replace(full_report, notes=("a\udc80b",)), tmp_path / "report.json")
    assert read_report(tmp_path / "report.json").notes == ("a?b",)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "truncated"),
        (b"\xff\x00", "truncated"),
        (b"[" * 100_000, "truncated"),
        (b"[]", "not a report"),
        (b'{"run": "x"}', "not a report"),
        (b'{"schema": 999}', "schema 999"),
        (b'{"schema": 1, "verdicts": 3}', "verdicts: "),
    ],
)
def test_a_foreign_file_is_refused_with_its_path(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(content)
    with pytest.raises(ReportError, match=says) as caught:
        read_report(path)
    assert str(path) in str(caught.value)
    assert "  next " in str(caught.value)


def test_a_truncated_report_is_refused_wherever_it_ends(full_report: Report, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_report(full_report, path)
    whole = path.read_bytes().rstrip()
    for end in range(0, len(whole), len(whole) // 50):
        path.write_bytes(whole[:end])
        with pytest.raises(ReportError, match="truncated"):
            read_report(path)


def test_a_missing_report_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="there is no report"):
        read_report(tmp_path / "report.json")
    with pytest.raises(ReportError, match="cannot be read"):
        read_report(tmp_path)


@pytest.mark.parametrize("code", range(5))
def test_how_a_run_ended_and_what_did_not_end_is_kept(full_report: Report, tmp_path: Path, code: int) -> None:
    write_report(replace(full_report, exit_code=code, unfinished=("a::b[cpu]",)), tmp_path / "report.json")
    found = read_report(tmp_path / "report.json")
    assert (found.exit_code, found.unfinished) == (code, ("a::b[cpu]",))


def test_a_report_that_does_not_say_how_it_ended_is_refused(full_report: Report, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_report(full_report, path)
    content = json.loads(path.read_text())
    del content["exit_code"]
    path.write_text(json.dumps(content))
    with pytest.raises(ReportError, match="exit_code: "):
        read_report(path)
