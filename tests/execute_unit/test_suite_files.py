"""Suite files: what is a suite, and what is said of one that cannot be loaded."""

import importlib.util
import os
import py_compile
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from xla_equiv.execute.suite_files import is_suite_file, load_suite, load_suites, select_paths, suite_paths
from xla_equiv.values.errors import SelectionError, SuiteError

GOOD = '''"""A suite.

Catches: gradients lost
between iterations.

More about it.
"""
from xla_equiv import Case, Suite, Variant
from xla_equiv.treatments import LoopedAccumulation

def nothing(*arguments):
    """Return nothing."""

SUITE = Suite(
    case=Case(build=nothing, batch=nothing, loss=nothing, optimizer=nothing, steps=1, micro_batches=1),
    reference=Variant("loop", backend="cpu", treatments=[LoopedAccumulation()]),
    candidates=[Variant("loop", backend="xla:cpu", treatments=[LoopedAccumulation()])],
)
'''


@pytest.fixture(autouse=True)
def import_path() -> Iterator[None]:
    """Forget what loading a suite adds to the path and to the modules."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in [name for name in sys.modules if name not in modules and name.startswith("xla_equiv_suite_")]:
        del sys.modules[name]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "suites").mkdir()
    return tmp_path / "suites"


def write(folder: Path, text: str, name: str = "mine.py") -> Path:
    (folder / name).write_text(text)
    return folder / name


def refused(folder: Path, text: str) -> SuiteError:
    with pytest.raises(SuiteError) as caught:
        load_suite(write(folder, text))
    assert caught.value.exit_code == 2
    assert "mine.py" in caught.value.headline
    return caught.value


def test_a_suite_is_loaded_with_what_its_docstring_says(folder: Path) -> None:
    named = load_suite(write(folder, GOOD))
    assert (named.name, named.summary) == ("mine", "A suite.")
    assert named.catches == "gradients lost between iterations."
    assert named.suite.candidates[0].backend == "xla:cpu"
    assert named.path == str((folder / "mine.py").resolve())


def test_a_suite_is_run_afresh_each_time(folder: Path) -> None:
    path = write(folder, GOOD)
    assert load_suite(path).suite is not load_suite(path).suite
    assert load_suite(write(folder, GOOD.replace("steps=1", "steps=7"))).suite.case.steps == 7  # type: ignore[union-attr]


def test_suites_share_models_of_the_folder_above(folder: Path) -> None:
    (folder.parent / "shared_models_of_a_test.py").write_text("STEPS = 5\n")
    text = GOOD.replace("from xla_equiv import", "from shared_models_of_a_test import STEPS\nfrom xla_equiv import", 1)
    assert load_suite(write(folder, text.replace("steps=1", "steps=STEPS"))).suite.case.steps == 5  # type: ignore[union-attr]
    sys.modules.pop("shared_models_of_a_test")


def test_a_suite_may_hold_dataclasses_with_annotations_that_are_put_off(folder: Path) -> None:
    lines = ["from __future__ import annotations", "from dataclasses import dataclass", "@dataclass", "class Options:", "    width: int = 3"]
    text = GOOD.replace("from xla_equiv import", "\n".join([*lines, "from xla_equiv import"]), 1)
    assert load_suite(write(folder, text)).name == "mine"


def test_a_syntax_error_is_placed(folder: Path) -> None:
    error = refused(folder, GOOD + "\ndef broken(:\n")
    assert "raises when it is loaded: SyntaxError" in error.headline
    assert dict(error.details)["where"] == f"suites/mine.py:{len(GOOD.splitlines()) + 2}"
    assert error.next == "python suites/mine.py"


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("raise ValueError('no data')", "ValueError: no data"),
        ("import no_such_module_at_all", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise ValueError('first\\nsecond')", "ValueError: first"),
        ("raise ValueError", "ValueError: "),
        ("assert False", "AssertionError: "),
        ("open('/no/such/file/at/all')", "FileNotFoundError: [Errno 2]"),
        ("def f(): f()\nf()", "RecursionError: maximum recursion"),
    ],
)
def test_an_import_that_raises_is_placed(folder: Path, statement: str, text: str) -> None:
    error = refused(folder, f"{GOOD}\n{statement}\n")
    assert f"mine.py raises when it is loaded: {text}" in error.headline
    assert dict(error.details)["where"].startswith(f"suites/mine.py:{len(GOOD.splitlines()) + 2}")
    assert "\n" not in error.headline


def test_the_problems_of_an_impossible_case_are_listed(folder: Path) -> None:
    error = refused(folder, GOOD.replace("steps=1, micro_batches=1", "steps=0, micro_batches=0"))
    assert "SuiteError: a Case is impossible" in error.headline
    assert [problem.partition(":")[0] for problem in error.problems] == ["steps", "micro_batches"]


def test_ctrl_c_is_no_fault_of_a_suite(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        load_suite(write(folder, "raise KeyboardInterrupt"))


@pytest.mark.parametrize(("text", "found"), [('"""Nothing."""', "None"), ("SUITE = 3", "3"), ("SUITE: dict = {}", "{}"), ("SUITE = None", "None")])
def test_a_file_that_exports_no_suite_is_refused(folder: Path, text: str, found: str) -> None:
    error = refused(folder, text)
    assert "exports no Suite" in error.headline
    assert dict(error.details)["found"] == f"SUITE = {found}"


@pytest.mark.parametrize("docstring", ["", '"""A suite."""', '"""A suite. Catches: nothing."""', '"""Catch: nothing."""'])
def test_a_suite_that_does_not_say_what_it_catches_is_refused(folder: Path, docstring: str) -> None:
    body = GOOD.partition('"""\nfrom')[2]
    error = refused(folder, f"{docstring}\nfrom{body}")
    assert "does not say what it catches" in error.headline
    assert "Catches:" in error.next


