"""What became of running one test, as far as it is not numeric."""

import enum
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from xla_equiv.store.atomic import write_bytes
from xla_equiv.values.errors import TraceError


class Ending(str, enum.Enum):
    """How a run of one test ended."""

    DONE = "done"
    ABSENT = "absent"
    RAISED = "raised"
    DIED = "died"
    HUNG = "hung"
    NO_OUTPUT = "no output"

    @property
    def is_retried(self) -> bool:
        """Return whether another attempt is made: for what befalls a process, never for what it computed."""
        return self in (Ending.DIED, Ending.HUNG)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The ending of a run, why, and at which attempt.

    Args:
        ending: how the last attempt ended.
        what: one clause, such as the exception's type and text.
        remedy: for ABSENT, what would make the backend usable.
        attempts: how many were made.
        first_failure: what happened at the first of two attempts.
        log: name of the worker's log in the folder of logs.
    """

    ending: Ending
    what: str = ""
    remedy: str = ""
    attempts: int = 1
    first_failure: str = ""
    log: str = ""


_OUTCOME = TypeAdapter(Outcome)


def outcome_path(trace_folder: Path) -> Path:
    """Return where the outcome of the run that records into `trace_folder` is kept."""
    return trace_folder.with_name(f"{trace_folder.name}.outcome.json")


def write_outcome(trace_folder: Path, outcome: Outcome) -> None:
    """Save `outcome` beside the trace."""
    write_bytes(outcome_path(trace_folder), _OUTCOME.dump_json(outcome))


def read_outcome(trace_folder: Path) -> Outcome | None:
    """Return the outcome saved beside the trace, None when the run has not ended."""
    path = outcome_path(trace_folder)
    if not path.exists():
        return None
    try:
        return _OUTCOME.validate_json(path.read_bytes())
    except ValidationError as error:
        raise TraceError(f"{path} is damaged", next="run the suite again") from error
