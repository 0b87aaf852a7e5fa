"""docs/results.md is what its script makes of a report, and has every test of the suites that it is about."""

import re

from markdown_blocks import ROOT, script

from xla_equiv.execute.suite_files import load_suite
from xla_equiv.store.report import Report
from xla_equiv.values.equivalence import Equivalence
from xla_equiv.values.plan import expand
from xla_equiv.values.verdict import Comparison, ComparisonKind, Status, Verdict

DOCUMENT = ROOT / "docs" / "results.md"


def test_the_document_has_every_candidate_of_its_suites() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    suites = re.findall(r"^## (\w+)$", text, re.MULTILINE)
    assert len(suites) > 5
    for suite in suites:
        section = text.partition(f"## {suite}\n")[2].partition("\n## ")[0]
        named = load_suite(ROOT / "suites" / f"{suite}.py")
        wanted = {
            test.label
            for test in expand([named])
            if not (test.is_reference or test.skip or test.case.full)
        }
        assert set(re.findall(r"^\| `([^`]+)`", section, re.MULTILINE)) == wanted


def test_no_verdict_of_the_document_is_red() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    verdicts = re.findall(r"^\| `[^`]+` *\|[^|]*\| . (\w+)( \(expected\))?", text, re.MULTILINE)
    assert verdicts
    assert {status for status, expected in verdicts if not expected} <= {"EXACT", "WITHIN", "DRIFT", "UNVERIFIED"}


def test_a_row_says_what_was_declared_what_came_of_it_and_why() -> None:
    comparison = Comparison(
        kind=ComparisonKind.EQUIVALENCE,
        against="loop[xla:cpu]",
        status=Status.EXACT,
        graph="candidate has 2 more dot (traced)",
        declared=Equivalence.BITWISE,
    )
    verdicts = (
        Verdict(test="s::loop[xla:cpu]", status=Status.EXACT),
        Verdict(test="s::each[xla:cpu]", status=Status.EXACT, comparisons=(comparison,)),
    )
    text = script("results").render(Report(created="2026", run="r", verdicts=verdicts, exit_code=0))
    assert re.search(r"\| `each\[xla:cpu\]` *\| bitwise *\| = EXACT *\| - .*candidate has 2 more dot", text)
    assert "`loop[xla:cpu]`" not in text
    assert "xla-equiv run s --json report.json" in text