def test_a_file_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(SuiteError, match=r"no suite file none\.py in suites"):
        load_suite(folder / "none.py")


def test_several_suites_that_cannot_be_loaded_are_all_named(folder: Path) -> None:
    paths = [write(folder, text, f"{name}.py") for name, text in (("a", "SUITE = 1"), ("b", GOOD), ("c", "SUITE = 1/0"))]
    with pytest.raises(SuiteError, match="2 suites cannot be loaded") as caught:
        load_suites(paths)
    first, second = caught.value.problems
    assert first.startswith("a.py exports no Suite")
    assert second.startswith("c.py raises when it is loaded: ZeroDivisionError: division by zero")
    with pytest.raises(SuiteError, match=r"a\.py exports no Suite"):
        load_suites(paths[:2])
    assert [named.name for named in load_suites(paths[1:2])] == ["b"]


@pytest.mark.parametrize(
    ("text", "is_suite"),
    [
        ("SUITE = 3", True),
        ("SUITE: Suite = 3", True),
        ("x = 1\nSUITE=3", True),
        ("def f():\n    SUITE = 3", True),
        ("SUITES = 3", False),
        ("# SUITE = 3", True),
        ("print(SUITE)", True),
        ("SUITE", True),
        ("MY_SUITE = 3", False),
        ("from others import SUITE", True),
        ("globals()['SUITE'] = 3", True),
        ("", False),
        ("raise ValueError\nSUITE = 3", True),
    ],
)
def test_a_suite_file_is_told_from_others_without_running_it(folder: Path, text: str, is_suite: bool) -> None:
    assert is_suite_file(write(folder, text)) is is_suite


def test_files_that_cannot_be_read_count_so_that_they_are_refused(folder: Path) -> None:
    (folder / "binary.py").write_bytes(b"\xff\xfe\x00")
    assert not is_suite_file(folder / "binary.py")
    (folder / "gone.py").symlink_to(folder / "nowhere.py")
    (folder / "folder.py").mkdir()
    assert [path.name for path in suite_paths(folder)] == ["folder.py", "gone.py"]
    with pytest.raises(SuiteError, match=r"no suite file gone\.py|2 suites cannot be loaded"):
        load_suites(suite_paths(folder))


def test_the_suites_of_a_folder_come_by_name(folder: Path) -> None:
    for name in ("b.py", "a.py", "c.txt", "d.py"):
        write(folder, "x = 1" if name == "d.py" else "SUITE = 3", name)
    (folder / "models").mkdir()
    write(folder / "models", "SUITE = 3")
    assert [path.name for path in suite_paths(folder)] == ["a.py", "b.py"]


def test_a_folder_without_suites_is_refused_with_what_to_do(folder: Path) -> None:
    with pytest.raises(SelectionError, match="no suites in") as caught:
        suite_paths(folder)
    assert "xla-equiv new" in caught.value.next
    with pytest.raises(SelectionError, match="no folder"):
        suite_paths(folder / "none")


PATHS = [Path("suites", f"{name}.py") for name in ("llama_accumulation", "mlp_accumulation", "published_mlp")]


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        ([], [0, 1, 2]),
        (["mlp_accumulation"], [1]),
        (["published_mlp", "mlp_accumulation", "published_mlp"], [2, 1]),
        (["mlp_accumulation.py"], [1]),
        (["suites/mlp_accumulation.py"], [1]),
    ],
)
def test_suites_are_chosen_by_name(names: list[str], chosen: list[int]) -> None:
    assert select_paths(PATHS, names) == [PATHS[number] for number in chosen]


def test_every_unknown_name_is_answered_with_the_closest() -> None:
    with pytest.raises(SelectionError, match="unknown suites") as caught:
        select_paths(PATHS, ["mlp_acumulation", "mlp_accumulation", "zzz"])
    first, second = caught.value.problems
    assert first.startswith("no suite 'mlp_acumulation'; did you mean 'mlp_accumulation'? valid: llama_acc")
    assert second.startswith("no suite 'zzz'; valid: ")
    assert caught.value.next == "xla-equiv list"
    with pytest.raises(SelectionError, match="unknown suite") as caught:
        select_paths(PATHS, ["zzz"])
    assert caught.value.headline == "unknown suite"


def test_the_source_is_run_and_not_the_bytecode_of_an_older_one(folder: Path) -> None:
    """Bytecode is taken for that of its source by time and size; both can be equal after an edit."""
    path = write(folder, GOOD)
    cached = importlib.util.cache_from_source(str(path))
    py_compile.compile(str(path), cached, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
    before = path.stat()
    write(folder, GOOD.replace("gradients lost", "gradients kept"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_mtime_ns, path.stat().st_size) == (before.st_mtime_ns, before.st_size)
    assert load_suite(path).catches == "gradients kept between iterations."


def test_loading_a_suite_leaves_no_bytecode_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    write(folder.parent, "VALUE = 1", "shared_by_suites_of_this_test.py")
    load_suite(write(folder, GOOD.replace("def nothing", "import shared_by_suites_of_this_test\n\ndef nothing")))
    del sys.modules["shared_by_suites_of_this_test"]
    assert list(folder.parent.rglob("*.pyc")) == []
    assert not sys.dont_write_bytecode
    refused(folder, "raise ValueError")
    assert not sys.dont_write_bytecode
