"""New suites, written from a template."""

import keyword
from importlib.resources import files
from pathlib import Path
from string import Template

from xla_equiv.store.atomic import write_bytes
from xla_equiv.values.errors import OutputError, SelectionError


def new_suite(name: str, folder: Path) -> Path:
    """Return the path of a new suite `name` in `folder`, ready to run.

    Args:
        name: what the suite is called; becomes the name of its file.
        folder: where suites lie; made when it is not there.

    Raises:
        SelectionError: `name` is no name for a suite.
        OutputError: the file is there already, or cannot be written.
    """
    problem = _name_problem(name)
    if problem:
        raise SelectionError(f"no suite can be called {name!r}: {problem}", next="xla-equiv new my_model")
    path = folder / f"{name}.py"
    if path.exists():
        raise OutputError(f"{path} is there already", next="choose another name, or remove the file first")
    template = (files("xla_equiv.faces") / "templates" / "suite.py.txt").read_text(encoding="utf-8")
    write_bytes(path, Template(template).substitute(name=name).encode())
    return path


def _name_problem(name: str) -> str:
    if not (name.isidentifier() and name.isascii()):
        return "a name has letters, digits and '_', and starts with a letter"
    if keyword.iskeyword(name):
        return "it is a keyword of Python"
    if name.startswith("_"):
        return "files that start with '_' are no suites"
    return ""
