"""Running many tests, several at a time, so that each worker serves its whole group."""

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from xla_equiv.execute.backends import find_backend
from xla_equiv.execute.groups import Group, group_of
from xla_equiv.execute.lane import Lane, OnStep, Run
from xla_equiv.execute.outcome import Ending, Outcome
from xla_equiv.store.runs import RunFolder

OnEnd = Callable[[Run, Outcome], None]


class Runner:
    """Runs tests in lanes.

    Args:
        folder: the run folder.
        workers: how many lanes, so how many worker processes at a time.
        on_step, on_end: told about every step and every end, from the lanes' threads.
    """

    def __init__(self, folder: RunFolder, *, workers: int, on_step: OnStep, on_end: OnEnd) -> None:
        self._lanes = [Lane(folder, name=str(number), on_step=on_step) for number in range(workers)]
        self._on_end = on_end
        self._queues: dict[Group, deque[Run]] = defaultdict(deque)
        self._lock = threading.Lock()
        self._serving: dict[Group, int] = defaultdict(int)

    def run(self, runs: Sequence[Run]) -> None:
        """Run all of `runs`. On an interrupt every worker is killed, and the interrupt goes on."""
        for run in runs:
            self._queues[group_of(run.test)].append(run)
        with ThreadPoolExecutor(len(self._lanes)) as pool:
            serving = [pool.submit(self._serve, lane) for lane in self._lanes]
            try:
                wait(serving)
            except BaseException:
                with self._lock:
                    self._queues.clear()
                for lane in self._lanes:
                    lane.stop()
                raise
        for future in serving:
            future.result()

    def _serve(self, lane: Lane) -> None:
        """Let `lane` work through groups, each time taking the one with the most left for a lane."""
        try:
            while (group := self._choose_group()) is not None:
                while (run := self._next_run(group)) is not None:
                    outcome = lane.run(run)
                    if outcome.ending is Ending.DONE or not lane.is_stopped:  # what was killed has not ended
                        self._on_end(run, outcome)
                if find_backend(group.backend).is_exclusive:
                    lane.close()
                with self._lock:
                    self._serving[group] -= 1
        finally:
            lane.close()

    def _choose_group(self) -> Group | None:
        with self._lock:
            waiting = {
                group: len(queue) for group, queue in self._queues.items() if queue and not self._is_taken(group)
            }
            if not waiting:
                return None
            # references first: what is interrupted can be judged as far as it got
            group = max(
                waiting, key=lambda g: (g.is_reference and not self._serving[g], waiting[g] / (1 + self._serving[g]))
            )
            self._serving[group] += 1
            return group

    def _is_taken(self, group: Group) -> bool:
        """Return whether another lane has the device of `group`, which only one process can have."""
        if not find_backend(group.backend).is_exclusive:
            return False
        return any(count for other, count in self._serving.items() if other.backend == group.backend)

    def _next_run(self, group: Group) -> Run | None:
        with self._lock:
            return self._queues[group].popleft() if self._queues[group] else None
