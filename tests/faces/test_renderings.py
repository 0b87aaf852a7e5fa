"""A whole report on a terminal and as Markdown."""

import re
from dataclasses import replace

import pytest

from xla_equiv.faces.markdown import BUDGET_BYTES, render_markdown
from xla_equiv.faces.tables import GREEN, RED
from xla_equiv.faces.terminal import render_terminal, wants_colour
from xla_equiv.store.report import Report
from xla_equiv.values.verdict import Status, Verdict


def test_the_terminal_shows_facts_failures_table_and_counts_in_this_order(full_report: Report) -> None:
    text = render_terminal(full_report, colour=False)
    places = [
        text.index(part)
        for part in (
            "ran with  torch 2.9.0 · torch_xla 2.9.0 · python 3.11\n",
            "options   suites mlp\n",
            "\nCRASHED: mlp::crashed[xla:cpu] ",
            "\nOUTSIDE: mlp::outside[xla:cpu] ",
            "off golden    change\n",
            "expected  mlp::outside[xla:cpu] is OUTSIDE: carried tensors come back in reverse order",
            "skipped   UNVERIFIED mlp::unverified[xla:cpu]: no TPU: /dev/accel* is absent; next: set PJRT_DEVICE=TPU",
            "published mlp::met[cpu] meets the table of 2.6: 148 values, used 12 % of the tolerance",
            "decided   suite for 10 groups of keys",
            "note      golden/old.toml is not used by any suite",
            "\n4 equivalent (1 with drift), 1 crashed",
        )
    ]
    assert places == sorted(places)
    assert "\x1b" not in text
    assert "UNVERIFIED: " not in text


def test_colour_is_a_second_channel_only(full_report: Report) -> None:
    coloured = render_terminal(full_report, colour=True)
    assert re.sub(r"\x1b\[\d*m", "", coloured) == render_terminal(full_report, colour=False)
    assert wants_colour(is_terminal=True, environment={})
    assert wants_colour(is_terminal=True, environment={"NO_COLOR": ""})
    assert not wants_colour(is_terminal=True, environment={"NO_COLOR": "1"})
    assert not wants_colour(is_terminal=False, environment={})


def test_published_values_that_are_not_met_are_said_not_to_be(full_report: Report) -> None:
    verdict = next(one for one in full_report.verdicts if one.test == "mlp::met[cpu]")
    missed = replace(verdict.comparisons[1], status=Status.OUTSIDE)
    report = replace(full_report, verdicts=(replace(verdict, status=Status.OUTSIDE, comparisons=(missed,)),))
    assert "mlp::met[cpu] DOES NOT MEET (OUTSIDE) the table of 2.6" in render_terminal(report, colour=False)


def test_what_many_tests_share_is_said_once(full_report: Report) -> None:
    skipped = tuple(
        Verdict(test=f"s::{i}[xla:tpu]", status=Status.UNVERIFIED, what="no TPU", notes=("slow",), attempts=2)
        for i in range(9)
    )
    text = render_terminal(replace(full_report, verdicts=skipped, exit_code=3), colour=False)
    assert "UNVERIFIED s::0[xla:tpu], s::1[xla:tpu], s::2[xla:tpu] and 6 more: no TPU; next: xla-equiv doctor" in text
    assert "s::0[xla:tpu], s::1[xla:tpu], s::2[xla:tpu] and 6 more: slow" in text
    assert text.count("ran 2 times") == 9
    assert text.endswith("9 not verified, 9 retried, nothing was judged\n")


def test_a_report_of_nothing_says_so(full_report: Report) -> None:
    empty = replace(full_report, verdicts=(), notes=(), exit_code=3)
    assert render_terminal(empty, colour=True).endswith("nothing was judged\x1b[0m\n")
    assert "nothing was compared" in render_markdown(empty)


def test_markdown_has_failures_first_and_everything_in_it(full_report: Report) -> None:
    text = render_markdown(full_report)
    titles = re.findall(r"^#+ (\w+)", text, flags=re.MULTILINE)
    assert titles == ["xla", "Failures", "Run", "Tests", "Tolerances"]
    assert text.count("```text") == 1 + 11
    assert "left out" not in text


