"""The tolerance report: for each test, comparison and group of keys, how much tolerance was used and is needed."""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass

from tabulate import tabulate

from xla_equiv.faces.failure_text import one_line, percent, round_up
from xla_equiv.faces.tables import PUBLISHED
from xla_equiv.store.report import Report, to_json
from xla_equiv.values.tolerance import Level
from xla_equiv.values.verdict import Comparison, KeyGroup, Verdict

SCHEMA = 1
"""Number of the layout of the JSON rendering."""

HEADERS = (
    "suite",
    "variant[backend]",
    "comparison",
    "keys",
    "max abs",
    "max rel",
    "margin used",
    "min rtol",
    "min atol",
    "first outside",
    "decided by",
)
ALIGNMENT = ("left",) * 4 + ("right",) * 6 + ("left",)

SHOWN_LEVELS = (Level.COMMAND_LINE, Level.FILE)
"""Levels that somebody chose for this run; their patterns are listed one by one."""


@dataclass(frozen=True, kw_only=True)
class ToleranceRow:
    """One group of keys in one comparison of one test.

    `rtol`, `atol` and `why` are those of the key that used the most of its margin; `min_rtol` and
    `min_atol` are the least values that would pass for the whole group, with the other one unchanged.
    """

    suite: str
    variant: str
    comparison: str
    against: str
    keys: str
    compared: int
    outside: int
    max_abs: float
    max_rel: float
    margin: float
    min_rtol: float
    min_atol: float
    first_outside: int
    rtol: float
    atol: float
    decided_by: tuple[str, ...]
    why: str
    status: str

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the texts of the line, under HEADERS; the two minima are rounded up, so that they pass."""
        return (
            self.suite,
            self.variant,
            f"{self.comparison} ({PUBLISHED})" if self.against.startswith(PUBLISHED) else self.comparison,
            self.keys,
            _number(self.max_abs),
            _number(self.max_rel),
            percent(self.margin),
            _number(round_up(self.min_rtol)),
            _number(round_up(self.min_atol)),
            f"step {self.first_outside}" if self.first_outside else "-",
            "; ".join(self.decided_by),
        )


def tolerance_rows(report: Report) -> list[ToleranceRow]:
    """Return the rows of `report`, in the order of its tests."""
    return [
        _row(verdict, comparison, group)
        for verdict in report.verdicts
        for comparison in verdict.comparisons
        for group in comparison.groups
    ]


def tolerance_table(report: Report) -> str:
    """Return the tolerance report for a terminal, with the reason of every tolerance below."""
    rows = tolerance_rows(report)
    if not rows:
        return "nothing was compared"
    cells = [row.cells for row in rows]
    table = tabulate(cells, headers=HEADERS, tablefmt="simple", disable_numparse=True, colalign=ALIGNMENT)
    reasons = [f"  {suite}: {who}: {why}" for suite, who, why in tolerance_reasons(rows)]
    return "\n".join([table, "", "why", *reasons])


def tolerance_markdown(report: Report) -> str:
    """Return the tolerance report as two Markdown tables: the numbers, and the reason of every tolerance."""
    rows = tolerance_rows(report)
    if not rows:
        return "nothing was compared"
    numbers = markdown_table(HEADERS, [row.cells for row in rows], code=(3, 10), alignment=ALIGNMENT)
    reasons = markdown_table(("suite", "decided by", "why"), tolerance_reasons(rows), code=(1,))
    return f"{numbers}\n\n{reasons}"


def tolerance_json(report: Report) -> str:
    """Return the tolerance report as JSON: its schema number, the run, and a list with one object for each row."""
    rows = [asdict(row) for row in tolerance_rows(report)]
    return to_json({"schema": SCHEMA, "run": report.run, "created": report.created, "tolerances": rows})


def tolerance_reasons(rows: Sequence[ToleranceRow]) -> list[tuple[str, str, str]]:
    """Return (suite, who decided, why), each once."""
    found = dict.fromkeys((row.suite, "; ".join(row.decided_by), one_line(row.why, 1000)) for row in rows if row.why)
    return list(found)


def deciders(report: Report) -> list[str]:
    """Return who decided the tolerances: a line for each pattern chosen for this run, and one that counts the rest."""
    values_of: dict[str, list[str]] = {}
    rows_of: dict[str, int] = {}
    rows_of_level: dict[Level, int] = {}
    for row in tolerance_rows(report):
        parts = [part for text in row.decided_by for part in _parts(text)]
        for source in sorted({source for _, source in parts}):
            rows_of[source] = rows_of.get(source, 0) + 1
            decided = {part for part, one in parts if one == source}
            if len(row.decided_by) == 1:  # of a mixed group the row has the numbers of its worst key only
                values_of.setdefault(source, []).append(_values(row, decided))
        for level in Level:
            if any(source.startswith(f"{level.value} [") for _, source in parts):
                rows_of_level[level] = rows_of_level.get(level, 0) + 1
    shown = [source for level in SHOWN_LEVELS for source in rows_of if source.startswith(f"{level.value} [")]
    lines = [f"{one} for {_groups(rows_of[one])}{_chosen(values_of.get(one, []))}" for one in shown]
    rest = [
        f"{level.value} for {_groups(count)}" for level, count in rows_of_level.items() if level not in SHOWN_LEVELS
    ]
    return [*lines, *(["; ".join(sorted(rest, reverse=True))] if rest else [])]


def markdown_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    code: Sequence[int] = (),
    alignment: Sequence[str] | None = None,
) -> str:
    """Return a Markdown table whose cells stay cells, whatever they hold; columns `code` are set as code."""
    cells = [[_cell(text, is_code=number in code) for number, text in enumerate(row)] for row in rows]
    colalign = alignment if cells else None
    table: str = tabulate(cells, headers=headers, tablefmt="github", disable_numparse=True, colalign=colalign)
    return table


def _row(verdict: Verdict, comparison: Comparison, group: KeyGroup) -> ToleranceRow:
    suite, _, variant = verdict.test.partition("::")
    return ToleranceRow(
        suite=suite,
        variant=variant,
        comparison=comparison.kind.value,
        against=comparison.against,
        keys=group.group,
        compared=group.compared,
        outside=group.outside,
        max_abs=group.max_abs,
        max_rel=group.max_rel,
        margin=group.measurement.margin,
        min_rtol=group.min_rtol,
        min_atol=group.min_atol,
        first_outside=group.first_outside,
        rtol=group.measurement.rtol,
        atol=group.measurement.atol,
        decided_by=group.decided_by,
        why=group.measurement.why,
        status=group.status.value,
    )


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.1e}" if math.isfinite(value) else str(value)


def _parts(decided_by: str) -> list[tuple[str, str]]:
    """Return the (part, `level [pattern]`) in what ResolvedTolerance.decided_by says; part "" is both."""
    levels = "|".join(level.value for level in Level)
    return re.findall(rf"(?:^|(?<=; ))(rtol|atol|) ?((?:{levels}) \[.*?\])(?=$|; atol )", decided_by)


def _groups(count: int) -> str:
    return f"{count} group{'s' * (count != 1)} of keys"


def _values(row: ToleranceRow, parts: Collection[str]) -> str:
    texts = [f"{name} {value:.3g}" for name, value in (("rtol", row.rtol), ("atol", row.atol)) if {name, ""} & {*parts}]
    return " ".join(texts)


def _chosen(values: Sequence[str]) -> str:
    return f": {_few(list(dict.fromkeys(values)))}" if values else ""


def _few(values: Sequence[str], most: int = 3) -> str:
    return ", ".join(values[:most]) + (f" and {len(values) - most} more" if len(values) > most else "")


def _cell(text: str, *, is_code: bool) -> str:
    flat = " ".join(text.split()).replace("|", "\\|")
    if is_code and flat and "`" not in flat:
        return f"`{flat}`"
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), ("*", "\\*"), ("`", "\\`")):
        flat = flat.replace(character, entity)
    return flat
