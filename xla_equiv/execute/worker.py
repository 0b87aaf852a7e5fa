"""`python -m xla_equiv.execute.worker BACKEND SPREAD`: trains the jobs that it reads from standard input.

Events go to the file descriptor named in the environment; everything printed, by Python or by native
code, goes to the log that the controlling process opened.
"""

import faulthandler
import os
import queue
import sys
import threading
import traceback
from pathlib import Path
from typing import IO

from xla_equiv.execute.backends import Backend, find_backend
from xla_equiv.execute.protocol import EVENTS_FD, HLO_FOLDER, Event, Job, parse, send
from xla_equiv.values.errors import OutputError, in_one_line
from xla_equiv.values.spread import Spread

EXIT_ABANDONED = 70
"""Exit code of a worker whose controlling process is gone."""


def main() -> None:
    """Serve jobs until standard input ends."""
    faulthandler.enable()
    events = os.fdopen(int(os.environ[EVENTS_FD]), "w")
    backend = find_backend(sys.argv[1])
    spread = Spread(sys.argv[2])
    jobs = _read_jobs()
    try:
        backend.start(spread)
        if spread is not Spread.REPLICAS:  # a launcher of processes must be the first to use the device
            _multiply(backend)
    except Exception as error:  # noqa: BLE001 (whatever it is, the device is there and not usable)
        traceback.print_exc()
        send(
            events,
            Event(kind="failed", what=f"the device does not start: {in_one_line(error)}"),
        )
        return
    send(events, Event(kind="ready"))
    _serve(backend, jobs, events)


def _multiply(backend: Backend) -> None:
    """Multiply two 2 x 2 matrices of ones on the device: one that cannot is broken, not absent."""
    import torch

    ones = torch.ones(2, 2, device=backend.device())
    product = (ones @ ones).cpu()
    if product.tolist() != [[2.0, 2.0], [2.0, 2.0]]:
        raise ArithmeticError(f"a product of matrices of ones is {product.tolist()}")


def _read_jobs() -> "queue.Queue[Job | None]":
    """Return a queue that a thread fills from standard input; None when it ends.

    Ending in the middle of a job means that the controlling process died: the worker must not outlive it.
    """
    jobs: queue.Queue[Job | None] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            jobs.put(Job(**parse(line)))
        jobs.put(None)
        threading.Event().wait(5.0)
        os._exit(EXIT_ABANDONED)

    threading.Thread(target=read, daemon=True).start()
    return jobs


def _serve(backend: Backend, jobs: "queue.Queue[Job | None]", events: IO[str]) -> None:
    from xla_equiv.execute.graphs import GraphLog
    from xla_equiv.execute.jobs import run_job
    from xla_equiv.execute.replicas import ReplicaFailed

    def on_step(step: int, compile_s: float, run_s: float) -> None:
        send(events, Event(kind="step", step=step, compile_s=compile_s, run_s=run_s))

    hlo_folder = os.environ.get(HLO_FOLDER)
    graphs = GraphLog(Path(hlo_folder)) if hlo_folder else None
    while (job := jobs.get()) is not None:
        print(f"--- {job.label}", file=sys.stderr, flush=True)
        try:
            run_job(job, backend, graphs, on_step)
        except OutputError as error:
            send(events, Event(kind="failed", what=error.headline, output=True))
        except ReplicaFailed as failed:
            traceback.print_exc()
            is_output = isinstance(failed.__cause__, OutputError)
            send(events, Event(kind="failed", what=str(failed), output=is_output))
        except Exception as error:  # noqa: BLE001 (a suite may raise anything)
            traceback.print_exc()
            send(events, Event(kind="failed", what=in_one_line(error)))
        else:
            send(events, Event(kind="done"))


if __name__ == "__main__":
    main()
