"""A report on a terminal: what explains the numbers, the failures, the closing table, and the counts."""

import textwrap
from collections.abc import Mapping, Sequence

from xla_equiv.faces.failure_text import failure_text, next_step, one_line, percent
from xla_equiv.faces.tables import GREEN, RED, RESET, YELLOW, closing_table, counts, failures, is_failure, is_published
from xla_equiv.faces.tolerance_report import deciders
from xla_equiv.store.report import Report
from xla_equiv.values.errors import LABEL_WIDTH
from xla_equiv.values.verdict import Comparison, Expectation, Status, Verdict, exit_code

WIDTH = 110

FIRST_IN_HEADER = ("torch", "torch_xla", "libtpu", "device", "threads", "python", "XLA_FLAGS")
"""Provenance that most often explains a difference; the rest follows."""

MOST_NAMED = 3


def wants_colour(*, is_terminal: bool, environment: Mapping[str, str]) -> bool:
    """Return whether to colour: on a terminal, unless NO_COLOR is set to anything."""
    return is_terminal and not environment.get("NO_COLOR")


def render_terminal(report: Report, *, colour: bool) -> str:
    """Return `report` as text for a terminal."""
    failed = failures(report.verdicts)
    sections = [
        header(report),
        *(_failure(verdict, report.run, colour=colour) for verdict in failed),
        closing_table(report.verdicts, colour=colour) if report.verdicts else "",
        "\n".join(summary_lines(report)),
        _closing_line(report, colour=colour),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def header(report: Report) -> str:
    """Return the facts that explain the numbers, and what was asked for."""
    names = [name for name in FIRST_IN_HEADER if name in report.provenance]
    names += [name for name in report.provenance if name not in FIRST_IN_HEADER]
    facts = [f"{name} {report.provenance[name]}" for name in names if report.provenance[name]]
    options = [f"{name} {text}" for name, text in report.options.items() if text]
    title = f"xla-equiv report of {report.created}, run {report.run}"
    return "\n".join([title, *_wrapped("ran with", " · ".join(facts)), *_wrapped("options", " · ".join(options))])


def summary_lines(report: Report) -> list[str]:
    """Return one labelled line for each thing that a reader of a green run should still know."""
    return [
        *_labelled("drift", drift_lines(report.verdicts)),
        *_labelled("expected", _expected_failures(report.verdicts)),
        *_labelled("skipped", _skips(report.verdicts)),
        *_labelled("retried", _retries(report.verdicts)),
        *_labelled("not run", [_named(report.unfinished)] if report.unfinished else []),
        *_labelled("left out", _left_out(report.verdicts)),
        *_labelled("published", published_lines(report.verdicts)),
        *_labelled("decided", deciders(report)),
        *_labelled("note", [*report.notes, *_notes(report.verdicts)]),
    ]


def published_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Return, for each comparison with values published elsewhere, whether they were met and how closely."""
    return [_published(verdict, one) for verdict in verdicts for one in verdict.comparisons if is_published(one)]


def _published(verdict: Verdict, comparison: Comparison) -> str:
    outcome = "meets" if comparison.status.is_green else f"DOES NOT MEET ({comparison.status.value})"
    source = comparison.against.removeprefix("published").lstrip(": ") or "published values"
    group = comparison.worst_group
    limit = f" (rtol {group.measurement.rtol:.3g}, atol {group.measurement.atol:.3g})" if group else ""
    return (
        f"{verdict.test} {outcome} {source}: {comparison.compared} value{'s' * (comparison.compared != 1)}, "
        f"used {percent(comparison.margin)} of the tolerance{limit}"
    )


def drift_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Return, for each test that agrees less closely than its suite declares, by how much, and how the graphs differ."""
    return [
        _drift(verdict, one) for verdict in verdicts if (one := verdict.equivalence) and one.status is Status.DRIFT
    ]


def _drift(verdict: Verdict, comparison: Comparison) -> str:
    declared = comparison.declared.value if comparison.declared else "nothing"
    where = f" at {comparison.worst_group.measurement.key}" if comparison.worst_group else ""
    used = f"{verdict.test} is declared {declared}, and uses {percent(comparison.margin)} of its tolerance{where}"
    return f"{used}; {comparison.graph}" if comparison.graph else used


def _expected_failures(verdicts: Sequence[Verdict]) -> list[str]:
    met = [verdict for verdict in verdicts if verdict.expectation is Expectation.MET]
    return [f"{verdict.test} is {verdict.status.value}: {one_line(verdict.why_expected)}" for verdict in met]


def _skips(verdicts: Sequence[Verdict]) -> list[str]:
    """Return one line for each reason, with the tests that it concerns and the remedy."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for verdict in verdicts:
        if verdict.is_skip:
            by_reason.setdefault((one_line(verdict.what), next_step(verdict)), []).append(verdict.test)
    return [
        f"{Status.UNVERIFIED.value} {_named(tests)}: {what or 'no reason recorded'}; next: {remedy}"
        for (what, remedy), tests in by_reason.items()
    ]


def _left_out(verdicts: Sequence[Verdict]) -> list[str]:
    """Return which keys were not compared because a treatment cannot record them, and for which tests."""
    by_patterns: dict[tuple[str, ...], list[str]] = {}
    for verdict in verdicts:
        for patterns in {comparison.unobserved for comparison in verdict.comparisons if comparison.unobserved}:
            by_patterns.setdefault(patterns, []).append(verdict.test)
    return [f"{', '.join(patterns)} cannot be recorded by {_named(tests)}" for patterns, tests in by_patterns.items()]


def _retries(verdicts: Sequence[Verdict]) -> list[str]:
    retried = [verdict for verdict in verdicts if verdict.attempts > 1]
    return [f"{one.test} ran {one.attempts} times; the first: {one_line(one.first_failure)}" for one in retried]


def _notes(verdicts: Sequence[Verdict]) -> list[str]:
    by_note: dict[str, list[str]] = {}
    for verdict in verdicts:
        for note in verdict.notes:
            by_note.setdefault(one_line(note), []).append(verdict.test)
    return [f"{_named(tests)}: {note}" for note, tests in by_note.items()]


def _named(tests: Sequence[str]) -> str:
    named = ", ".join(tests[:MOST_NAMED])
    return named if len(tests) <= MOST_NAMED else f"{named} and {len(tests) - MOST_NAMED} more"


def _labelled(label: str, lines: Sequence[str]) -> list[str]:
    return [f"{label if number == 0 else '':<{LABEL_WIDTH}} {line}" for number, line in enumerate(lines)]


def _wrapped(label: str, text: str) -> list[str]:
    room = WIDTH - LABEL_WIDTH - 1
    return _labelled(label, textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False))


def _failure(verdict: Verdict, run: str, *, colour: bool) -> str:
    text = failure_text(verdict, run=run)
    headline, newline, rest = text.partition("\n")
    return f"{RED}{headline}{RESET}{newline}{rest}" if colour else text


def outcome(report: Report) -> str:
    """Return how many tests ended how, and how many did not end."""
    unfinished = f"{len(report.unfinished)} not run: interrupted" if report.unfinished else ""
    is_explained = bool(report.unfinished) or report.exit_code == exit_code(report.verdicts)
    more = "" if is_explained else f"exit code {report.exit_code}: see the notes"
    return ", ".join(part for part in (counts(report.verdicts) if report.verdicts or not report.unfinished else "", unfinished, more) if part)


def _closing_line(report: Report, *, colour: bool) -> str:
    text = outcome(report)
    if not colour:
        return text
    is_unexplained = report.exit_code != exit_code(report.verdicts)
    is_bad = bool(report.unfinished) or is_unexplained or any(is_failure(verdict) for verdict in report.verdicts)
    has_judged = any(verdict.is_green for verdict in report.verdicts)
    return f"{RED if is_bad else GREEN if has_judged else YELLOW}{text}{RESET}"
