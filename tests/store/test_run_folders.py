"""Run folders: where a run's files lie, and which folder a name means."""

import os
from pathlib import Path

import pytest

from xla_equiv.store.runs import BIRTH_FILE, DEFAULT_RUNS, RunFolder, choose_run_folder, file_name, find_run_folder
from xla_equiv.values.errors import OutputError, ReportError


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(*names: str) -> None:
    """Make run folders, each a second younger than the one before."""
    for second, name in enumerate(names, start=1_000_000):
        RunFolder(DEFAULT_RUNS / name).create()
        os.utime(DEFAULT_RUNS / name / BIRTH_FILE, (second, second))


def test_file_names_hold_nothing_that_a_platform_refuses() -> None:
    assert file_name("a/b.while[xla:cpu]\\c") == "a-b.while[xla-cpu]-c"


def test_every_test_has_files_of_its_own() -> None:
    folder = RunFolder(Path("run"))
    assert folder.trace("mlp", "while[xla:cpu]") == Path("run/traces/mlp/while[xla-cpu]")
    assert folder.trace("mlp", "while[xla:cpu]", repeat=2) == Path("run/traces/mlp/while[xla-cpu].repeat-2")
    assert folder.verdict("mlp", "while[xla:cpu]") == Path("run/verdicts/mlp/while[xla-cpu].json")
    assert folder.verdict("a", "b--c[cpu]") != folder.verdict("a--b", "c[cpu]")
    assert folder.relative(folder.logs / "0.txt") == "logs/0.txt"


@pytest.mark.parametrize(
    ("used", "says"),
    [("traces", "already holds a run"), ("report.json", "is not empty"), ("notes.txt", "is not empty"), (".hidden", "is not empty")],
)
def test_a_folder_that_holds_anything_is_refused(tmp_path: Path, used: str, says: str) -> None:
    (tmp_path / "run").mkdir()
    assert choose_run_folder(tmp_path / "run").path == tmp_path / "run"
    (tmp_path / "run" / used).mkdir()
    with pytest.raises(OutputError, match=says):
        choose_run_folder(tmp_path / "run")


def test_a_folder_is_claimed_by_one_run_and_shared_by_its_processes(tmp_path: Path) -> None:
    first, second = (choose_run_folder(tmp_path / "run") for _ in range(2))
    first.create()
    with pytest.raises(OutputError, match="is in use by another run"):
        second.create()
    first.create(is_shared=True)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [BIRTH_FILE, "traces"]


def test_without_a_name_the_time_makes_one() -> None:
    folder = choose_run_folder(None)
    assert folder.path.parent == DEFAULT_RUNS
    assert not folder.path.exists()


def test_a_folder_that_cannot_be_made_is_an_error_of_the_house(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("a file")
    with pytest.raises(OutputError, match="cannot write"):
        choose_run_folder(tmp_path / "plain" / "run").create()


def test_a_folder_that_is_made_is_not_taken_into_git(tmp_path: Path) -> None:
    choose_run_folder(tmp_path / "run").create()
    assert (tmp_path / "run" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("last", ["20260103T000000Z-1", "20251231T235959Z-5", "mine"])
def test_the_latest_run_is_the_last_that_was_made(last: str) -> None:
    made("20260102T000000Z-9", "zzz", last)
    assert find_run_folder("latest").path == DEFAULT_RUNS / last


def test_what_changes_in_a_run_later_does_not_make_it_the_latest() -> None:
    made("20260102T000000Z-9", "20260103T000000Z-1")
    (DEFAULT_RUNS / "20260102T000000Z-9" / "report.json").write_text("{}")
    (DEFAULT_RUNS / "no-run").mkdir()
    assert find_run_folder("latest").path == DEFAULT_RUNS / "20260103T000000Z-1"


def test_a_run_is_found_by_its_path_its_name_and_its_report(tmp_path: Path) -> None:
    made("20260102T000000Z-9")
    (tmp_path / "run").mkdir()
    for name in ("run", str(tmp_path / "run"), "run/report.json"):
        assert find_run_folder(name).path.resolve() == tmp_path / "run"
    assert find_run_folder("20260102T000000Z-9").path == DEFAULT_RUNS / "20260102T000000Z-9"


def test_where_nothing_has_run_there_is_no_latest() -> None:
    with pytest.raises(ReportError, match="no run in") as caught:
        find_run_folder("latest")
    assert caught.value.next == "xla-equiv run"


def test_an_unknown_run_is_answered_with_the_closest() -> None:
    made("20260102T000000Z-9")
    with pytest.raises(ReportError, match="no run folder '20260102T000000Z'") as caught:
        find_run_folder("20260102T000000Z")
    assert "did you mean '20260102T000000Z-9'" in str(caught.value)
    with pytest.raises(ReportError, match="valid: 20260102T000000Z-9, latest"):
        find_run_folder("zzz")
