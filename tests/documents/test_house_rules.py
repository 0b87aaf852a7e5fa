"""Layers, sizes, names, imports and paths: what holds for every file of the project."""

import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
from markdown_blocks import ROOT

MOST_LINES = 300
MOST_GOLDEN_BYTES = 5_000_000
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "core", "manager", "managers", "misc"}
CODE = sorted(path for folder in ("xla_equiv", "suites") for path in (ROOT / folder).rglob("*.py"))
MACHINE_PATH = re.compile(rb"(?<![\w.:/~$}-])/(?:root|work|Users/\w+|home/(?!runner\b)\w+)/")
HEAVY = {"torch", "torch_xla", "numpy", "pydantic", "rich"}


def python(*arguments: str) -> str:
    """Return what a fresh interpreter prints."""
    ended = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return ended.stdout


def project_files() -> list[Path]:
    """Return the files that are tracked, or would be."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def test_the_layers_hold(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from importlinter.cli import lint_imports

    monkeypatch.chdir(ROOT)
    code = lint_imports(no_cache=True)
    assert code == 0, capsys.readouterr().out


@pytest.mark.parametrize("path", CODE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_modules_are_short_and_named_for_what_they_hold(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES
    assert not FORBIDDEN_NAMES & set(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import xla_equiv", {"numpy"}),
        ("import xla_equiv.treatments", {"numpy"}),
        ("import xla_equiv.faces.pytest_plugin", set()),
        ("from xla_equiv.faces.cli import cli; cli.main(['--help'], standalone_mode=False)", set()),
        ("from xla_equiv.faces.cli import cli; cli.main(['run', '--help'], standalone_mode=False)", HEAVY - {"torch", "torch_xla"}),
    ],
    ids=["package", "treatments", "plugin", "help", "help of run"],
)
def test_light_imports_stay_light(code: str, allowed: set[str]) -> None:
    loaded = python("-c", f"{code}\nimport sys; print(); print(*sys.modules)").splitlines()[-1].split()
    assert not {name.partition(".")[0] for name in loaded} & HEAVY - allowed


@pytest.mark.parametrize(
    ("code", "yardstick", "most"),
    [
        ("import xla_equiv.faces.pytest_plugin", "import pytest", 1.5),
        ("from xla_equiv.faces.cli import cli; cli.main(['--help'], standalone_mode=False)", "import click", 2.5),
    ],
    ids=["plugin", "help"],
)
def test_starting_costs_little_more_than_what_it_is_made_of(code: str, yardstick: str, most: float) -> None:
    ratios = []
    for _ in range(7):
        started = time.perf_counter()
        python("-c", code)
        between = time.perf_counter()
        python("-c", yardstick)
        ratios.append((between - started) / (time.perf_counter() - between))
    assert statistics.median(ratios) <= most


def test_goldens_are_small() -> None:
    assert sum(path.stat().st_size for path in (ROOT / "golden").rglob("*") if path.is_file()) <= MOST_GOLDEN_BYTES


def test_no_file_names_a_machine() -> None:
    found = {path.relative_to(ROOT).as_posix(): MACHINE_PATH.findall(path.read_bytes()) for path in project_files()}
    assert {name: paths for name, paths in found.items() if paths} == {}
