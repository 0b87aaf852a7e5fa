"""Native replicas: processes that agree over gloo; when one fails or is killed, it is named and none is left."""

import json
import signal
from pathlib import Path

import pytest
from scripts import Ended, Script

SEVERAL = """
import os, random, signal, sys, time

from xla_equiv.execute.replicas import ReplicaFailed, current_replica

def agree(rank):
    import torch
    import torch.distributed as dist

    replica = current_replica()
    total = torch.tensor(float(rank + 1))
    dist.all_reduce(total, group=replica.process_group())
    tens = torch.tensor([10.0 * rank])
    dist.all_reduce(tens)
    tell(
        what="agree", rank=rank, own=replica.rank, ranks=replica.ranks, total=total.item(), other=tens.item(),
        pid=os.getpid(), backend=dist.get_backend(replica.process_group()),
    )

def wait(rank):
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.zeros(1))

def fail(rank):
    if rank == 1:
        raise ValueError("boom\\nthe second line")
    wait(rank)

def fail_while_others_sleep(rank):
    if rank == 0:
        raise LookupError("early")
    time.sleep(600)

def leave(rank):
    if rank == 1:
        sys.exit(7)
    wait(rank)

def kill(rank):
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    wait(rank)

def crash(rank):
    if rank == 0:
        os.kill(os.getpid(), signal.SIGSEGV)
    wait(rank)

def run(name, body):
    import psutil

    from xla_equiv.execute.replicas.processes import run_processes

    started = time.monotonic()
    try:
        run_processes(2, body)
    except ReplicaFailed as failed:
        tell(what=name + " failed", text=str(failed), failed=failed.rank)
    own = psutil.Process()
    left = [replica.pid for child in own.children() for replica in child.children()]
    tell(
        what=name + " ended", left=left, lasted_s=time.monotonic() - started, rank=current_replica().rank,
        ranks=current_replica().ranks,
    )

if __name__ == "__main__":
    for body in (agree, fail, fail_while_others_sleep, leave, kill, crash, agree):
        run(body.__name__, body)
"""

FAILURES = {
    "fail": (1, "ValueError: boom"),
    "fail_while_others_sleep": (0, "LookupError: early"),
    "leave": (1, "its process ended with exit code 7"),
    "kill": (1, "its process was ended by SIGKILL"),
    "crash": (0, "its process was ended by SIGSEGV"),
}
SOON_S = 30.0
"""Time for replicas to begin and to end without hurry; the shortest time limit of a case is longer."""


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Return what a process told that ran two replicas several times."""
    return Script(SEVERAL, tmp_path_factory.mktemp("several")).end()


def test_a_process_outlives_replicas_that_fail_and_none_of_them_is_left(several: Ended) -> None:
    assert several.code == 0, several.err
    for name in ("agree", *FAILURES):
        for ended in several.about(f"{name} ended"):
            assert ended["left"] == []
            assert (ended["rank"], ended["ranks"]) == (0, 1)
            assert ended["lasted_s"] < SOON_S


def test_replicas_agree_on_an_all_reduce_before_and_after_others_have_failed(several: Ended) -> None:
    agreed = several.about("agree")
    wanted = {"ranks": 2, "total": 3.0, "other": 10.0, "backend": "gloo"}
    assert [{key: facts[key] for key in wanted} for facts in agreed] == [wanted] * 4
    assert [(facts["rank"], facts["own"]) for facts in agreed] == [(0, 0), (0, 0), (1, 1), (1, 1)]
    assert several.about("agree failed") == []


def test_every_replica_is_a_process_of_its_own(several: Ended) -> None:
    assert len({facts["pid"] for facts in several.about("agree")}) == 4


@pytest.mark.parametrize("name", FAILURES)
def test_a_replica_that_fails_is_named_with_what_befell_it(several: Ended, name: str) -> None:
    rank, text = FAILURES[name]
    assert several.about(f"{name} failed") == [{"failed": rank, "text": f"rank {rank} of 2: {text}"}]


def test_the_traceback_of_a_replica_is_printed(several: Ended) -> None:
    assert 'raise ValueError("boom\\nthe second line")' in several.err
    assert "Traceback (most recent call last)" in several.err


ABANDONED = """
import os, time

def sleep(rank):
    tell(what="sleeps", rank=rank, pid=os.getpid())
    time.sleep(600)

if __name__ == "__main__":
    from xla_equiv.execute.replicas.processes import run_processes

    run_processes(2, sleep)
"""


def test_replicas_end_when_the_process_that_runs_them_is_killed(tmp_path: Path) -> None:
    script = Script(ABANDONED, tmp_path)
    assert script.process.stdout is not None
    told = (line for line in script.process.stdout if line.startswith("{"))  # gloo prints, too
    pids = {json.loads(next(told))["pid"] for _ in range(2)}
    assert pids < {process.pid for process in script.processes(limit_s=0.0)}
    script.process.kill()
    assert script.end().code == -signal.SIGKILL
