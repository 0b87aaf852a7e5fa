"""Safetensors files with one sealed metadata entry: order of the names, facts, and a SHA-256 over all of it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  (registers bfloat16 with numpy, without which safetensors cannot read it)
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from xla_equiv.store.atomic import write_bytes
from xla_equiv.values.trace import Array

METADATA_KEY = "xla_equiv"
"""The only metadata key: with several, safetensors does not write the same bytes twice."""

WIDTHS = (8, 16, 32, 64)
INTEGERS = (*(f"int{width}" for width in WIDTHS), *(f"uint{width}" for width in WIDTHS))
PORTABLE = (*INTEGERS, "bool", "bfloat16", "float16", "float32", "float64", "complex64")
"""dtypes that safetensors both writes from numpy and reads into it; others are stored as bytes, with their name."""


@dataclass(frozen=True)
class TensorFile:
    """The content of one file.

    Args:
        arrays: name -> array, in the order in which they were written.
        about: the facts stored with them.
        is_sealed: whether the file carries a seal. One written by another tool does not.
    """

    arrays: Mapping[str, Array]
    about: Mapping[str, Any]
    is_sealed: bool


class DamagedFile(Exception):
    """A file that cannot be read, or whose seal is broken. The caller names what the file was for."""


def write_tensors(path: Path, arrays: Mapping[str, Array], about: Mapping[str, Any]) -> None:
    """Write `arrays` and `about` to `path` atomically; equal input gives equal bytes."""
    contiguous = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()}
    content: dict[str, Any] = {"names": list(contiguous), "about": dict(about)}
    as_bytes = {name: array.dtype.name for name, array in contiguous.items() if array.dtype.name not in PORTABLE}
    if as_bytes:
        content["as_bytes"] = as_bytes
    content["sha256"] = _seal(contiguous, content)
    stored = {name: _to_bytes(array) if name in as_bytes else array for name, array in contiguous.items()}
    write_bytes(path, save(stored, metadata={METADATA_KEY: json.dumps(content, sort_keys=True)}))


def read_tensors(path: Path) -> TensorFile:
    """Return the content of `path`, all of it checked against its seal.

    Raises:
        DamagedFile: the file is missing, truncated, not a safetensors file, or differs from its seal.
    """
    try:
        with safe_open(path, framework="np") as stream:
            metadata = stream.metadata() or {}
            arrays = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 (not a dict)
    except (OSError, SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedFile(f"cannot be read: {error}") from error
    if METADATA_KEY not in metadata:
        if any('"sha256"' in value for value in metadata.values()):
            raise DamagedFile("its metadata cannot be read: the seal stands under another name")
        return TensorFile(arrays, {}, is_sealed=False)
    try:
        content = json.loads(metadata[METADATA_KEY])
        ordered = {name: arrays[name] for name in content["names"]}
        ordered |= {name: _from_bytes(ordered[name], dtype) for name, dtype in content.get("as_bytes", {}).items()}
        seal, about = content.pop("sha256"), content["about"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFile(f"its metadata cannot be read: {error}") from error
    if len(ordered) != len(arrays) or _seal(ordered, content) != seal:
        raise DamagedFile("its content differs from its SHA-256: it was changed after it was written")
    return TensorFile(ordered, about, is_sealed=True)


def _to_bytes(array: Array) -> Array:
    return array.reshape(*array.shape, 1).view(np.uint8)


def _from_bytes(array: Array, dtype: str) -> Array:
    return array.view(np.dtype(dtype)).reshape(array.shape[:-1])


def _seal(arrays: Mapping[str, Array], content: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype.name} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
