"""The closing table, the counts, and the tolerance report."""

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from xla_equiv.faces.tables import COUNT_WORDS, HEADERS, SYMBOLS, closing_rows, closing_table, counts
from xla_equiv.faces.tolerance_report import (
    deciders,
    markdown_table,
    tolerance_json,
    tolerance_markdown,
    tolerance_rows,
    tolerance_table,
)
from xla_equiv.store.report import Report
from xla_equiv.values.verdict import Comparison, ComparisonKind, Expectation, Finding, KeyGroup, Status, Verdict

Make = Callable[..., Verdict]


@pytest.mark.parametrize("status", Status)
def test_every_status_has_a_symbol_of_its_own_and_is_counted(status: Status, make_verdict: Make) -> None:
    assert list(SYMBOLS.values()).count(SYMBOLS[status]) == 1
    assert closing_rows([make_verdict(status)])[0].status == f"{SYMBOLS[status]} {status.value}"
    assert re.match(r"1 [a-z]", counts([make_verdict(status)]))
    assert (status in COUNT_WORDS) == (not status.is_green and status is not Status.UNVERIFIED)


def test_failures_come_first_then_skips_then_the_rest_by_margin(full_report: Report) -> None:
    rows = closing_rows(full_report.verdicts)
    ranks = [0 if not r.verdict.is_green and not r.verdict.is_skip else 1 if r.verdict.is_skip else 2 for r in rows]
    assert ranks == sorted(ranks)
    margins = [row.margin for row in rows if row.verdict.is_green and row.margin is not None]
    assert margins == sorted(margins, reverse=True)


def test_a_row_names_the_worst_place_and_the_distance_from_the_golden(full_report: Report) -> None:
    rows = {(row.variant, row.status): row.cells for row in closing_rows(full_report.verdicts)}
    key = "grad/blocks.3.attn.qkv.weight"
    assert rows["met[cpu]", ". WITHIN"] == ("mlp", "met[cpu]", ". WITHIN", "60 %", "-", key, "60 %", "-")
    assert rows["outside[xla:cpu]", "x OUTSIDE"][3:] == ("2136 %", "3", key, "-", "-")
    assert rows["crashed[xla:cpu]", "! CRASHED"][3:] == ("-", "-", "-", "-", "-")
    assert ("outside[xla:cpu]", "x OUTSIDE (expected)") in rows
    assert ("exact[xla:cpu]", "= EXACT (not as expected)") in rows


def test_without_a_golden_the_row_still_shows_the_equivalence(
    make_verdict: Make, make_comparison: Callable[..., Comparison]
) -> None:
    golden = make_comparison(Status.NOGOLDEN, kind=ComparisonKind.REGRESSION, against="golden")
    golden = replace(golden, findings=(Finding(status=Status.NOGOLDEN, what="there is no golden"),))
    verdict = replace(make_verdict(Status.NOGOLDEN), comparisons=(make_comparison(Status.WITHIN), golden))
    assert closing_rows([verdict])[0].cells[3:] == ("12 %", "-", "grad/blocks.3.attn.qkv.weight", "-", "-")


def test_the_change_is_what_equivalence_uses_more_than_when_the_golden_was_accepted(
    make_verdict: Make, make_comparison: Callable[..., Comparison]
) -> None:
    equivalence = make_comparison(Status.WITHIN, kind=ComparisonKind.EQUIVALENCE)
    verdict = replace(make_verdict(Status.WITHIN), comparisons=(equivalence,), accepted_margin=0.05)
    assert closing_rows([verdict])[0].cells[-1] == "+7 %"


def test_colour_changes_nothing_but_colour(full_report: Report) -> None:
    plain = closing_table(full_report.verdicts, colour=False)
    coloured = closing_table(full_report.verdicts, colour=True)
    assert "\x1b" in coloured
    assert re.sub(r"\x1b\[\d*m", "", coloured) == plain
    assert [name for name in HEADERS if name not in plain] == []


