"""docs/adding-a-suite.md, done step by step: its suite is short, and its commands end as it says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_blocks import ROOT, Call, blocks, calls_of

from xla_equiv.execute import backends
from xla_equiv.values.suite import ExpectedFailure

DOCUMENT = ROOT / "docs" / "adding-a-suite.md"
NAME = "layernorm_regression"
MOST_LINES = 40


def python_block(start: str) -> str:
    """Return the Python block of the document that contains `start`."""
    return next(block.text for block in blocks(DOCUMENT, "python") if start in block.text)


def write_suite(folder: Path, text: str) -> None:
    path = folder / "suites" / f"{NAME}.py"
    path.parent.mkdir()
    path.write_text(text)


def run(folder: Path, call: Call) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "xla_equiv", *call.arguments],
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_the_suite_is_short() -> None:
    text = python_block("SUITE = Suite(")
    assert len(text.splitlines()) < MOST_LINES
    assert max(map(len, text.splitlines())) <= 120
    assert f"`suites/{NAME}.py`" in DOCUMENT.read_text()


def test_the_walk_ends_as_the_document_says(tmp_path: Path) -> None:
    write_suite(tmp_path, python_block("SUITE = Suite("))
    walk = [call for block in blocks(DOCUMENT, "console") for call in calls_of(block)]
    assert [call.exit_code for call in walk] == [4, 0, 0, 1]
    for call in walk:
        ended = run(tmp_path, call)
        assert ended.returncode == call.exit_code, f"{call}\n{ended.stdout}\n{ended.stderr}"
        if call.arguments[0] == "run":
            for variant in ("loop[cpu]", "loop[xla:cpu]", "while[xla:cpu]"):
                assert variant in ended.stdout
    assert len(list((tmp_path / "golden" / NAME).glob("*.safetensors"))) == 3


def test_the_treatment_of_the_document_agrees_with_the_loop(tmp_path: Path) -> None:
    imports = "from xla_equiv.treatments import StepOutputs, Treatment\n\n"
    candidate = python_block('Variant("big"').strip()
    suite = python_block("SUITE = Suite(").replace("SUITE = Suite(", f"{imports}{python_block('class OneBigBatch')}\nSUITE = Suite(")
    write_suite(tmp_path, suite.replace("candidates=[", f"candidates=[\n        {candidate},"))
    ended = run(tmp_path, Call(("run", NAME, "--backend", "cpu", "-k", "big")))
    assert ended.returncode == 4, ended.stdout + ended.stderr
    assert "NOGOLDEN: layernorm_regression::big[cpu]" in ended.stdout


def test_the_expected_failure_of_the_document_is_one() -> None:
    from xla_equiv import Status

    found = eval(python_block("ExpectedFailure(").strip(), {"ExpectedFailure": ExpectedFailure, "Status": Status})
    assert found.covers("carried/1")
    assert not found.covers("loss")


def test_the_backend_of_the_document_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    import tomlkit

    [point] = [block.text for block in blocks(DOCUMENT, "toml")]
    declared = tomlkit.parse(point).unwrap()["project"]["entry-points"]
    assert list(declared) == [backends.ENTRY_POINT_GROUP]
    namespace: dict[str, type] = {}
    exec(python_block("class NativeCuda"), namespace)
    made = namespace["NativeCuda"]
    assert declared[backends.ENTRY_POINT_GROUP] == {made.name: f"my_package.cuda:{made.__name__}"}

    class Point:
        def load(self) -> type:
            return made

    backends.backends.cache_clear()
    monkeypatch.setattr(backends, "entry_points", lambda *, group: [Point()])
    try:
        backend = backends.find_backend("cuda")
    finally:
        backends.backends.cache_clear()
    monkeypatch.setenv("PATH", "")
    absence = backend.absence()
    assert absence is not None
    assert "nvidia-smi" in absence.reason
    assert {"device", "device_class", "seed", "sync"} <= set(vars(made))
