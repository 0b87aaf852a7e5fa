"""`xla-equiv golden`."""

from collections.abc import Sequence
from pathlib import Path

import click
from tabulate import tabulate

from xla_equiv.execute.backends import find_backend
from xla_equiv.execute.outcome import Ending, read_outcome
from xla_equiv.execute.suite_files import load_suites, select_paths, suite_paths
from xla_equiv.faces.options import golden_option, suites_option
from xla_equiv.measure.attribution import provenance_differences
from xla_equiv.store.golden import Golden, golden_files, golden_path, manifest_path, read_golden
from xla_equiv.store.golden_life import Acceptance, accept, delete_golden, propose, unused_goldens
from xla_equiv.store.manifest import read_manifest
from xla_equiv.store.report import Report, read_report
from xla_equiv.store.runs import RunFolder, find_run_folder
from xla_equiv.store.traces import read_trace
from xla_equiv.values.errors import GoldenError, SelectionError
from xla_equiv.values.expression import compile_expression
from xla_equiv.values.plan import Test, expand
from xla_equiv.values.verdict import EXIT_EQUIVALENT, EXIT_GOLDEN, Verdict

OVERRIDING_OPTIONS = ("--rtol", "--atol", "--tolerances")
"""What makes a green say less than the suites ask for."""


@click.group("golden")
def command() -> None:
    """Accept, compare, check and prune goldens."""


@command.command("accept")
@click.argument("run")
@click.option("-k", "expression", default="", metavar="EXPR", help="Only tests whose name satisfies EXPR.")
@click.option("--why", required=True, help="The reason, for the journal.")
@click.option("--force", "forced", default="", metavar="REASON", help="Overrule objections, for this reason.")
@suites_option
@golden_option
def accept_command(run: str, expression: str, why: str, forced: str, suites_folder: Path, golden_folder: Path) -> int:
    """Make the traces of RUN the goldens of their tests. Nothing is trained.

    Refused for a run that failed, has non-finite values or is UNPROVEN: then none of them is accepted.
    """
    if not why.strip():
        raise GoldenError("--why is empty; every golden has a reason")
    folder = find_run_folder(run)
    report = read_report(folder.report)
    proposals = _proposals(folder, report, expression, suites_folder, golden_folder)
    overridden = [f"{option} {report.options[option]}" for option in OVERRIDING_OPTIONS if option in report.options]
    objections = [f"{one.test.id}: {text}" for one in proposals for text in one.objections]
    objections += [f"the run was judged with {text}" for text in overridden]
    if objections and not forced.strip():
        raise GoldenError(
            "nothing is accepted",
            problems=objections,
            next="leave these out with -k 'not ...', or overrule with --force REASON",
        )
    for one in proposals:
        accept(one, why=why, run=folder.path.name, forced=forced if one.objections or overridden else "")
        click.echo(f"accepted {one.test.id} into {one.path}")
    return EXIT_EQUIVALENT


def _proposals(
    folder: RunFolder, report: Report, expression: str, suites_folder: Path, golden_folder: Path
) -> list[Acceptance]:
    satisfies = compile_expression(expression) if expression else lambda name: True
    tests = {test.id: test for test in _all_tests(suites_folder)}
    chosen = [verdict for verdict in report.verdicts if satisfies(verdict.test)]
    verdicts = {verdict.test: verdict for verdict in chosen if _can_have_golden(tests, verdict)}
    gone = [f"{name} is in the report, but in no suite" for name in verdicts if name not in tests]
    if gone or not verdicts:
        without = [f"{verdict.test} is a known fault, or was not run: it has no golden" for verdict in chosen]
        raise SelectionError("nothing to accept", problems=gone or without or [f"no test of the run satisfies {expression!r}"])
    repeat = report.options.get("--repeat", "1")
    reruns = int(repeat) if repeat.isdigit() else 1
    return [_proposal(folder, tests[name], verdict, golden_folder, reruns) for name, verdict in verdicts.items()]


def _can_have_golden(tests: dict[str, Test], verdict: Verdict) -> bool:
    """Return whether the test of `verdict` may have a golden: known failures and absent backends have none."""
    test = tests.get(verdict.test)
    return not verdict.is_skip and (test is None or test.expected_failure is None)


def _proposal(folder: RunFolder, test: Test, verdict: Verdict, golden_folder: Path, reruns: int) -> Acceptance:
    trace_folder = folder.trace(test.named.name, test.label)
    outcome = read_outcome(trace_folder)
    if outcome is None or outcome.ending is not Ending.DONE:
        raise GoldenError(f"{test.id} has no complete trace: {outcome.what if outcome else 'it was not run'}")
    return propose(test, verdict, read_trace(trace_folder), golden_folder, reruns=reruns)


