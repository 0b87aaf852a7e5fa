"""The closing table and the counts of a report, as plain data and as text."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tabulate import tabulate

from xla_equiv.faces.failure_text import percent, worst_comparison, worst_place
from xla_equiv.values.verdict import Comparison, ComparisonKind, Expectation, Status, Verdict

SYMBOLS: Mapping[Status, str] = {
    Status.EXACT: "=",
    Status.WITHIN: ".",
    Status.DRIFT: "~",
    Status.UNVERIFIED: "?",
    Status.NOGOLDEN: "+",
    Status.STALE: "<",
    Status.BLIND: "o",
    Status.UNPROVEN: "-",
    Status.UNSTABLE: "%",
    Status.OUTSIDE: "x",
    Status.MISSING: "/",
    Status.NONFINITE: "#",
    Status.TIMEOUT: "&",
    Status.CRASHED: "!",
}
"""One character per status, so that a column can be scanned without colour."""

COUNT_WORDS: Mapping[Status, str] = {
    Status.NOGOLDEN: "without a golden",
    Status.STALE: "with a stale golden",
    Status.BLIND: "blind",
    Status.UNPROVEN: "unproven",
    Status.UNSTABLE: "unstable",
    Status.OUTSIDE: "outside tolerance",
    Status.MISSING: "with missing values",
    Status.NONFINITE: "with non-finite values",
    Status.TIMEOUT: "timed out",
    Status.CRASHED: "crashed",
}

HEADERS = ("suite", "variant[backend]", "status", "margin used", "first bad step", "worst key", "off golden", "change")

PUBLISHED = "published"
"""What `Comparison.against` starts with when the other side was published elsewhere."""

RED, YELLOW, GREEN, RESET = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[0m"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the closing table.

    Args:
        suite, variant: the two parts of the test's name.
        status: symbol, word, and how it relates to an expected failure.
        margin: share of its tolerance that the worst comparison used; None when nothing was measured.
        first_bad_step: first step with a finding in any comparison; 0 for none.
        worst_key: key at which the worst comparison is at its worst; "" when all are exact.
        off_golden: share of its tolerance used against the golden; None without a golden.
        change: by how much the share that equivalence uses has grown since the golden was accepted; None if unknown.
        verdict: what the line is about.
    """

    suite: str
    variant: str
    status: str
    margin: float | None
    first_bad_step: int
    worst_key: str
    off_golden: float | None
    change: float | None
    verdict: Verdict

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the texts of the line, under HEADERS."""
        return (
            self.suite,
            self.variant,
            self.status,
            "-" if self.margin is None else percent(self.margin),
            str(self.first_bad_step or "-"),
            self.worst_key or "-",
            "-" if self.off_golden is None else percent(self.off_golden),
            "-" if self.change is None else f"{100 * self.change:+.2g} %",
        )


def closing_rows(verdicts: Sequence[Verdict]) -> list[Row]:
    """Return one row for each of `verdicts`: failures first, then by the share of the tolerance that was used."""
    return [_row(verdict) for verdict in sorted(verdicts, key=_urgency)]


def failures(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return those of `verdicts` that are wrong, in the order of the closing table."""
    return [verdict for verdict in sorted(verdicts, key=_urgency) if is_failure(verdict)]


def is_failure(verdict: Verdict) -> bool:
    """Return whether `verdict` makes the run fail."""
    return not verdict.is_green and not verdict.is_skip


def is_published(comparison: Comparison) -> bool:
    """Return whether `comparison` holds a trace against values that were published elsewhere."""
    return comparison.against.startswith(PUBLISHED)


def status_text(verdict: Verdict) -> str:
    """Return symbol and word of the status, with what the suite expected."""
    text = f"{SYMBOLS[verdict.status]} {verdict.status.value}"
    suffix = {Expectation.NONE: "", Expectation.MET: " (expected)", Expectation.NOT_MET: " (not as expected)"}
    return text + suffix[verdict.expectation]


