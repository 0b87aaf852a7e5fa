"""Small programs that run replicas, each in a process of its own: replicas cannot be undone in one that goes on."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from xla_equiv.execute.replicas.lockstep_env import lockstep_env

MARK = "XLA_EQUIV_REPLICA_TEST"
"""Environment variable that every process started for a script inherits, whatever becomes of its parents."""

BEGIN = """
import json, os

def tell(**facts):
    os.write(1, (json.dumps(facts) + "\\n").encode())

"""


@dataclass(frozen=True)
class Ended:
    """How a script ended.

    Args:
        code: its exit code; negative when a signal ended it.
        facts: what it told, in order.
        err: its standard error.
        at: when it ended, by `time.monotonic`.
    """

    code: int
    facts: list[dict[str, Any]]
    err: str
    at: float

    def about(self, what: str) -> list[dict[str, Any]]:
        """Return what it told about `what`, without that word, by rank where it told ranks."""
        found = [{k: v for k, v in facts.items() if k != "what"} for facts in self.facts if facts["what"] == what]
        return sorted(found, key=lambda facts: facts.get("rank", 0))


class Script:
    """A running script, which tells facts by `tell(what=..., ...)`.

    Args:
        text: its text.
        folder: where it is written.
        env: its further environment variables.
    """

    def __init__(self, text: str, folder: Path, env: Mapping[str, str] | None = None) -> None:
        self.mark = uuid.uuid4().hex
        path = folder / "script.py"
        path.write_text(BEGIN + text)
        self.process = subprocess.Popen(
            [sys.executable, path],
            env={**os.environ, MARK: self.mark, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self, *, limit_s: float = 180.0) -> Ended:
        """Wait for its end; nothing that it started may be left."""
        try:
            out, err = self.process.communicate(timeout=limit_s)
            at = time.monotonic()
            left = self.processes(limit_s=10.0)
        finally:
            for one in self.processes(limit_s=0.0):
                one.kill()
        assert left == [], err
        facts = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        return Ended(self.process.returncode, facts, err, at)

    def processes(self, *, limit_s: float) -> list[psutil.Process]:
        """Return what still runs of all that it ever started, after `limit_s` seconds if not before."""
        deadline = time.monotonic() + limit_s
        while (found := [one for one in psutil.process_iter() if self._is_own(one)]) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def _is_own(self, process: psutil.Process) -> bool:
        try:
            return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == self.mark
        except psutil.Error:
            return False


LOCKSTEP = """
import torch, torch_xla
import torch_xla.core.xla_model as xm
from xla_equiv.execute.replicas import ReplicaFailed, current_replica
from xla_equiv.execute.replicas.lockstep import Lockstep

def summed(value):
    total = xm.all_reduce("sum", torch.full((2,), float(value)).to("xla"))
    torch_xla.sync()
    return total.tolist()[1]

"""


def start_lockstep(text: str, folder: Path, *, replicas: int) -> Script:
    """Return a script, which has begun, that runs replicas in lockstep."""
    return Script(LOCKSTEP + text, folder, {"PJRT_DEVICE": "CPU", **lockstep_env(replicas)})


def run_lockstep(text: str, folder: Path, *, replicas: int) -> Ended:
    """Return how a script ended that runs replicas in lockstep."""
    return start_lockstep(text, folder, replicas=replicas).end()
