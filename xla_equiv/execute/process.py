"""One worker process: started in a group of its own, timed, killed as a whole."""

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from xla_equiv.execute.backends import find_backend
from xla_equiv.execute.graphs import dump_flags
from xla_equiv.execute.groups import Group
from xla_equiv.execute.protocol import EVENTS_FD, HLO_FOLDER, Event, Job, parse, send
from xla_equiv.store.atomic import write_bytes

START_LIMIT_S = 180.0
"""Importing torch and torch_xla takes 4 to 6 s; a cold disk and two cores in use take a multiple."""

CLOSE_LIMIT_S = 10.0

FATAL = re.compile(r"^\S+ \S+: F \S+\] (?:\[id=\d+\] )?(.*)$", re.MULTILINE)
"""A fatal message of XLA's own log."""

STUCK = "replicas waited for each other: one left early, or their graphs differ, as when one holds a Python number of its own"
"""What is behind a rendezvous that ends a process."""


class WorkerDied(Exception):
    """The process ended in the middle of something. The text says how."""


class WorkerHung(Exception):
    """The process did not answer within its time limit."""


class WorkerProcess:
    """A running worker, for one group of tests.

    Args:
        group: what its tests have in common.
        log: file that receives everything the worker prints.
    """

    def __init__(self, group: Group, log: Path) -> None:
        backend = find_backend(group.backend)
        self.log = log
        write_bytes(log, b"")
        self._hlo_folder = tempfile.mkdtemp(prefix="hlo-", dir=log.parent)
        read_end, write_end = os.pipe()
        variables = {
            **os.environ,
            **backend.process_env(group.spread, group.devices),
            **dict(group.env),
            EVENTS_FD: str(write_end),
        }
        if "torch_xla" in backend.packages:
            variables[HLO_FOLDER] = self._hlo_folder
            variables["XLA_FLAGS"] = dump_flags(Path(self._hlo_folder).resolve(), variables.get("XLA_FLAGS", ""))
        python = group.interpreter or sys.executable
        try:
            with log.open("ab") as output:
                self._process = subprocess.Popen(
                    [python, "-m", "xla_equiv.execute.worker", backend.name, group.spread.value],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    env=variables,
                    pass_fds=(write_end,),
                    start_new_session=True,
                    text=True,
                )
        except OSError as error:
            os.close(read_end)
            shutil.rmtree(self._hlo_folder, ignore_errors=True)
            raise WorkerDied(f"{python} could not be started: {error.strerror}") from error
        finally:
            os.close(write_end)
        self._events = read_end
        self._pending = b""

    def wait_ready(self) -> Event:
        """Return the first event, "ready" or "failed"."""
        return self._next_event(time.monotonic() + START_LIMIT_S, START_LIMIT_S)

    def run(self, job: Job, *, limit_s: float, on_step: Callable[[Event], None]) -> Event:
        """Run `job` and return its last event, "done" or "failed".

        Raises:
            WorkerDied: the process ended.
            WorkerHung: the job took longer than `limit_s` seconds.
        """
        deadline = time.monotonic() + limit_s
        assert self._process.stdin is not None
        try:
            send(self._process.stdin, job)
        except OSError as error:
            raise WorkerDied(self._how_it_ended()) from error
        while True:
            event = self._next_event(deadline, limit_s)
            if event.kind != "step":
                return event
            on_step(event)

    def _next_event(self, deadline: float, limit_s: float) -> Event:
        while b"\n" not in self._pending:
            readable, _, _ = select.select([self._events], [], [], max(deadline - time.monotonic(), 0.0))
            if not readable:
                raise WorkerHung(f"no result within its limit of {limit_s:g} s")
            data = os.read(self._events, 65536)
            if not data:
                raise WorkerDied(self._how_it_ended())
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return Event(**parse(line))

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(CLOSE_LIMIT_S)
        except subprocess.TimeoutExpired:
            return "the worker closed its events and went on"
        if code >= 0:
            return f"the worker ended with exit code {code}"
        name = signal.Signals(-code).name
        hint = ", as the kernel does when memory runs out" if name == "SIGKILL" else ""
        return f"the worker was ended by {name}{hint}{self._last_words()}"

    def _last_words(self) -> str:
        """Return what native code wrote before it ended the process, and what it means; '' when it wrote nothing."""
        said = FATAL.findall(self.log.read_text(errors="replace"))
        if not said:
            return ""
        return f": {STUCK}; XLA: {said[-1]}" if "Rendezvous" in said[-1] else f": {said[-1]}"

    def kill(self) -> None:
        """Kill the worker and everything it started. Whoever waits for it is told that it died."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the worker, by closing its input and, if that is not enough, by killing it; then clean up."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_LIMIT_S)
        self.kill()
        self._process.wait()
        os.close(self._events)
        shutil.rmtree(self._hlo_folder, ignore_errors=True)
