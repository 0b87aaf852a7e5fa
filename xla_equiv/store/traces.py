"""Saved traces: one folder a run, one file a step, and the facts last, so that a crash leaves evidence."""

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from xla_equiv.store.atomic import write_bytes
from xla_equiv.store.report import to_json
from xla_equiv.store.tensors import DamagedFile, TensorFile, read_tensors, write_tensors
from xla_equiv.values.errors import TraceError
from xla_equiv.values.trace import Array, Entry, RunFacts, Trace

FACTS_FILE = "facts.json"
FACTS = TypeAdapter(RunFacts)


def step_file(folder: Path, step: int) -> Path:
    """Return the file in `folder` that holds what was recorded at `step`."""
    return folder / f"step-{step:05d}.safetensors"


def write_step(folder: Path, step: int, arrays: Mapping[str, Array]) -> None:
    """Save what was recorded at `step` (from 1), key -> array."""
    write_tensors(step_file(folder, step), arrays, {"step": step})


def write_facts(folder: Path, facts: RunFacts) -> None:
    """Save the facts of the run, which completes the trace."""
    write_bytes(folder / FACTS_FILE, to_json(FACTS.dump_python(facts, mode="json")).encode())


def is_complete(folder: Path) -> bool:
    """Return whether the run that wrote `folder` came to its end."""
    return (folder / FACTS_FILE).is_file()


def recorded_steps(folder: Path) -> int:
    """Return how many steps were saved in `folder`, complete or not."""
    return len(list(folder.glob("step-*.safetensors")))


def read_facts(folder: Path) -> RunFacts:
    """Return the facts of the run that was saved in `folder`.

    Raises:
        TraceError: there are none, or the file is damaged.
    """
    try:
        return FACTS.validate_json((folder / FACTS_FILE).read_bytes())
    except (OSError, ValidationError) as error:
        raise TraceError(
            f"{folder / FACTS_FILE} is damaged", details=[("because", str(error).splitlines()[0])]
        ) from error


def read_trace(folder: Path) -> Trace:
    """Return the trace saved in `folder`; its arrays are read when asked for, one step in memory at a time.

    Raises:
        TraceError: the folder holds no complete trace, or a file is damaged.
    """
    if not is_complete(folder):
        steps = recorded_steps(folder)
        raise TraceError(
            f"no complete trace in {folder}",
            details=[
                ("found", f"{steps} recorded steps, but no {FACTS_FILE}: the run did not end" if steps else "nothing")
            ],
            next="name a folder under RUN/traces, or run the suite again",
        )
    facts = read_facts(folder)

    @lru_cache(maxsize=2)
    def load(step: int) -> TensorFile:
        path = step_file(folder, step)
        try:
            content = read_tensors(path)
            if content.about.get("step") != step:
                raise DamagedFile(f"it is not the file of step {step} that a run wrote")
        except DamagedFile as error:
            raise TraceError(
                f"{path} is damaged", details=[("because", str(error))], next="run the suite again"
            ) from error
        return content

    numbers = sorted(
        int(found.group(1))
        for path in folder.iterdir()
        if (found := re.fullmatch(r"step-(\d+)\.safetensors", path.name))
    )
    if numbers != list(range(1, facts.steps + 1)):
        raise TraceError(
            f"the trace in {folder} is not whole",
            details=[("found", f"{len(numbers)} of {facts.steps} steps")],
            next="run the suite again",
        )
    entries = tuple(
        Entry(step, key, array.dtype.name, array.shape) for step in numbers for key, array in load(step).arrays.items()
    )

    def read(entry: Entry) -> Array:
        return load(entry.step).arrays[entry.key]

    return Trace(facts, entries, read)
