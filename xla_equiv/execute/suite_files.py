"""Loading suite files as data."""

import re
import sys
import traceback
import types
from collections.abc import Iterable, Sequence
from pathlib import Path

from xla_equiv.values.errors import SelectionError, SuiteError, XlaEquivError, choices_text
from xla_equiv.values.plan import NamedSuite
from xla_equiv.values.suite import Suite

EXPORTED_NAME = "SUITE"
EXPORT = re.compile(rf"\b{EXPORTED_NAME}\b")
CATCHES = re.compile(r"^Catches:\s*(.+?)(?:\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)


def is_suite_file(path: Path) -> bool:
    """Return whether `path` speaks of SUITE, in whatever form; the file is read, not run.

    One that cannot be read counts: it is refused when it is loaded, rather than left out silently. Files that
    start with `_` are no suites.
    """
    if path.name.startswith("_"):
        return False
    try:
        return bool(EXPORT.search(path.read_text(errors="replace")))
    except OSError:
        return True


def suite_paths(folder: Path) -> list[Path]:
    """Return the suite files in `folder`, by name.

    Raises:
        SelectionError: there is no such folder, or no suite in it.
    """
    found = [path for path in sorted(folder.glob("*.py")) if is_suite_file(path)]
    if not found:
        raise SelectionError(
            f"no suites in {folder}" if folder.is_dir() else f"no folder {folder}",
            next="change to a folder that has suites/, name one with --suites DIR, or start one: xla-equiv new NAME",
        )
    return found


def select_paths(paths: Sequence[Path], names: Iterable[str]) -> list[Path]:
    """Return those of `paths` whose stems are `names`; all of them when no name is given.

    Raises:
        SelectionError: names without a suite; each with its closest match.
    """
    by_name = {path.stem: path for path in paths}
    wanted = [Path(name).stem if name.endswith(".py") else name for name in names]
    folder = paths[0].parent
    problems = [
        f"{folder / name}.py does not define {EXPORTED_NAME}"
        if (folder / f"{name}.py").exists()
        else f"no suite {name!r}; {choices_text(name, list(by_name))}"
        for name in wanted
        if name not in by_name
    ]
    if problems:
        raise SelectionError("unknown suite" + "s" * (len(problems) > 1), problems=problems, next="xla-equiv list")
    return [by_name[name] for name in dict.fromkeys(wanted)] or list(paths)


def load_suite(path: Path) -> NamedSuite:
    """Return the suite that the file at `path` exports, run afresh.

    The folder above the file's own is importable while it runs, so that suites share models.

    Raises:
        SuiteError: the file raises, exports no Suite, or does not say what it catches.
    """
    path = path.resolve()
    if not path.is_file():
        raise SuiteError(f"no suite file {path.name} in {path.parent.name}")
    root = str(path.parent.parent)
    if root not in sys.path:
        sys.path.insert(0, root)
    module = types.ModuleType(f"xla_equiv_suite_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses with annotations that are put off look themselves up here
    writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # it goes by time and size: not enough
    try:
        exec(compile(path.read_bytes(), path, "exec"), module.__dict__)  # noqa: S102 (a suite is code)
    except (Exception, SystemExit) as error:
        raise _import_error(path, error) from error
    finally:
        sys.dont_write_bytecode = writes_bytecode
    suite = getattr(module, EXPORTED_NAME, None)
    if not isinstance(suite, Suite):
        raise SuiteError(f"{path.name} exports no Suite", details=[("found", f"{EXPORTED_NAME} = {suite!r}")])
    documentation = module.__doc__ or ""
    catches = CATCHES.search(documentation)
    if not catches:
        raise SuiteError(
            f"{path.name} does not say what it catches",
            next="add a paragraph that starts with 'Catches:' to its docstring",
        )
    summary = documentation.strip().partition("\n")[0]
    return NamedSuite(path.stem, str(path), " ".join(catches.group(1).split()), summary, suite)


def _import_error(path: Path, error: BaseException) -> SuiteError:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    line = frames[-1].lineno if frames else getattr(error, "lineno", None)
    text = str(error.headline if isinstance(error, XlaEquivError) else error).splitlines()
    return SuiteError(
        f"{path.name} raises when it is loaded: {type(error).__name__}: {text[0] if text else ''}",
        details=[("where", f"{path.parent.name}/{path.name}:{line}" if line else f"{path.parent.name}/{path.name}")],
        problems=error.problems if isinstance(error, XlaEquivError) else (),
        next=(isinstance(error, XlaEquivError) and error.next) or f"python {path.parent.name}/{path.name}",
    )


def _in_one_line(error: SuiteError) -> str:
    where = dict(error.details).get("where", "")
    return f"{error.headline} ({where})" if where else error.headline


def load_suites(paths: Sequence[Path]) -> list[NamedSuite]:
    """Return the suites of all `paths`.

    Raises:
        SuiteError: what is wrong with each file that cannot be loaded, all at once.
    """
    suites, errors = [], []
    for path in paths:
        try:
            suites.append(load_suite(path))
        except SuiteError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise SuiteError(
            f"{len(errors)} suites cannot be loaded",
            problems=[problem for error in errors for problem in (_in_one_line(error), *error.problems)],
        )
    return suites
