"""`xla-equiv run`."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from xla_equiv.execute.backends import find_backend
from xla_equiv.execute.environment import check_pair
from xla_equiv.execute.session import Session
from xla_equiv.execute.suite_files import suite_paths
from xla_equiv.faces.build_report import build_report
from xla_equiv.faces.options import golden_option, suites_option, tolerance_options, tolerance_overrides
from xla_equiv.faces.progress import progress
from xla_equiv.faces.selection import Selection, select
from xla_equiv.faces.terminal import render_terminal, wants_colour
from xla_equiv.store.golden_life import unused_goldens
from xla_equiv.store.report import Report, write_report
from xla_equiv.store.runs import choose_run_folder
from xla_equiv.values.errors import Interrupted, OutputError, SelectionError, XlaEquivError
from xla_equiv.values.plan import Test, expand
from xla_equiv.values.verdict import EXIT_EQUIVALENT, EXIT_GOLDEN, exit_code

MOST_DEFAULT_WORKERS = 4


@click.command("run")
@click.argument("names", nargs=-1, metavar="[SUITE]...")
@click.option("-k", "expression", default="", metavar="EXPR", help="Only tests whose name satisfies EXPR ('llama and not while').")
@click.option("--backend", "backends", multiple=True, metavar="B", help="Only variants on backend B; may be repeated.")
@click.option("--full", "is_full", is_flag=True, help="Also the cases that are left out for their length.")
@tolerance_options
@click.option("--workers", type=click.IntRange(1), default=None, help="Worker processes at a time.  [default: one a core, at most 4]")
@click.option("--repeat", type=click.IntRange(1), default=1, show_default=True, help="Run every test N times; a difference is UNSTABLE.")
@click.option("--out", type=click.Path(path_type=Path), default=None, help="Run folder.  [default: .xla_equiv/runs/TIME]")
@click.option("--json", "json_path", type=click.Path(path_type=Path), default=None, help="Also write the report to this file.")
@suites_option
@golden_option
def command(
    names: Sequence[str],
    expression: str,
    backends: Sequence[str],
    is_full: bool,
    rtol: Sequence[str],
    atol: Sequence[str],
    tolerance_path: Path | None,
    workers: int | None,
    repeat: int,
    out: Path | None,
    json_path: Path | None,
    suites_folder: Path,
    golden_folder: Path,
) -> int:
    """Train the variants of suites and compare them.

    Each candidate is compared with the reference of the same run (equivalence), and every variant with
    its golden (regression, anchor). Nothing is ever written to the goldens.
    """
    chosen = select(suites_folder, names, expression=expression, backends=backends, is_full=is_full)
    overrides = tolerance_overrides(rtol, atol, tolerance_path, suites=[path.stem for path in suite_paths(suites_folder)])
    check_pair({test.variant.backend for test in chosen.tests})
    folder = choose_run_folder(out)
    session = Session(folder=folder, goldens=golden_folder, overrides=overrides, repeat=repeat)
    session.check_goldens(chosen.tests)
    folder.create()
    interrupted = _train(session, chosen.tests, workers or min(os.cpu_count() or 1, MOST_DEFAULT_WORKERS))
    ended = [test for test in chosen.tests if session.has_ended(test)]
    verdicts = [session.verdict(test) for test in ended]
    unused = [] if names else _unused(chosen, golden_folder)
    problem = _problem(session, [test.id for test in chosen.tests if test not in ended], interrupted=interrupted)
    code = exit_code(verdicts)
    code = problem.exit_code if problem else EXIT_GOLDEN if code == EXIT_EQUIVALENT and unused else code
    report = build_report(
        folder,
        verdicts,
        options=_options(names, expression, backends, rtol, atol, tolerance_path, repeat),
        notes=[f"the golden {path} is used by no test" for path in unused],
        unfinished=[test.id for test in chosen.tests if test not in ended],
        code=code,
    )
    unwritten = _write(report, folder.report, json_path)
    click.echo(render_terminal(report, colour=wants_colour(is_terminal=sys.stdout.isatty(), environment=os.environ)))
    if unwritten or problem:
        raise unwritten or problem  # type: ignore[misc]
    return code


def _problem(session: Session, unfinished: Sequence[str], *, interrupted: bool) -> XlaEquivError | None:
    """Return what was wrong with the run as a whole, to be raised once the report is shown and saved."""
    if interrupted:
        return Interrupted(f"{len(unfinished)} tests did not end", next=f"xla-equiv report {session.folder.path}")
    problems = session.unmatched_patterns()
    if problems:
        return SelectionError(
            "a tolerance is for keys that do not exist; the report is saved",
            problems=problems,
            next="xla-equiv show SUITE::VARIANT[BACKEND] lists the keys",
        )
    return None


def _train(session: Session, tests: Sequence[Test], workers: int) -> bool:
    """Run `tests`; return whether the user stopped it."""
    with progress(len(session.runs(tests))) as shown, _terminated_as_interrupted():
        try:
            session.train_all(tests, workers=workers, on_step=shown.step, on_end=shown.end)
        except KeyboardInterrupt:
            return True
    return False


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Treat SIGTERM, as CI services send it, and a closed terminal like Ctrl-C: stop the workers, report what there is."""

    def interrupt(number: int, frame: object) -> None:  # noqa: ARG001 (the signature of a signal handler)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _unused(chosen: Selection, golden_folder: Path) -> list[Path]:
    tests = list(expand(chosen.suites))
    return unused_goldens(golden_folder, tests, lambda name: find_backend(name).device_classes)


def _options(
    names: Sequence[str],
    expression: str,
    backends: Sequence[str],
    rtol: Sequence[str],
    atol: Sequence[str],
    tolerance_path: Path | None,
    repeat: int,
) -> dict[str, str]:
    given = {
        "suites": " ".join(names),
        "-k": expression,
        "--backend": " ".join(backends),
        "--rtol": " ".join(rtol),
        "--atol": " ".join(atol),
        "--tolerances": str(tolerance_path or ""),
        "--repeat": str(repeat) if repeat > 1 else "",
    }
    return {name: text for name, text in given.items() if text}


def _write(report: Report, *paths: Path | None) -> OutputError | None:
    """Write `report` to `paths`; return the first error, to be raised once the report has been shown."""
    errors = []
    for path in paths:
        try:
            if path is not None:
                write_report(report, path)
        except OutputError as error:
            errors.append(error)
    return errors[0] if errors else None