@pytest.mark.parametrize("budget_bytes", [700, 2_000, 5_000, 20_000, BUDGET_BYTES])
def test_markdown_keeps_to_its_budget_and_counts_what_it_leaves_out(full_report: Report, budget_bytes: int) -> None:
    many = tuple(replace(one, test=f"{one.test}ü{i}") for i in range(300) for one in full_report.verdicts)
    text = render_markdown(replace(full_report, verdicts=many), budget_bytes=budget_bytes)
    assert len(text.encode()) <= budget_bytes
    assert text.startswith("# xla-equiv: 1200 equivalent")
    left_out = re.search(r"(\d+) more left out of failures", text)
    shown = len(re.findall(r"^[A-Z]+: mlp::", text, flags=re.MULTILINE))
    assert left_out is not None
    assert int(left_out.group(1)) + shown == 300 * 11


def test_backticks_in_a_failure_do_not_end_its_block(full_report: Report) -> None:
    report = replace(full_report, verdicts=(Verdict(test="a::b[cpu]", status=Status.CRASHED, what="``` oops"),))
    assert "````text\nCRASHED: a::b[cpu] crashed: ``` oops\n" in render_markdown(report)


def test_keys_that_were_left_out_are_named_with_their_tests(full_report: Report) -> None:
    exact = next(one for one in full_report.verdicts if one.test == "mlp::exact[xla:cpu]")
    (comparison,) = exact.comparisons
    blindfolded = replace(exact, comparisons=(replace(comparison, unobserved=("loss/*", "carried/*")),) * 2)
    for seen in (full_report, replace(full_report, verdicts=(exact,))):
        assert "cannot be recorded" not in render_terminal(seen, colour=False) + render_markdown(seen)
    report = replace(full_report, verdicts=(blindfolded, *full_report.verdicts))
    line = "left out  loss/*, carried/* cannot be recorded by mlp::exact[xla:cpu]\n"
    for text in (render_terminal(report, colour=False), render_markdown(report)):
        assert text.count(line) == 1


def test_tests_that_did_not_end_are_counted_and_named(full_report: Report) -> None:
    exact = next(one for one in full_report.verdicts if one.test == "mlp::exact[xla:cpu]")
    tests = tuple(f"s::{number}[cpu]" for number in range(9))
    report = replace(full_report, verdicts=(exact,), unfinished=tests, exit_code=3)
    text = render_terminal(report, colour=False)
    assert "not run   s::0[cpu], s::1[cpu], s::2[cpu] and 6 more\n" in text
    assert text.endswith("\n1 equivalent, 9 not run: interrupted\n")
    markdown = render_markdown(report)
    assert markdown.startswith("# xla-equiv: 1 equivalent, 9 not run: interrupted\n")
    assert "not run   s::0[cpu], s::1[cpu], s::2[cpu] and 6 more\n" in markdown
    assert f"{RED}1 equivalent, 9 not run: interrupted" in render_terminal(report, colour=True)
    assert f"{GREEN}1 equivalent\x1b" in render_terminal(replace(report, unfinished=(), exit_code=0), colour=True)


def test_a_run_of_which_no_test_ended_says_so(full_report: Report) -> None:
    report = replace(full_report, verdicts=(), notes=(), unfinished=("s::a[cpu]",), exit_code=3)
    assert render_terminal(report, colour=False).endswith("\n1 not run: interrupted\n")
    assert render_markdown(report).startswith("# xla-equiv: 1 not run: interrupted\n")


@pytest.mark.parametrize("code", [2, 4])
def test_an_exit_code_that_no_verdict_explains_is_said_and_never_green(full_report: Report, code: int) -> None:
    exact = next(one for one in full_report.verdicts if one.test == "mlp::exact[xla:cpu]")
    report = replace(full_report, verdicts=(exact,), exit_code=code)
    line = f"1 equivalent, exit code {code}: see the notes"
    assert render_terminal(report, colour=False).endswith(f"\n{line}\n")
    assert render_terminal(report, colour=True).endswith(f"{RED}{line}\x1b[0m\n")
    assert render_markdown(report).startswith(f"# xla-equiv: {line}\n")
