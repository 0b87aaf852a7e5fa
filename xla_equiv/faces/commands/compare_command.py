"""`xla-equiv compare`."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from xla_equiv.execute.session import unmatched
from xla_equiv.faces.failure_text import failure_text
from xla_equiv.faces.options import tolerance_options, tolerance_overrides
from xla_equiv.faces.tolerance_report import tolerance_table
from xla_equiv.measure.attribution import likely_causes
from xla_equiv.measure.compare import compare_traces
from xla_equiv.measure.inputs import stale_findings
from xla_equiv.store.golden import manifest_path, read_golden
from xla_equiv.store.manifest import read_manifest
from xla_equiv.store.report import Report
from xla_equiv.store.traces import read_trace
from xla_equiv.values.errors import GoldenError, SelectionError
from xla_equiv.values.tolerance import ToleranceTable
from xla_equiv.values.trace import Entry, Trace
from xla_equiv.values.verdict import ComparisonKind, Verdict, exit_code

PATH = click.Path(path_type=Path)


@click.command("compare")
@click.argument("reference", type=PATH)
@click.argument("candidate", type=PATH)
@tolerance_options
def command(
    reference: Path,
    candidate: Path,
    rtol: Sequence[str],
    atol: Sequence[str],
    tolerance_path: Path | None,
) -> int:
    """Compare two saved traces: folders under RUN/traces, or goldens (.safetensors).

    Every key and step of both must be on the other side; of a run and a golden, those that the golden keeps.
    Tolerances are the defaults by dtype unless given.
    """
    overrides = tolerance_overrides(rtol, atol, tolerance_path, suites=None)("")
    one, other = _read(reference), _read(candidate)
    problems = unmatched({(level, p) for level, rules in overrides for p in rules}, {*one.keys, *other.keys})
    if problems:
        raise SelectionError("a tolerance is for keys that do not exist", problems=problems)
    found = compare_traces(one, other, ToleranceTable(overrides), kind=ComparisonKind.EQUIVALENCE, against=str(reference), select=_kept(one, other, reference, candidate))
    likely = likely_causes(one, other, found, micro_batches=int(one.facts.settings.get("micro_batches", "1")))
    unlike = tuple(finding.what for finding in stale_findings(one.facts, other.facts))
    found = dataclasses.replace(found, likely=(*unlike, *likely))
    what = found.findings[0].what if found.findings else ""
    verdict = Verdict(test=str(candidate), status=found.status, what=what, comparisons=(found,))
    click.echo(tolerance_table(Report(created="", run="", verdicts=(verdict,), exit_code=exit_code([verdict]))))
    click.echo("" if verdict.is_green else failure_text(verdict))
    click.echo(f"{found.status.value}: {found.compared} tensors compared")
    return exit_code([verdict])


def _kept(one: Trace, other: Trace, reference: Path, candidate: Path) -> Callable[[Entry], bool]:
    """Return which entries are compared: all, or where one side is a golden, those that it keeps."""
    if _is_golden(reference) == _is_golden(candidate):
        return lambda entry: True
    golden = one if _is_golden(reference) else other
    places = {(entry.step, entry.key) for entry in golden.entries}
    return lambda entry: (entry.step, entry.key) in places


def _is_golden(path: Path) -> bool:
    return path.suffix == ".safetensors"


def _read(path: Path) -> Trace:
    if not _is_golden(path):
        return read_trace(path)
    golden = read_golden(path, read_manifest(manifest_path(path)).test)
    if golden is None:
        raise GoldenError(f"no golden at {path}")
    return golden.trace