def _all_tests(suites_folder: Path) -> list[Test]:
    return list(expand(load_suites(select_paths(suite_paths(suites_folder), []))))


@command.command("diff")
@click.argument("run", default="latest")
@click.option("-k", "expression", default="", metavar="EXPR", help="Only tests whose name satisfies EXPR.")
@golden_option
def diff_command(run: str, expression: str, golden_folder: Path) -> int:
    """Show how RUN differs from the goldens, key group by key group, and what was installed then and now."""
    folder = find_run_folder(run)
    satisfies = compile_expression(expression) if expression else lambda name: True
    rows: list[dict[str, str]] = []
    notes: list[str] = []
    for verdict in read_report(folder.report).verdicts:
        if not satisfies(verdict.test):
            continue
        for comparison in verdict.comparisons:
            if not comparison.against.startswith("golden"):
                continue
            rows += [
                {
                    "test": verdict.test,
                    "keys": group.group,
                    "status": group.status.value,
                    "margin used": f"{100 * group.measurement.margin:.3g} %",
                    "max abs": f"{group.max_abs:.3g}",
                    "max rel": f"{group.max_rel:.3g}",
                    "first outside": str(group.first_outside or "-"),
                }
                for group in comparison.groups
            ] or [{"test": verdict.test, "keys": "-", "status": comparison.status.value}]
        notes += _provenance_notes(folder, verdict, golden_folder)
    click.echo(tabulate(rows, headers="keys", disable_numparse=True) if rows else "no golden was compared")
    for note in dict.fromkeys(notes):
        click.echo(note)
    changed = any(row["status"] not in ("EXACT", "WITHIN", "DRIFT") for row in rows)
    return EXIT_GOLDEN if changed else EXIT_EQUIVALENT


def _provenance_notes(folder: RunFolder, verdict: Verdict, golden_folder: Path) -> list[str]:
    if not verdict.trace:
        return []
    facts = read_trace(folder.path / verdict.trace).facts
    against = next((c.against for c in verdict.comparisons if c.against.startswith("golden ")), "")
    path = golden_folder / verdict.test.partition("::")[0] / against.removeprefix("golden ")
    if not against or not manifest_path(path).exists():
        return []
    old = read_manifest(manifest_path(path)).provenance
    return [f"{verdict.test}: {text}" for text in provenance_differences(old, facts.provenance)]


@command.command("check")
@suites_option
@golden_option
def check_command(suites_folder: Path, golden_folder: Path) -> int:
    """Check every golden: whole, sealed, used by a test; and that every test that needs one has one."""
    problems = []
    for path in golden_files(golden_folder):
        try:
            golden = _read_any(path)
        except GoldenError as error:
            problems.append(f"{path}: {error.headline}: {dict(error.details).get('because', '')}".rstrip(": "))
            continue
        if not golden.is_sealed:
            problems.append(f"{path}: carries no seal: another tool has rewritten it")
    tests = _all_tests(suites_folder)
    problems += [f"{path}: used by no test (xla-equiv golden prune)" for path in _unused(tests, golden_folder)]
    problems += [f"{test.id}: has no golden" for test in tests if _lacks_golden(test, golden_folder)]
    for problem in problems:
        click.echo(problem)
    click.echo(f"{len(list(golden_files(golden_folder)))} goldens, {len(problems)} problems")
    return EXIT_GOLDEN if problems else EXIT_EQUIVALENT


def _read_any(path: Path) -> Golden:
    golden = read_golden(path, read_manifest(manifest_path(path)).test)
    if golden is None:
        raise GoldenError(f"no golden at {path}")
    return golden


def _unused(tests: Sequence[Test], golden_folder: Path) -> list[Path]:
    return unused_goldens(golden_folder, tests, lambda name: find_backend(name).device_classes)


def _lacks_golden(test: Test, golden_folder: Path) -> bool:
    """Return whether a test on a device class that every machine has lacks its golden."""
    device_class = find_backend(test.variant.backend).device_classes
    if "*" in device_class or test.skip or test.expected_failure:
        return False
    return not golden_path(golden_folder, test, device_class).exists()


@command.command("prune")
@click.option("--yes", "is_confirmed", is_flag=True, help="Delete; without it they are only listed.")
@suites_option
@golden_option
def prune_command(is_confirmed: bool, suites_folder: Path, golden_folder: Path) -> int:
    """List the goldens that no test uses, and delete them with --yes."""
    unused = _unused(_all_tests(suites_folder), golden_folder)
    for path in unused:
        if is_confirmed:
            delete_golden(path)
        click.echo(f"{'deleted' if is_confirmed else 'unused'} {path}")
    click.echo(f"{len(unused)} unused goldens" + ("" if is_confirmed or not unused else "; delete them with --yes"))
    return EXIT_EQUIVALENT if is_confirmed or not unused else EXIT_GOLDEN
