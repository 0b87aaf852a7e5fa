"""Files of states, sealed: what was saved, where it comes from, and a SHA-256 over all of it.

`torch.load` notices a file that is cut short; it does not notice a number that has changed.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from xla_equiv.execute.arrays import to_array
from xla_equiv.store.atomic import write_bytes
from xla_equiv.values.errors import CheckpointError, in_one_line
from xla_equiv.values.shards import Layout, LayoutLists, from_lists

ORIGIN = "origin"
AGAIN = "train the steps before the checkpoint again, and save it anew"


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where the content of a file comes from.

    Args:
        run: common to all ranks of one run, and to no other run.
        step: the last one trained before it was saved.
        rank: whose it is.
        ranks: how many there were.
        process: identifies the process that saved it.
        parameters: names of the optimizer's parameters, in its order.
        layout: name of each sharded parameter -> the (name, shape) of the parameters in it.
        sha256: over everything else in the file; '' when a tool has written it that seals nothing.
    """

    run: str
    step: int
    rank: int
    ranks: int
    process: str
    parameters: Sequence[str]
    layout: LayoutLists
    sha256: str = ""

    @property
    def members(self) -> Layout:
        """Return the layout as members of the sharded parameters."""
        return from_lists(self.layout)


def write_sealed(path: Path, states: Mapping[str, Any], origin: Origin) -> None:
    """Write `states`, tensors on the CPU, and where they come from to `path`, in one step."""
    sealed = replace(origin, sha256=seal(states, _without_seal(origin)))
    stream = io.BytesIO()
    torch.save({**states, ORIGIN: asdict(sealed)}, stream)
    write_bytes(path, stream.getvalue())


def read_sealed(path: Path, needed: Sequence[str]) -> tuple[Origin, dict[str, Any]]:
    """Return where the content of `path` comes from, and its states by name.

    Raises:
        CheckpointError: the file is missing or damaged, or lacks one of the states `needed`.
    """
    states = read_states(path, (*needed, ORIGIN))
    try:
        origin = Origin(**states.pop(ORIGIN))
    except TypeError as error:
        raise _damaged(path, f"its origin cannot be read: {error}") from error
    if origin.sha256 and seal(states, _without_seal(origin)) != origin.sha256:
        raise _damaged(path, "its content differs from its SHA-256: it was changed after it was saved")
    return origin, states


def read_states(path: Path, needed: Sequence[str]) -> dict[str, Any]:
    """Return the states in `path`, by name, whoever wrote it.

    Raises:
        CheckpointError: the file is missing or unreadable, or lacks one of the states `needed`.
    """
    try:
        states = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise CheckpointError(f"there is no {path.name}", details=[place(path)], next=AGAIN) from error
    except Exception as error:
        raise _damaged(path, in_one_line(error)) from error
    if not isinstance(states, dict):
        raise _damaged(path, f"it holds a {type(states).__name__}, not states by name")
    lacking = [name for name in needed if name not in states]
    if lacking:
        found = ", ".join(map(str, states)) or "nothing"
        raise CheckpointError(
            f"{path.name} has no {' and no '.join(lacking)}", details=[place(path), ("found", found)], next=AGAIN
        )
    return states


def place(path: Path) -> tuple[str, str]:
    """Return the detail of an error that says in which folder `path` lies."""
    return "where", str(path.parent)


def seal(*content: Any) -> str:
    """Return the SHA-256 of names, values and tensors, however they are nested."""
    digest = hashlib.sha256()
    for part in _parts(content):
        digest.update(part)
    return digest.hexdigest()


def _without_seal(origin: Origin) -> dict[str, Any]:
    return asdict(replace(origin, sha256=""))


def _damaged(path: Path, because: str) -> CheckpointError:
    return CheckpointError(f"{path.name} is damaged", details=[place(path), ("because", because)], next=AGAIN)


def _parts(value: Any) -> Iterator[bytes]:
    """Yield what `value` consists of: names and plain values as text, tensors as their bytes."""
    if isinstance(value, Tensor):
        array = to_array(value)
        yield f"{array.dtype.name}{array.shape}".encode()
        yield array.tobytes()
    elif isinstance(value, Mapping):
        yield b"{"
        for name, one in value.items():
            yield f"{name!r}:".encode()
            yield from _parts(one)
        yield b"}"
    elif isinstance(value, list | tuple):
        yield b"["
        for one in value:
            yield from _parts(one)
        yield b"]"
    else:
        yield f"{value!r};".encode()
