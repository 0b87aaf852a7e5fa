"""Progress on a terminal: which test is at which step, and how long it compiled and ran."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from xla_equiv.execute.lane import Run
from xla_equiv.execute.outcome import Outcome
from xla_equiv.execute.protocol import Event
from xla_equiv.values.plan import Test


class Progress:
    """Does nothing: what is used where nobody looks."""

    def step(self, test: Test, event: Event) -> None:
        """Take note of a step."""

    def end(self, run: Run, outcome: Outcome) -> None:
        """Take note of the end of a run."""


class TerminalProgress(Progress):
    """Live lines by rich: one for all runs, one for each that is under way."""

    def __init__(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Lines

        self.lines = Lines(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[times]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._all = self.lines.add_task("runs", total=total, times="")
        self._tasks: dict[str, object] = {}
        self._lock = threading.Lock()

    def step(self, test: Test, event: Event) -> None:
        """Move the line of `test` on."""
        from rich.markup import escape

        times = f"compile {event.compile_s:.1f} s  run {event.run_s - event.compile_s:.1f} s"
        with self._lock:
            if test.id not in self._tasks:
                self._tasks[test.id] = self.lines.add_task(escape(test.id), total=test.case.steps, times=times)
            self.lines.update(self._tasks[test.id], completed=event.step, times=times)  # type: ignore[arg-type]

    def end(self, run: Run, outcome: Outcome) -> None:
        """Take the line of a test away."""
        with self._lock:
            task = self._tasks.pop(run.test.id, None)
            if task is not None:
                self.lines.remove_task(task)  # type: ignore[arg-type]
            self.lines.advance(self._all)


@contextmanager
def progress(total: int) -> Iterator[Progress]:
    """Yield where to report progress of `total` runs; silent unless standard error is a terminal."""
    if not sys.stderr.isatty():
        yield Progress()
        return
    shown = TerminalProgress(total)
    with shown.lines:
        yield shown
