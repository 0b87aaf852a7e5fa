"""A report as Markdown, small enough for the summary of a CI job."""

import re
from collections.abc import Sequence

from xla_equiv.faces.failure_text import failure_text
from xla_equiv.faces.graph_table import HEADERS as GRAPH_HEADERS
from xla_equiv.faces.graph_table import graph_rows
from xla_equiv.faces.tables import HEADERS, closing_rows, failures
from xla_equiv.faces.terminal import header, outcome, summary_lines
from xla_equiv.faces.tolerance_report import markdown_table, tolerance_markdown
from xla_equiv.store.report import Report

BUDGET_BYTES = 900 * 1024
"""GitHub cuts a job summary off at 1024 KiB."""

NOTICE_BYTES = 100
"""Room kept for the line that says how much was left out of a section."""


def render_markdown(report: Report, *, budget_bytes: int = BUDGET_BYTES) -> str:
    """Return `report` as Markdown of at most `budget_bytes` in UTF-8: failures, facts, table, graphs, tolerances.

    What does not fit is counted where it would have stood; failures leave half of the room to the rest.
    The title is always there.
    """
    failed = [_fenced(failure_text(verdict, run=report.run)) for verdict in failures(report.verdicts)]
    facts = _fenced("\n".join([header(report), "", *summary_lines(report)]))
    table = markdown_table(HEADERS, [row.cells for row in closing_rows(report.verdicts)], code=(0, 1, 5))
    text = f"# xla-equiv: {outcome(report)}\n"
    text += _section("Failures", failed, room=(budget_bytes - _size(text)) // 2)
    text += _section("Run", [facts], room=budget_bytes - _size(text) - 2 * NOTICE_BYTES)
    text += _section("Tests", table.split("\n"), room=budget_bytes - _size(text) - NOTICE_BYTES, heads=2)
    graphs = graph_rows(report.verdicts)
    if graphs:
        compiled = markdown_table(GRAPH_HEADERS, graphs, code=(0, 1)).split("\n")
        text += _section("Compiled graphs", compiled, room=budget_bytes - _size(text) - NOTICE_BYTES, heads=2)
    tolerances = tolerance_markdown(report).split("\n")
    return text + _section("Tolerances", tolerances, room=budget_bytes - _size(text), heads=2)


def _section(title: str, items: Sequence[str], *, room: int, heads: int = 0) -> str:
    """Return `title` and as many of `items` as fit into `room` bytes, then how many do not.

    The first `heads` items are the head of a table: they stand only with something below them.
    """
    if not items:
        return ""
    text = f"\n## {title}\n\n"
    left = room - NOTICE_BYTES - _size(text)
    kept = 0
    for item in items:
        left -= _size(item) + 1
        if left < 0:
            break
        kept += 1
    if kept <= heads < len(items):
        kept = 0
    text += "".join(f"{item}\n" for item in items[:kept])
    dropped = len(items) - max(kept, heads)
    notice = f"\n{dropped} more left out of {title.lower()} for size; report.json has all\n"
    if kept == len(items):
        return text
    return text + notice if room >= NOTICE_BYTES else ""


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"
