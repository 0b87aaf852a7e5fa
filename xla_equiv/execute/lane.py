"""A lane: runs one test after the other, each in a worker of its group, and retries what befell a process."""

import itertools
import shutil
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from xla_equiv.execute.backends import find_backend
from xla_equiv.execute.groups import Group, group_of
from xla_equiv.execute.outcome import Ending, Outcome
from xla_equiv.execute.process import WorkerDied, WorkerHung, WorkerProcess
from xla_equiv.execute.protocol import Event, Job
from xla_equiv.store.runs import RunFolder, file_name
from xla_equiv.values.plan import Test
from xla_equiv.values.stages import Stage
from xla_equiv.values.treatment import first_absence

OnStep = Callable[[Test, Event], None]


@dataclass(frozen=True)
class Run:
    """One execution of one test; `repeat` counts from 1."""

    test: Test
    repeat: int = 1

    def trace(self, folder: RunFolder) -> Path:
        """Return the folder of its trace."""
        return folder.trace(self.test.named.name, self.test.label, repeat=self.repeat)


class Lane:
    """One test at a time; the workers of the last groups are kept for the next tests of those groups.

    Args:
        folder: the run folder.
        name: distinguishes the logs of lanes that run side by side.
        most_workers: how many workers, of different groups, are kept.
        on_step: told about every step of every test.
    """

    def __init__(
        self,
        folder: RunFolder,
        *,
        name: str = "0",
        most_workers: int = 1,
        on_step: OnStep = lambda test, event: None,
    ) -> None:
        self._folder, self._name, self._most_workers, self._on_step = folder, name, most_workers, on_step
        self._workers: dict[Group, WorkerProcess] = {}
        self._unusable: dict[Group, Outcome] = {}
        self._log_numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._is_stopped = False
        self._last_log = ""

    @property
    def is_stopped(self) -> bool:
        """Return whether its workers were killed by `stop`."""
        return self._is_stopped

    def run(self, run: Run) -> Outcome:
        """Return how running `run` ended. A process that died or hung is replaced once, visibly."""
        first = self._attempt(run)
        if not first.ending.is_retried or self._is_stopped:
            return first
        second = self._attempt(run)
        text = f"{first.ending.value}: {first.what} (log {first.log})"
        return Outcome(**{**vars(second), "attempts": 2, "first_failure": text})

    def _attempt(self, run: Run) -> Outcome:
        absence = first_absence([treatment for stage in run.test.stages for treatment in stage.treatments])
        if absence:
            return Outcome(ending=Ending.ABSENT, what=absence.reason, remedy=absence.remedy)
        trace = run.trace(self._folder)
        shutil.rmtree(trace, ignore_errors=True)
        attempt = uuid.uuid4().hex[:12]
        for stage in run.test.stages:
            job = Job(run.test.named.path, run.test.label, str(trace.resolve()), stage.number, attempt)
            outcome = self._run_stage(run.test, stage, job)
            if outcome.ending is not Ending.DONE:
                break
        return outcome

    def _run_stage(self, test: Test, stage: Stage, job: Job) -> Outcome:
        """Return how `stage` of `test` ended; one that takes up a checkpoint has a process that is new."""
        group = group_of(test, stage)
        if stage.takes and group in self._workers:
            self._drop(group)
        if group in self._unusable:
            return self._unusable[group]
        worker = self._workers.get(group)
        try:
            worker = worker or self._start(group)
        except _Unusable as unusable:
            self._unusable[group] = unusable.outcome
            return unusable.outcome
        except (WorkerDied, WorkerHung) as error:
            return _infrastructure(error, self._last_log)
        try:
            event = worker.run(job, limit_s=test.case.time_limit_s, on_step=lambda event: self._on_step(test, event))
        except (WorkerDied, WorkerHung) as error:
            self._drop(group, kill=True)
            return _infrastructure(error, worker.log.name)
        except BaseException:
            self._drop(group, kill=True)
            raise
        if event.kind == "done":
            return Outcome(ending=Ending.DONE, log=worker.log.name)
        self._drop(group)
        return Outcome(ending=Ending.NO_OUTPUT if event.output else Ending.RAISED, what=event.what, log=worker.log.name)

    def _start(self, group: Group) -> WorkerProcess:
        """Return a worker that is ready for `group`, after closing the oldest of other groups."""
        absence = find_backend(group.backend).absence(group.devices)
        if absence:
            raise _Unusable(Outcome(ending=Ending.ABSENT, what=absence.reason, remedy=absence.remedy))
        is_exclusive = find_backend(group.backend).is_exclusive
        for other in list(self._workers):
            if len(self._workers) >= self._most_workers or (is_exclusive and other.backend == group.backend):
                self._drop(other)
        log = self._folder.logs / f"{file_name(group.backend)}.{self._name}.{next(self._log_numbers)}.log"
        self._last_log = log.name
        with self._lock:
            if self._is_stopped:
                raise WorkerDied("the run was stopped")
            worker = WorkerProcess(group, log)
            self._workers[group] = worker
        try:
            event = worker.wait_ready()
        except (WorkerDied, WorkerHung) as error:
            self._drop(group, kill=True)
            raise type(error)(f"{error} while it started") from error
        except BaseException:
            self._drop(group, kill=True)
            raise
        if event.kind == "failed":
            self._drop(group)
            raise _Unusable(Outcome(ending=Ending.RAISED, what=event.what, log=log.name))
        return worker

    def _drop(self, group: Group, *, kill: bool = False) -> None:
        with self._lock:
            worker = self._workers.pop(group)
        if kill:
            worker.kill()
        worker.close()

    def close(self) -> None:
        """End the workers."""
        for group in list(self._workers):
            self._drop(group)

    def stop(self) -> None:
        """Kill the workers from another thread; what runs ends as died."""
        with self._lock:
            self._is_stopped = True
            for worker in self._workers.values():
                worker.kill()


class _Unusable(Exception):
    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


def _infrastructure(error: Exception, log: str) -> Outcome:
    return Outcome(ending=Ending.HUNG if isinstance(error, WorkerHung) else Ending.DIED, what=str(error), log=log)
