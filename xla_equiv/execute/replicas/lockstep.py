"""Several replicas on XLA:CPU in one process, with XLA's own collectives, and without deadlock.

Every replica is a thread with a virtual device of its own, but exactly one replica's Python runs at a time,
the one that holds the baton. `torch_xla.sync()` parks a replica; when all are parked their graphs execute
together, and no Python runs meanwhile. Each of these rules keeps off a deadlock that was observed:

- Rank 0 compiles first and the others find its executable in the cache, for XLA:CPU matches the participants
  of a collective by the module that they execute, not by its content.
- Nothing of any replica runs while collectives are in flight: freeing a tensor can wait for an execution with
  the GIL held, and that execution waits for a replica that needs the GIL. Garbage collection is off, too.
- Each graph is issued from a thread of its own, to a client that executes in the issuing thread
  (`lockstep_env`): an asynchronous client runs what one thread has issued one after the other.
"""

from __future__ import annotations

import concurrent.futures
import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met
import torch_xla.runtime as xr
from torch_xla._internal import pjrt

from xla_equiv.execute.isolation import GeneratorStates, generator_states, set_generator_states
from xla_equiv.execute.replicas.collectives import lockstep_collectives
from xla_equiv.execute.replicas.replica import Replica, ReplicaFailed, set_current_replica
from xla_equiv.execute.replicas.xla_group import LockstepGroup
from xla_equiv.values.errors import in_one_line

POLL_S = 0.0002
"""How often the cache of executables is looked at while rank 0 compiles."""


class _Stopped(BaseException):
    """Unwinds a replica because another one failed."""


class Lockstep:
    """Runs one function as several replicas.

    Args:
        replicas: how many; the process must have as many XLA devices.
    """

    def __init__(self, replicas: int) -> None:
        self._ranks = replicas
        self._turn = 0
        self._baton = threading.Condition()
        self._live: set[int] = set()
        self._parked: dict[int, Callable[[], None]] = {}
        self._generators: dict[int, GeneratorStates] = {}
        self._errors: dict[int, BaseException] = {}

    def run(self, body: Callable[[int], None]) -> None:
        """Call `body(rank)` for each rank, and return when all have ended.

        Raises:
            ReplicaFailed: `body` raised; of several ranks the first to do so is named.
            RuntimeError: the process has another number of devices.
        """
        devices = xm.get_xla_supported_devices()
        if len(devices) != self._ranks:
            raise RuntimeError(f"{self._ranks} replicas need as many XLA devices; the process has {len(devices)}")
        pjrt.initialize_multiprocess(0, 1)
        self._live = set(range(self._ranks))
        self._generators = dict.fromkeys(self._live, generator_states())
        threads = [
            threading.Thread(target=self._replica, args=(rank, device, body), name=f"replica-{rank}", daemon=True)
            for rank, device in enumerate(devices)
        ]
        with self._intercepting_sync(), lockstep_collectives():
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        set_current_replica(Replica())
        if self._errors:
            rank, error = next(iter(self._errors.items()))
            raise ReplicaFailed(rank, self._ranks, in_one_line(error)) from error

    @contextmanager
    def _intercepting_sync(self) -> Iterator[None]:
        step_marker = torch_xla._XLAC._xla_step_marker

        def park(device: str, devices: list[str], wait: bool = False, **options: Any) -> None:  # noqa: ARG001
            # The device is that of whose turn it is: a thread of autograd has another one as its default.
            self._park(partial(step_marker, f"xla:{self._turn}", [], wait=False, **options))

        torch_xla._XLAC._xla_step_marker = park
        try:
            with concurrent.futures.ThreadPoolExecutor(self._ranks, "issue") as self._issuers:
                yield
        finally:
            torch_xla._XLAC._xla_step_marker = step_marker

    def _replica(self, rank: int, device: str, body: Callable[[int], None]) -> None:
        """Run one replica from its first turn to its end."""
        try:
            self._take_baton(rank)
            torch_xla._XLAC._xla_set_default_device(device)
            xr._init_world_size_ordinal()
            body(rank)
        except _Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 (told to whoever called `run`)
            self._errors.setdefault(rank, error)
        finally:
            self._live.discard(rank)
            self._pass_on()

    def _park(self, issue: Callable[[], None]) -> None:
        """Wait until the graph that `issue` starts has executed, together with those of all other replicas."""
        rank = self._turn
        if self._errors:
            raise _Stopped
        self._parked[rank] = issue
        self._generators[rank] = generator_states()
        self._pass_on()
        self._take_baton(rank)

    def _pass_on(self) -> None:
        """Give the baton to the next replica; before, execute if all that still run are parked."""
        if not self._live:
            return
        if self._errors:
            self._parked.clear()
        elif not self._live - self._parked.keys():
            self._execute()
        with self._baton:
            self._turn = min(self._live - self._parked.keys())
            self._baton.notify_all()

    def _take_baton(self, rank: int) -> None:
        with self._baton:
            self._baton.wait_for(lambda: self._turn == rank)
        if self._errors:
            raise _Stopped
        set_current_replica(Replica(rank, self._ranks, partial(LockstepGroup, rank, self._ranks)))
        set_generator_states(self._generators[rank])

    def _execute(self) -> None:
        """Execute the graphs of all parked replicas, rank 0's executable first, and wait for every device."""
        first, *others = sorted(self._parked)
        was_collecting = gc.isenabled()
        gc.disable()
        try:
            before = _executables()
            running = {first: self._issuers.submit(self._issue, first)}
            while _executables() <= before and not running[first].done():
                time.sleep(POLL_S)
            running |= {rank: self._issuers.submit(self._issue, rank) for rank in others}
            for rank, future in running.items():
                error = future.exception()
                if error is not None:
                    self._errors.setdefault(rank, error)
        finally:
            self._parked.clear()
            if was_collecting:
                gc.enable()

    def _issue(self, rank: int) -> None:
        device = f"xla:{rank}"
        torch_xla._XLAC._xla_set_default_device(device)
        self._parked[rank]()
        torch_xla._XLAC._xla_wait_device_ops(xm.xla_real_devices([torch.device(device)]))


def _executables() -> int:
    """Return a count that grows when a graph's executable is there: just compiled, or found in the cache."""
    return int(torch_xla._XLAC._xla_get_num_cached_compilation_graph()) + (met.counter_value("CachedCompile") or 0)
