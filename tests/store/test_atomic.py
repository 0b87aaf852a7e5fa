"""A file holds its old content or its new content, whatever happens while it is written."""

import errno
import os
from pathlib import Path

import pytest

from xla_equiv.store.atomic import write_bytes
from xla_equiv.values.errors import OutputError

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("data", [b"", b"new", bytes(range(256)) * 1000])
def test_content_is_replaced_and_folders_are_made(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a" / "b" / "file"
    for _ in range(2):
        write_bytes(path, data)
        assert path.read_bytes() == data
    assert [one.name for one in path.parent.iterdir()] == ["file"]
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("error", [FULL, OSError(errno.EIO, "broken disk"), OSError("without a number"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", ["replace", "fsync", "chmod"])
def test_a_failing_write_leaves_the_old_content_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: BaseException
) -> None:
    path = tmp_path / "file"
    write_bytes(path, b"old")

    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OutputError if isinstance(error, OSError) else KeyboardInterrupt):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_is_an_error_of_the_house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise FULL

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OutputError, match="No space left on device") as caught:
        write_bytes(tmp_path / "file", b"new")
    assert str(tmp_path / "file") in caught.value.headline
    assert "--out" in caught.value.next
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_an_error_of_the_house(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("a file")
    for path in (tmp_path / "plain" / "file", tmp_path / "plain" / "deep" / "file"):
        with pytest.raises(OutputError, match="cannot write"):
            write_bytes(path, b"new")
    assert (tmp_path / "plain").read_text() == "a file"


def test_a_folder_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match="cannot write"):
        write_bytes(tmp_path / "folder", b"new")
    assert [one.name for one in tmp_path.iterdir()] == ["folder"]
