"""Which tests a command is about."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xla_equiv.execute.backends import find_backend
from xla_equiv.execute.suite_files import load_suites, select_paths, suite_paths
from xla_equiv.values.errors import SelectionError, choices_text
from xla_equiv.values.expression import compile_expression
from xla_equiv.values.plan import NamedSuite, Test, expand


@dataclass(frozen=True)
class Selection:
    """The suites that were loaded, and the tests among them that were asked for."""

    suites: Sequence[NamedSuite]
    tests: Sequence[Test]


def select(
    folder: Path,
    names: Sequence[str] = (),
    *,
    expression: str = "",
    backends: Sequence[str] = (),
    is_full: bool = False,
) -> Selection:
    """Return the tests of the suites called `names` (all when empty) that the other conditions leave.

    Args:
        folder: folder of the suites.
        names: suite names.
        expression: the language of `-k`.
        backends: names of backends; empty for all.
        is_full: whether cases marked full are included.

    Raises:
        SelectionError: a name that does not exist, or nothing is left.
        SuiteError: a suite cannot be loaded.
    """
    for backend in backends:
        find_backend(backend)
    satisfies = compile_expression(expression) if expression else lambda name: True
    suites = load_suites(select_paths(suite_paths(folder), names))
    every = [test for test in expand(suites) if test.skip is None]
    _check_backends(every)
    tests = [t for t in every if (is_full or not t.case.full) and satisfies(t.id) and (not backends or t.variant.backend in backends)]
    if not tests:
        hidden = sum(t.case.full for t in every)
        because = f"{hidden} are marked full and need --full" if hidden and not is_full else "-k and --backend leave none"
        names = [test.id if "::" in expression else test.variant.name for test in every]
        where = choices_text(expression, list(dict.fromkeys(names))) if expression else ""
        raise SelectionError(
            f"no test is left of {len(every)}", details=[("because", because), ("where", where)], next="xla-equiv list"
        )
    idle = [one.name for one in suites if names and not any(test.named is one for test in tests)]
    if idle:
        raise SelectionError(
            "no test is left of a suite that was named",
            problems=idle,
            details=[("because", "its cases are marked full and need --full, or -k and --backend leave none")],
            next="xla-equiv list",
        )
    return Selection(suites, tests)


def _check_backends(tests: Sequence[Test]) -> None:
    problems = []
    for test in tests:
        try:
            find_backend(test.variant.backend)
        except SelectionError as error:
            problems.append(f"{test.id}: {dict(error.details)['where']}")
    if problems:
        raise SelectionError("a suite names a backend that does not exist", problems=problems, next="xla-equiv doctor")
    problems = [
        f"{test.id}: {test.variant.backend} has no {test.variant.spread.value}"
        for test in tests
        if test.variant.spread not in find_backend(test.variant.backend).spreads
    ]
    if problems:
        raise SelectionError(
            "a suite spreads replicas in a way that its backend cannot",
            problems=problems,
            next="run the variant on xla:cpu or xla:tpu",
        )
