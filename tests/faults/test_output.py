"""Folders and files that cannot be written: said before anything is trained, or without losing what is recorded."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from project import Project, Ran

from xla_equiv.store.runs import choose_run_folder
from xla_equiv.values.errors import OutputError
from xla_equiv.values.verdict import Status

Make = Callable[..., Project]


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Return what mounts a file system in memory with the options that are given."""
    folders: list[Path] = []

    def mount(options: str) -> Path:
        folder = tmp_path / f"mounted-{len(folders)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            pytest.skip("mounting a file system needs rights that this user does not have")
        folders.append(folder)
        return folder

    yield mount
    for folder in folders:
        subprocess.run(["umount", str(folder)], check=True)


def files(folder: Path) -> list[str]:
    """Return what lies under `folder`, as relative paths."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_folder_below_a_file_is_refused_before_anything_is_trained(project: Make) -> None:
    made = project("tiny")
    (made.root / "file").write_text("kept")
    for out in ("file", "file/run"):
        made.run("--out", out).refuses("OutputError", f"cannot write {out}/.gitignore: ", "--out DIR")
    assert (made.root / "file").read_text() == "kept"


def test_a_folder_that_holds_a_run_is_refused_and_kept(accepted_project: Project) -> None:
    before = files(accepted_project.root / "run")
    accepted_project.run("--out", "run").refuses("OutputError", "run already holds a run")
    assert files(accepted_project.root / "run") == before


def test_a_folder_that_holds_anything_is_refused_and_kept(project: Make) -> None:
    made = project("tiny")
    (made.root / ".gitignore").write_text("mine\n")
    before = files(made.root)
    made.run("--out", ".").refuses("OutputError", ". is not empty", "choose another folder")
    ran = made.pytest("suites", "--xe-report", ".")
    assert ran.code in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR)
    assert "OutputError: . is not empty" in ran.out + ran.err
    assert (made.root / ".gitignore").read_text() == "mine\n"
    assert [path for path in files(made.root) if "__pycache__" not in path] == before


def test_an_empty_folder_is_taken(project: Make) -> None:
    made = project("tiny")
    (made.root / "run").mkdir()
    assert made.run("--out", "run").code == 4
    assert len(made.verdicts()) == 2


def test_of_two_runs_into_one_folder_at_once_one_is_refused(project: Make) -> None:
    made = project("tiny")
    both = [made.start("xla_equiv", "run", "--workers", "1", "--out", "run") for _ in range(2)]
    ended = [process.communicate(timeout=180) for process in both]
    codes = [process.returncode for process in both]
    assert sorted(codes) == [2, 4], ended
    refused = Ran(2, *ended[codes.index(2)])
    refused.refuses("OutputError", "run ", "choose another folder")
    assert refused.out == ""
    assert {verdict.status for verdict in made.verdicts().values()} == {Status.NOGOLDEN}


def test_a_folder_that_another_run_has_claimed_is_refused(tmp_path: Path) -> None:
    first, second = choose_run_folder(tmp_path / "run"), choose_run_folder(tmp_path / "run")
    first.create()
    with pytest.raises(OutputError, match="in use by another run"):
        second.create()
    second.create(is_shared=True)


def test_a_read_only_folder_is_refused_before_anything_is_trained(
    project: Make, mounted: Callable[[str], Path], tmp_path: Path
) -> None:
    made = project("tiny")
    if os.geteuid() == 0:
        folder = mounted("ro,size=64k")
    else:
        folder = tmp_path / "locked"
        folder.mkdir(mode=0o555)
    made.run("--out", folder / "run").refuses("OutputError", "cannot write ", "run/.gitignore: ")
    assert list(folder.iterdir()) == []


def test_a_full_disk_is_refused_before_anything_is_trained(project: Make, mounted: Callable[[str], Path]) -> None:
    made, folder = project("tiny"), mounted("size=16k")
    with pytest.raises(OSError, match="No space left"):
        (folder / "filler").write_bytes(b"0" * 2**16)
    made.run("--out", folder / "run").refuses("OutputError", "No space left on device")
    assert files(folder) == ["filler"]


def test_a_disk_that_fills_up_leaves_whole_files_only(project: Make, mounted: Callable[[str], Path]) -> None:
    made, folder = project("large"), mounted("size=20m")
    ran = made.run("--out", folder / "run")
    assert (ran.code, ran.err) == (3, "")
    verdicts = made.verdicts(str(folder / "run"))
    large = verdicts["large::large[cpu]"]
    assert (large.status, large.attempts) == (Status.CRASHED, 1)
    assert large.what.startswith("cannot write ")
    assert large.what.endswith("step-00003.safetensors: No space left on device")
    assert verdicts["large::loop[cpu]"].status is Status.NOGOLDEN
    assert [path for path in files(folder) if path.endswith(".part")] == []
    kept = [path for path in files(folder) if "large[cpu]/" in path]
    assert [Path(path).name for path in kept] == ["step-00001.safetensors", "step-00002.safetensors"]


@pytest.mark.parametrize("target", ["file/r.json", "/dev/full/r.json"])
def test_a_report_that_cannot_be_written_elsewhere_is_still_shown_and_saved(accepted: Project, target: str) -> None:
    (accepted.root / "file").write_text("kept")
    ran = accepted.run("--json", target, "--out", "run")
    ran.refuses("OutputError", f"cannot write {target}: ")
    assert "2 equivalent" in ran.out
    assert len(accepted.report().verdicts) == 2


@pytest.mark.parametrize("option", ["--markdown", "--json", "--tolerances-markdown", "--tolerances-json"])
def test_a_rendering_that_cannot_be_written_is_refused(accepted_project: Project, option: str) -> None:
    (accepted_project.root / "file").write_text("kept")
    ran = accepted_project.xla_equiv("report", "run", option, "file/out")
    ran.refuses("OutputError", "cannot write file/out: ")


def test_accepting_into_a_folder_that_cannot_be_written_changes_nothing(accepted_project: Project) -> None:
    (accepted_project.root / "file").write_text("kept")
    ran = accepted_project.xla_equiv("golden", "accept", "run", "--why", "x", "--golden", "file")
    ran.refuses("OutputError", "cannot write file/tiny/")
    assert (accepted_project.root / "file").read_text() == "kept"


def test_a_terminal_that_is_full_does_not_look_like_a_difference(accepted_project: Project) -> None:
    command = [sys.executable, "-m", "xla_equiv", "report", "run"]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(command, cwd=accepted_project.root, stdout=full, stderr=subprocess.PIPE, check=False)
    assert ran.returncode == 3


def test_a_reader_that_goes_away_is_no_error_of_ours(accepted_project: Project) -> None:
    process = accepted_project.start("xla_equiv", "list")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
    assert process.wait() in (0, 2)
