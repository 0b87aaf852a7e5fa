"""`xla-equiv show`."""

import click
import numpy as np
from tabulate import tabulate

from xla_equiv.measure.metrics import measure
from xla_equiv.store.runs import RunFolder, file_name, find_run_folder
from xla_equiv.store.traces import is_complete, read_trace
from xla_equiv.values.errors import SelectionError, choices_text
from xla_equiv.values.patterns import matches
from xla_equiv.values.tolerance import ResolvedTolerance
from xla_equiv.values.trace import Entry, Trace

MOST_ROWS = 200
NOTHING_ALLOWED = ResolvedTolerance(0.0, 0.0, "show", "show", "differences are shown as they are")


@click.command("show")
@click.argument("test", metavar="SUITE::VARIANT[BACKEND]")
@click.option("--run", "run", default="latest", show_default=True, help="Run folder.")
@click.option("--key", "pattern", default="", metavar="PATTERN", help="Only keys that match, such as 'grad/*.bias'.")
@click.option("--step", type=click.IntRange(1), default=None, help="Only this optimizer step.")
@click.option("--against", default="", metavar="VARIANT[BACKEND]", help="Another test of the suite to show the differences from.")
def command(test: str, run: str, pattern: str, step: int | None, against: str) -> None:
    """Show what a saved trace holds: norm, extremes and, with --against, differences. Needs no device."""
    folder = find_run_folder(run)
    suite, _, label = test.partition("::")
    trace = _find(folder, suite, label)
    other = _find(folder, suite, against) if against else None
    chosen = [e for e in trace.entries if (not pattern or matches(e.key, pattern)) and step in (None, e.step)]
    if not chosen:
        keys = trace.keys
        raise SelectionError(f"no key {pattern!r} at step {step or 'any'}", details=[("where", choices_text(pattern, keys))])
    rows = [_row(trace, entry, other, against) for entry in chosen[:MOST_ROWS]]
    here = {(entry.step, entry.key) for entry in trace.entries}
    rows += [
        {"step": str(e.step), "key": e.key, "dtype": f"missing; {against} has {e.dtype}{list(e.shape)}"}
        for e in (other.entries if other else ())
        if (not pattern or matches(e.key, pattern)) and step in (None, e.step) and (e.step, e.key) not in here
    ]
    click.echo(tabulate(rows, headers="keys", disable_numparse=True))
    if len(chosen) > MOST_ROWS:
        click.echo(f"... and {len(chosen) - MOST_ROWS} more; narrow with --key and --step")


def _find(folder: RunFolder, suite: str, label: str) -> Trace:
    root = folder.path / "traces" / suite
    if not root.is_dir():
        known = [path.name for path in sorted((folder.path / "traces").glob("*"))]
        raise SelectionError(f"the run {folder.path} has no suite {suite!r}", details=[("where", choices_text(suite, known))])
    known = sorted(path.name for path in root.iterdir() if is_complete(path))
    if file_name(label) not in known:
        raise SelectionError(
            f"the run {folder.path} has no complete trace of {label!r}",
            details=[("where", choices_text(file_name(label), known))],
        )
    return read_trace(root / file_name(label))


def _row(trace: Trace, entry: Entry, other: Trace | None, against: str) -> dict[str, str]:
    array = trace.read(entry)
    wide = array.astype(np.float64)
    row = {
        "step": str(entry.step),
        "key": entry.key,
        "dtype": f"{entry.dtype}{list(entry.shape)}",
        "norm": f"{np.linalg.norm(wide.ravel()):.9g}",
        "min": f"{wide.min(initial=np.inf):.6g}",
        "max": f"{wide.max(initial=-np.inf):.6g}",
        "first": " ".join(f"{value:.9g}" for value in wide.ravel()[:3]),
    }
    if other is None:
        return row
    twin = next((e for e in other.entries if (e.step, e.key) == (entry.step, entry.key)), None)
    if twin is None:
        return {**row, "max abs": "missing", "max rel": "", "at": ""}
    if twin.dtype != entry.dtype or twin.shape != entry.shape:
        return {**row, "max abs": f"{against} has {twin.dtype}{list(twin.shape)}", "max rel": "", "at": ""}
    found = measure(other.read(twin), array, NOTHING_ALLOWED, key=entry.key, step=entry.step)
    return {**row, "max abs": f"{found.max_abs:.3g}", "max rel": f"{found.max_rel:.3g}", "at": str(found.index or "")}