def test_numbers_in_names_stay_as_they_are() -> None:
    table = closing_table([Verdict(test="1e3::007[cpu]", status=Status.EXACT)], colour=False)
    assert "1e3 " in table
    assert "007[cpu]" in table
    assert "mlp" not in closing_table([], colour=False)


def test_the_counts_of_a_run(make_verdict: Make, full_report: Report) -> None:
    text = counts(full_report.verdicts)
    assert text.startswith("4 equivalent (1 with drift), 1 crashed, 1 timed out, ")
    assert text.endswith("1 expected failure that did not occur, 1 expected failure, 1 not verified")
    assert counts([make_verdict(Status.UNVERIFIED)]) == "1 not verified, nothing was judged"
    assert counts([]) == "nothing was judged"
    assert counts([replace(make_verdict(Status.EXACT), attempts=2)]) == "1 equivalent, 1 retried"


def test_the_minima_of_the_tolerance_report_really_pass(full_report: Report) -> None:
    row = next(row for row in tolerance_rows(full_report) if row.status == "OUTSIDE")
    assert row.min_rtol == 0.0038201
    assert row.cells[7:10] == ("3.9e-03", "4.6e-06", "step 3")


def test_every_rendering_of_the_tolerance_report_has_every_row(full_report: Report) -> None:
    rows = tolerance_rows(full_report)
    saved = json.loads(tolerance_json(full_report))
    assert saved["schema"] == 1
    assert [one["variant"] for one in saved["tolerances"]] == [row.variant for row in rows]
    assert {one["why"] for one in saved["tolerances"]} == {"reassociated dot products | no more"}
    assert tolerance_table(full_report).count("suite [grad/*]") == len(rows) + 1
    assert "mlp: suite [grad/*]: reassociated dot products | no more" in tolerance_table(full_report)
    assert tolerance_markdown(full_report).count("`grad/*`") == len(rows)
    assert "anchor (published)" in tolerance_table(full_report)
    nothing = replace(full_report, verdicts=())
    assert tolerance_table(nothing) == tolerance_markdown(nothing) == "nothing was compared"


def decided(report: Report, *texts: str) -> Report:
    """Return `report` with one verdict over one group for each of `texts`, which say who decided it."""
    verdict = next(one for one in report.verdicts if one.status is Status.WITHIN)
    comparison = verdict.comparisons[0]
    group: KeyGroup = comparison.groups[0]
    groups = tuple(replace(group, decided_by=(text,)) for text in texts)
    return replace(report, verdicts=(replace(verdict, comparisons=(replace(comparison, groups=groups),)),))


def test_patterns_chosen_for_the_run_are_listed_and_the_rest_is_counted(full_report: Report) -> None:
    report = decided(
        full_report,
        "rtol command line [*]; atol suite [grad/[ab]*]",
        "tolerance file [grad/*.bias]",
        "suite [grad/*]",
        "project default [float32]",
    )
    assert deciders(report) == [
        "command line [*] for 1 group of keys: rtol 0.0001",
        "tolerance file [grad/*.bias] for 1 group of keys: rtol 0.0001 atol 1e-07",
        "suite for 2 groups of keys; project default for 1 group of keys",
    ]
    assert deciders(replace(report, verdicts=())) == []


def test_cells_of_a_markdown_table_cannot_break_it() -> None:
    lines = markdown_table(("a", "b"), [("x|y\nz", "<b>*`"), ("*", "")], code=(0,)).split("\n")
    assert len(lines) == 4
    assert "`x\\|y z`" in lines[2]
    assert "&lt;b>\\*\\`" in lines[2]


def test_an_expected_failure_counts_as_green_in_the_order(make_verdict: Make) -> None:
    expected = make_verdict(Status.OUTSIDE, expectation=Expectation.MET)
    rows = closing_rows([expected, make_verdict(Status.UNVERIFIED), make_verdict(Status.STALE)])
    assert [row.verdict.status for row in rows] == [Status.STALE, Status.UNVERIFIED, Status.OUTSIDE]
