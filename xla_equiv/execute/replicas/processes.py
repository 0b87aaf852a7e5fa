"""Native replicas: one process each, with torch's own process group over gloo."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING

from xla_equiv.execute.replicas.replica import Replica, ReplicaFailed, set_current_replica
from xla_equiv.values.errors import OutputError, in_one_line

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

PRELOADED = ["torch", "torch.distributed", "xla_equiv.execute.training"]
"""Imported once, by the server that the replicas are forked from; it has no threads."""

EXIT_ABANDONED = 70


def run_processes(replicas: int, body: Callable[[int], None]) -> None:
    """Call `body(rank)` in one process for each rank, and return when all have ended.

    Raises:
        ReplicaFailed: `body` raised, or a process was ended by a signal; the others are killed.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with tempfile.TemporaryDirectory(prefix="gloo-") as folder:
        processes, results = [], {}
        for rank in range(replicas):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(
                target=_replica, args=(rank, replicas, body, Path(folder, "store"), sender), daemon=True
            )
            process.start()
            sender.close()
            processes.append(process)
            results[receiver] = rank
        try:
            _collect(results, processes)
        finally:
            for process in processes:
                process.kill()
                process.join()


def _collect(results: dict[Connection, int], processes: Sequence[multiprocessing.process.BaseProcess]) -> None:
    """Wait for what every replica has to say: nothing, or the exception that ended it."""
    ranks = len(processes)
    waiting = dict(results)
    while waiting:
        for receiver in wait(list(waiting)):
            assert isinstance(receiver, Connection)
            rank = waiting.pop(receiver)
            try:
                failure = receiver.recv()
            except EOFError:
                processes[rank].join()
                raise ReplicaFailed(rank, ranks, _how_it_ended(processes[rank].exitcode)) from None
            if failure:
                what, is_output = failure
                raise ReplicaFailed(rank, ranks, what) from (OutputError(what) if is_output else None)


def _how_it_ended(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"


def _replica(rank: int, ranks: int, body: Callable[[int], None], store: Path, result: Connection) -> None:
    import torch.distributed as dist

    threading.Thread(target=_end_with_parent, daemon=True).start()
    set_current_replica(Replica(rank, ranks, _world))
    try:
        dist.init_process_group("gloo", init_method=store.as_uri(), rank=rank, world_size=ranks)
        body(rank)
        dist.destroy_process_group()
    except Exception as error:  # noqa: BLE001 (a suite may raise anything; the parent is told)
        traceback.print_exc()
        result.send((in_one_line(error), isinstance(error, OutputError)))
    else:
        result.send(None)


def _end_with_parent() -> None:
    """End this process when its parent is gone: what it computes, nobody would read."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(EXIT_ABANDONED)


def _world() -> ProcessGroup:
    import torch.distributed as dist

    assert dist.group.WORLD is not None
    return dist.group.WORLD
