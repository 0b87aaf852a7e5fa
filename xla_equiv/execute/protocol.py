"""What the controlling process and a worker say to each other: one JSON object a line."""

import json
from dataclasses import asdict, dataclass
from typing import IO, Any

EVENTS_FD = "XLA_EQUIV_EVENTS_FD"
HLO_FOLDER = "XLA_EQUIV_HLO_FOLDER"


@dataclass(frozen=True)
class Job:
    """One training to run.

    Args:
        suite: path of the suite file.
        label: label of the test inside the suite.
        folder: where the trace goes.
        stage: which stage of it, from 1.
        run: identifies the attempt: no other run's checkpoint is taken for its own.
    """

    suite: str
    label: str
    folder: str
    stage: int = 1
    run: str = ""


@dataclass(frozen=True, kw_only=True)
class Event:
    """What a worker tells.

    Args:
        kind: "ready", "step" (step, compile_s, run_s), "done", or "failed" (what: type and text of the exception; output: whether it was about writing).
    """

    kind: str
    what: str = ""
    step: int = 0
    compile_s: float = 0.0
    run_s: float = 0.0
    output: bool = False


def send(stream: IO[str], message: Job | Event) -> None:
    """Write `message` as one line to `stream`."""
    stream.write(json.dumps(asdict(message)) + "\n")
    stream.flush()


def parse(line: str | bytes) -> dict[str, Any]:
    """Return the fields of the message on `line`."""
    fields: dict[str, Any] = json.loads(line)
    return fields
