"""`xla-equiv list`."""

import datetime
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from xla_equiv.execute.backends import find_backend
from xla_equiv.execute.suite_files import load_suites, select_paths, suite_paths
from xla_equiv.faces.options import golden_option, suites_option
from xla_equiv.store.golden import golden_path, manifest_path
from xla_equiv.store.manifest import read_manifest
from xla_equiv.values.plan import NamedSuite, Test, expand
from xla_equiv.values.treatment import first_absence

WIDTH = 110


@click.command("list")
@click.argument("names", nargs=-1, metavar="[SUITE]...")
@suites_option
@golden_option
def command(names: tuple[str, ...], suites_folder: Path, golden_folder: Path) -> None:
    """List suites, what each catches, their tests, and the age of each golden."""
    for named in load_suites(select_paths(suite_paths(suites_folder), names)):
        click.echo("\n".join(_suite_lines(named, golden_folder)))


def _suite_lines(named: NamedSuite, golden_folder: Path) -> Iterator[str]:
    yield named.name
    yield from textwrap.wrap(named.summary, WIDTH, initial_indent="  ", subsequent_indent="  ")
    yield from textwrap.wrap(f"Catches: {named.catches}", WIDTH, initial_indent="  ", subsequent_indent="  ")
    for test in expand([named]):
        yield f"    {test.id}  {_remark(test, golden_folder)}"
    yield ""


def _remark(test: Test, golden_folder: Path) -> str:
    if test.skip:
        return f"skipped: {test.skip.why}"
    remarks = ["reference"] if test.is_reference else []
    remarks += ["full: needs --full"] if test.case.full else []
    absence = find_backend(test.variant.backend).absence(test.devices) or first_absence(test.variant.treatments)
    remarks += [f"not available: {absence.reason}"] if absence else []
    if test.expected_failure:
        return ", ".join([*remarks, f"expected failure: {test.expected_failure.why}"])
    return ", ".join([*remarks, _golden_age(test, golden_folder)])


def _golden_age(test: Test, golden_folder: Path) -> str:
    path = golden_path(golden_folder, test, find_backend(test.variant.backend).device_classes)
    stem = path.name.rpartition("[")[0]
    found = [
        other
        for other in path.parent.glob(f"*{path.suffix}")
        if other.name.startswith(f"{stem}[") and other.match(_literal(path.name))
    ]
    if not found:
        return "no golden"
    last = read_manifest(manifest_path(found[0])).journal[-1]
    age = (datetime.date.today() - datetime.date.fromisoformat(last.date)).days
    return f"golden accepted {last.date} ({age} days ago)"


def _literal(name: str) -> str:
    """Return `name` as a pattern in which only `*` is a wildcard."""
    return name.replace("[", "[[]")