def closing_table(verdicts: Sequence[Verdict], *, colour: bool) -> str:
    """Return the closing table for a terminal; colour repeats what the status says."""
    rows = closing_rows(verdicts)
    cells = [(*row.cells[:2], _coloured(row, colour=colour), *row.cells[3:]) for row in rows]
    alignment = ("left", "left", "left", "right", "right", "left", "right", "right") if cells else None
    table: str = tabulate(cells, headers=HEADERS, tablefmt="simple", disable_numparse=True, colalign=alignment)
    return table


def counts(verdicts: Sequence[Verdict]) -> str:
    """Return how many tests ended how, as one clause for each outcome.

    >>> counts([Verdict(test="a::b[cpu]", status=Status.EXACT), Verdict(test="a::c[cpu]", status=Status.CRASHED)])
    '1 equivalent, 1 crashed'
    """
    agreeing = [one for one in verdicts if one.is_green and one.expectation is Expectation.NONE]
    drifting = sum(one.status is Status.DRIFT for one in agreeing)
    met = sum(one.expectation is Expectation.MET for one in verdicts)
    not_met = sum(one.expectation is Expectation.NOT_MET for one in verdicts)
    skipped = sum(one.is_skip for one in verdicts)
    bad = Counter(one.status for one in verdicts if is_failure(one) and one.expectation is Expectation.NONE)
    parts = [f"{len(agreeing)} equivalent" + (f" ({drifting} with drift)" if drifting else "")] if agreeing else []
    parts += [f"{bad[status]} {COUNT_WORDS[status]}" for status in reversed(Status) if bad[status]]
    parts += [f"{not_met} expected failure{'s' * (not_met > 1)} that did not occur"] if not_met else []
    parts += [f"{met} expected failure{'s' * (met > 1)}"] if met else []
    parts += [f"{skipped} not verified"] if skipped else []
    retried = sum(one.attempts > 1 for one in verdicts)
    parts += [f"{retried} retried"] if retried else []
    if len(verdicts) == skipped:
        parts.append("nothing was judged")
    return ", ".join(parts)


def _urgency(verdict: Verdict) -> tuple[int, float, int, str]:
    comparison = worst_comparison(verdict)
    margin = comparison.margin if comparison is not None else (math.inf if verdict.status.is_infrastructure else 0.0)
    group = 0 if is_failure(verdict) else 1 if verdict.is_skip else 2
    return (group, -(math.inf if math.isnan(margin) else margin), -verdict.status.gravity, verdict.test)


def _row(verdict: Verdict) -> Row:
    suite, _, variant = verdict.test.partition("::")
    comparison = _shown_comparison(verdict)
    has_worst = comparison is not None and comparison.status is not Status.EXACT
    golden = [
        one.margin
        for one in verdict.comparisons
        if one.kind is not ComparisonKind.EQUIVALENCE and one.groups and not is_published(one)
    ]
    return Row(
        suite=suite,
        variant=variant,
        status=status_text(verdict),
        margin=comparison.margin if comparison is not None and comparison.groups else None,
        first_bad_step=min((one.first_bad_step for one in verdict.comparisons if one.first_bad_step), default=0),
        worst_key=worst_place(comparison)[1] if comparison is not None and has_worst else "",
        off_golden=max(golden, default=None),
        change=None if math.isnan(verdict.margin_change) else verdict.margin_change,
        verdict=verdict,
    )


def _shown_comparison(verdict: Verdict) -> Comparison | None:
    """Return the worst comparison; where it only lacks a golden, the worst of those that measured something."""
    found = worst_comparison(verdict)
    if found is None or found.groups or worst_place(found)[1]:
        return found
    measured = tuple(one for one in verdict.comparisons if one.groups)
    return worst_comparison(replace(verdict, comparisons=measured))


def _coloured(row: Row, *, colour: bool) -> str:
    if not colour:
        return row.status
    if is_failure(row.verdict):
        return f"{RED}{row.status}{RESET}"
    is_plain = row.verdict.status in (Status.EXACT, Status.WITHIN)
    return f"{GREEN if is_plain else YELLOW}{row.status}{RESET}"
