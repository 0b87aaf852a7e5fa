"""The layout of a run folder, and where run folders lie."""

import datetime
import os
import re
from dataclasses import dataclass
from pathlib import Path

from xla_equiv.store.atomic import write_bytes
from xla_equiv.values.errors import OutputError, ReportError, choices_text

BIRTH_FILE = ".gitignore"
"""Written once, when the folder is made: its time tells which run is the latest."""

DEFAULT_RUNS = Path(".xla_equiv") / "runs"


def file_name(label: str) -> str:
    """Return `label` as a file name that every platform and artifact store takes: no `:` and no `/`."""
    return re.sub(r"[:/\\]", "-", label)


@dataclass(frozen=True)
class RunFolder:
    """One run on disk: traces/, verdicts/, logs/ and report.json."""

    path: Path

    def create(self, *, is_shared: bool = False) -> None:
        """Make the folder, claim it, and tell git to leave it alone.

        Args:
            is_shared: whether other processes of the same run use it too.

        Raises:
            OutputError: it cannot be written, or another run has claimed it.
        """
        write_bytes(self.path / BIRTH_FILE, b"*\n")
        try:
            (self.path / "traces").mkdir(exist_ok=is_shared)
        except FileExistsError as error:
            raise OutputError(f"{self.path} is in use by another run", next="choose another folder") from error

    @property
    def report(self) -> Path:
        """Return the path of the report."""
        return self.path / "report.json"

    @property
    def logs(self) -> Path:
        """Return the folder of the workers' logs."""
        return self.path / "logs"

    @property
    def verdicts(self) -> Path:
        """Return the folder with one file for each verdict."""
        return self.path / "verdicts"

    def trace(self, suite: str, label: str, *, repeat: int = 1) -> Path:
        """Return the folder of a test's trace; `repeat` counts from 1."""
        name = file_name(label) if repeat == 1 else f"{file_name(label)}.repeat-{repeat}"
        return self.path / "traces" / suite / name

    def verdict(self, suite: str, label: str) -> Path:
        """Return the path of a test's verdict."""
        return self.verdicts / suite / f"{file_name(label)}.json"

    def relative(self, path: Path) -> str:
        """Return `path` as it is written in a report: relative to the run folder."""
        return path.relative_to(self.path).as_posix()


def choose_run_folder(path: Path | None) -> RunFolder:
    """Return a fresh run folder at `path`, or at a name made of the time under `.xla_equiv/runs`.

    Raises:
        OutputError: the folder already holds a run, or anything else.
    """
    if path is None:
        stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        path = DEFAULT_RUNS / f"{stamp}-{os.getpid()}"
    if path.is_dir() and any(path.iterdir()):
        what = "already holds a run" if (path / "traces").exists() else "is not empty"
        raise OutputError(f"{path} {what}", next="choose another folder, or remove this one")
    return RunFolder(path)


def find_run_folder(name: str) -> RunFolder:
    """Return the run folder called `name`: a path, a folder under `.xla_equiv/runs`, or 'latest'.

    Raises:
        ReportError: there is no such run.
    """
    runs = sorted(DEFAULT_RUNS.glob(f"*/{BIRTH_FILE}"), key=lambda path: path.stat().st_mtime_ns)
    known = [path.parent.name for path in runs]
    if name == "latest":
        if known:
            return RunFolder(DEFAULT_RUNS / known[-1])
        raise ReportError(f"no run in {DEFAULT_RUNS}", next="xla-equiv run")
    path = Path(name)
    if path.name == "report.json":
        path = path.parent
    for candidate in (path, DEFAULT_RUNS / name):
        if candidate.is_dir():
            return RunFolder(candidate)
    raise ReportError(f"no run folder {name!r}", details=[("where", choices_text(name, [*known, "latest"]))])
