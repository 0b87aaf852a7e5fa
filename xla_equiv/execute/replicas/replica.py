"""Which replica the running Python code belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


@dataclass(frozen=True)
class Replica:
    """One of the programs that train together.

    Args:
        rank: its number, from 0.
        ranks: how many there are.
        make_process_group: returns torch's process group over all of them; None where there is one replica.
    """

    rank: int = 0
    ranks: int = 1
    make_process_group: Callable[[], ProcessGroup] | None = None

    def process_group(self) -> ProcessGroup:
        """Return torch's process group over all replicas.

        Raises:
            RuntimeError: the program was not started as a replica.
        """
        if self.make_process_group is None:
            raise RuntimeError("no process group: this program was not started as a replica")
        return self.make_process_group()


class ReplicaFailed(Exception):
    """A replica raised an exception. The text names its rank; the cause is the exception."""

    def __init__(self, rank: int, ranks: int, what: str) -> None:
        super().__init__(f"rank {rank} of {ranks}: {what}")
        self.rank = rank


_running = Replica()
_hooks: list[Callable[[Replica], None]] = []


def current_replica() -> Replica:
    """Return the replica whose code is running; rank 0 of 1 in a program that was not started as one."""
    return _running


def set_current_replica(replica: Replica) -> None:
    """Say which replica's code runs from now on, and tell those who asked. Only a runtime calls this."""
    global _running
    _running = replica
    for hook in _hooks:
        hook(replica)


def at_each_turn(hook: Callable[[Replica], None]) -> None:
    """Call `hook` with the replica whose code runs: now, and whenever another one's turn begins in this process.

    For a library that keeps its rank in one place for the whole process, where replicas are threads. A hook
    that was given before is not added again.
    """
    if hook not in _hooks:
        _hooks.append(hook)
    hook(_running)
