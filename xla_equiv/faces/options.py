"""Options that several commands share, and what they mean."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from xla_equiv.store.tolerance_file import ToleranceFile, read_tolerance_file
from xla_equiv.values.errors import ToleranceError
from xla_equiv.values.tolerance import Level, Tolerance, tolerance_problems

Function = TypeVar("Function", bound=Callable[..., Any])
Overrides = Sequence[tuple[Level, Mapping[str, Tolerance]]]

EVERY_KEY = "*"
COMMAND_LINE_REASON = "given on the command line"


def suites_option(function: Function) -> Function:
    """Add `--suites DIR`."""
    return click.option(
        "--suites",
        "suites_folder",
        type=click.Path(path_type=Path),
        default=Path("suites"),
        show_default=True,
        help="Folder of the suites.",
    )(function)


def golden_option(function: Function) -> Function:
    """Add `--golden DIR`."""
    return click.option(
        "--golden",
        "golden_folder",
        type=click.Path(path_type=Path),
        default=Path("golden"),
        show_default=True,
        help="Folder of the goldens.",
    )(function)


def tolerance_options(function: Function) -> Function:
    """Add `--rtol`, `--atol` and `--tolerances`."""
    for option in (
        click.option(
            "--tolerances",
            "tolerance_path",
            type=click.Path(path_type=Path),
            help="TOML file of tolerances, stronger than the suites'.",
        ),
        click.option("--atol", multiple=True, metavar="X | PATTERN=X", help="Absolute tolerance, for all keys or for a pattern."),
        click.option("--rtol", multiple=True, metavar="X | PATTERN=X", help="Relative tolerance, for all keys or for a pattern."),
    ):
        function = option(function)
    return function


def command_line_tolerances(rtol: Sequence[str], atol: Sequence[str]) -> dict[str, Tolerance]:
    """Return key pattern -> Tolerance from texts such as `1e-3` and `grad/*=1e-3`.

    Raises:
        ToleranceError: what is wrong with each text.
    """
    parts: dict[str, dict[str, float]] = {}
    problems = []
    for name, texts in (("rtol", rtol), ("atol", atol)):
        for text in texts:
            pattern, has_pattern, number = text.rpartition("=")
            try:
                value = float(number)
            except ValueError:
                value = math.nan
            faults = tolerance_problems(**{"rtol": None, "atol": None, name: value})
            if faults:
                problems.append(f"--{name} {text}: {number!r} is not a finite number of at least 0")
            part = parts.setdefault(pattern if has_pattern else EVERY_KEY, {})
            if name in part:
                problems.append(f"--{name} {text}: given twice for {pattern or 'all keys'}")
            part[name] = value
    if problems:
        raise ToleranceError("impossible tolerance on the command line", problems=problems)
    return {pattern: Tolerance(**part, why=COMMAND_LINE_REASON) for pattern, part in parts.items()}  # type: ignore[arg-type]


def tolerance_overrides(
    rtol: Sequence[str], atol: Sequence[str], path: Path | None, *, suites: Sequence[str] | None
) -> Callable[[str], Overrides]:
    """Return suite name -> what the command line and the tolerance file say, the strongest first."""
    command_line = command_line_tolerances(rtol, atol)
    file = read_tolerance_file(path, suites=suites) if path else ToleranceFile()
    return lambda suite: ((Level.COMMAND_LINE, command_line), *((Level.FILE, part) for part in file.for_suite(suite)))
