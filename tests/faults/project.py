"""A folder with suites and goldens, the real command run in it, and what must be true of every run."""

import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from xla_equiv.store.report import Report, read_report
from xla_equiv.values.verdict import Verdict

SUITE_FILES = Path(__file__).parent / "suite_files"
MARK = "XLA_EQUIV_FAULT_TEST"
"""Environment variable that every process started for a project inherits, whatever becomes of its parents."""

DETAIL = re.compile(r"  (- \S.*|[a-z]+ +\S.*| +\.\.\. and \d+ more lines)")


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    def refuses(self, error: str, *texts: str, code: int = 2) -> None:
        """Make sure that it ended with `code` and one message of the house form, of class `error`, with `texts`."""
        assert self.code == code, self.out + self.err
        first, *rest = self.err.strip().splitlines()
        assert first.startswith(f"{error}: "), self.err
        assert [line for line in rest if not DETAIL.fullmatch(line)] == []
        assert [text for text in texts if text not in self.err] == [], self.err

    @property
    def next(self) -> str:
        """Return the command that the message on standard error advises."""
        return re.findall(r"^  next +(.*)$", self.err, re.MULTILINE)[-1]


class Project:
    """A project in the folder `root`, with the suites called `names` from `suite_files`."""

    def __init__(self, root: Path, *names: str) -> None:
        self.root, self.mark = root, uuid.uuid4().hex
        for folder in ("suites", "golden"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        for name in names:
            shutil.copy(SUITE_FILES / f"{name}.py", root / "suites")

    def copy(self, root: Path) -> "Project":
        """Return a project in `root` with the same suites and goldens."""
        for folder in ("suites", "golden"):
            shutil.copytree(self.root / folder, root / folder)
        return Project(root)

    def write(self, name: str, text: str) -> Path:
        """Write the suite file `name`."""
        path = self.root / "suites" / f"{name}.py"
        path.write_text(text)
        return path

    def start(self, *command: str | Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start `python -m` with `command` in the folder of the project, in a process group of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", *map(str, command)],
            cwd=self.root,
            env={**os.environ, MARK: self.mark, **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def end(self, process: subprocess.Popen[str], *, limit_s: float = 180.0) -> Ran:
        """Return how `process` ended; nothing that it started may be left."""
        try:
            out, err = process.communicate(timeout=limit_s)
        finally:
            left = self.processes()
            for one in left:
                one.kill()
        assert left == []
        return Ran(process.returncode, out, err)

    def xla_equiv(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> Ran:
        """Return how `xla-equiv` with `arguments` ended."""
        return self.end(self.start("xla_equiv", *arguments, env=env))

    def run(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> Ran:
        """Return how `xla-equiv run` with `arguments` ended, in one worker: a second costs more than it brings."""
        return self.xla_equiv("run", "--workers", "1", *arguments, env=env)

    def pytest(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> Ran:
        """Return how pytest with `arguments` ended."""
        return self.end(self.start("pytest", "-p", "no:cacheprovider", *arguments, env=env))

    def processes(self) -> list[psutil.Process]:
        """Return what still runs of all that was ever started for this project."""
        found = []
        for process in psutil.process_iter():
            try:
                is_alive = process.status() != psutil.STATUS_ZOMBIE
                if is_alive and process.environ().get(MARK) == self.mark:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def report(self, run: str = "run") -> Report:
        """Return the report in the run folder `run`."""
        return read_report(self.root / run / "report.json")

    def verdicts(self, run: str = "run") -> dict[str, Verdict]:
        """Return the verdicts of the report in the run folder `run`, by test."""
        return {verdict.test: verdict for verdict in self.report(run).verdicts}


def wait_until(is_so: Callable[[], object], *, limit_s: float = 90.0) -> None:
    """Wait until `is_so` returns something true."""
    deadline = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)
