"""Errors of the house form: what happened, where, the numbers, and what to do next."""

import difflib
from collections.abc import Iterable, Sequence

MAX_MESSAGE_LINES = 8
LABEL_WIDTH = 9


def format_message(headline: str, details: Iterable[tuple[str, str]]) -> str:
    """Return `headline` followed by one aligned line for each (label, text) of `details`.

    Details with an empty text are left out; what does not fit in eight lines is counted.
    """
    lines = [f"  {label:<{LABEL_WIDTH}} {text}" for label, text in details if text]
    room = MAX_MESSAGE_LINES - 1
    if len(lines) > room:
        lines = [*lines[: room - 1], f"  {'':<{LABEL_WIDTH}} ... and {len(lines) - room + 1} more lines"]
    return "\n".join([headline, *lines])


def closest(word: str, choices: Iterable[str]) -> str:
    """Return the entry of `choices` most like `word`, or '' when none is near."""
    found = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.5)
    return found[0] if found else ""


def choices_text(word: str, choices: Sequence[str], *, most: int = 12) -> str:
    """Return a text that names the closest match to `word` and lists the valid choices."""
    near = closest(word, choices)
    listed = ", ".join(choices[:most]) + (f" and {len(choices) - most} more" if len(choices) > most else "")
    return (f"did you mean {near!r}? " if near else "") + f"valid: {listed or 'none'}"


class XlaEquivError(Exception):
    """A problem that the user can act on. `exit_code` is what the command line ends with.

    Args:
        headline: what happened, in one clause.
        problems: every fault found, each with its path, when there are several.
        details: further (label, text) lines, such as ("where", "golden/a.toml").
        next: a command or an action that helps, which can be pasted.
    """

    exit_code = 2

    def __init__(
        self,
        headline: str,
        *,
        problems: Sequence[str] = (),
        details: Sequence[tuple[str, str]] = (),
        next: str = "",  # noqa: A002 (the label of the house form)
    ) -> None:
        self.headline = headline
        self.problems = tuple(problems)
        self.details = tuple(details)
        self.next = next
        super().__init__(self.render())

    def render(self) -> str:
        """Return the whole message; a list of problems is never cut short."""
        head = format_message(f"{type(self).__name__}: {self.headline}", self.details)
        problems = [f"  - {problem}" for problem in self.problems]
        tail = [f"  {'next':<{LABEL_WIDTH}} {self.next}"] if self.next else []
        return "\n".join([head, *problems, *tail])


def in_one_line(error: BaseException) -> str:
    """Return the type of `error` and what it says: the first line, and of the house form what was found and what helps."""
    if isinstance(error, XlaEquivError):
        found = "; ".join([*(text for label, text in error.details if label != "where"), *error.problems[:1], *([error.next] if error.next else [])])
        return f"{type(error).__name__}: {error.headline}" + (f" ({found})" if found else "")
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


class SelectionError(XlaEquivError):
    """A suite, variant, backend or key pattern that does not exist."""


class SuiteError(XlaEquivError):
    """A suite file that cannot be loaded, or that describes something impossible."""


class ToleranceError(XlaEquivError):
    """A tolerance that is negative, not a number, without a reason, or in a faulty file."""


class TraceError(XlaEquivError):
    """A saved trace that is missing, incomplete or damaged."""


class CheckpointError(XlaEquivError):
    """A checkpoint that is missing, incomplete or damaged, or that does not fit what is to be resumed."""


class GoldenError(XlaEquivError):
    """A golden that is unreadable, damaged or foreign, or that must not be accepted."""


class ReportError(XlaEquivError):
    """A run folder or report that cannot be read."""


class OutputError(XlaEquivError):
    """An output folder or file that cannot be written."""


class EnvironmentMismatch(XlaEquivError):
    """An installation that cannot run what was asked, such as torch and torch_xla of different releases."""

    exit_code = 3


class Interrupted(XlaEquivError):
    """The run was stopped by Ctrl-C or SIGTERM before it ended."""

    exit_code = 3
