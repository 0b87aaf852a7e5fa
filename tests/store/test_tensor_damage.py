"""A damaged tensor file is refused, or reads as exactly what was written. It never reads as something else."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from made_goldens import bit_flips, truncations
from safetensors import safe_open
from safetensors.numpy import save

from xla_equiv.store.tensors import METADATA_KEY, DamagedFile, TensorFile, read_tensors, write_tensors

ARRAYS = {
    "1/loss": np.array(0.5, np.float32),
    "1/grad/z": np.array([[1.0, -2.0], [0.0, 3.0]], ml_dtypes.bfloat16),
    "1/buffer/n": np.array([7], np.int64),
    "1/half": np.ones(2, ml_dtypes.float8_e5m2),
}
ABOUT = {"test": "mlp::while[xla:cpu]", "steps": 1}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "a.safetensors"
    write_tensors(path, ARRAYS, ABOUT)
    return path


def content(found: TensorFile) -> tuple[object, ...]:
    arrays = [(name, array.dtype.name, array.shape, array.tobytes()) for name, array in found.arrays.items()]
    return arrays, found.about, found.is_sealed


def accepted(path: Path, damaged_contents: Iterable[bytes]) -> list[object]:
    """Return what is read from `path` with each of `damaged_contents`, where anything is."""
    found = []
    for damaged in damaged_contents:
        path.write_bytes(damaged)
        try:
            found.append(content(read_tensors(path)))
        except DamagedFile:
            continue
    return found


def test_every_truncation_is_refused(written: Path) -> None:
    assert accepted(written, truncations(written.read_bytes())) == []


def test_a_file_with_something_behind_its_end_is_refused(written: Path) -> None:
    assert accepted(written, [written.read_bytes() + extra for extra in (b"\x00", b" ", b"{}", written.read_bytes())]) == []


def test_no_flipped_bit_changes_what_is_read(written: Path) -> None:
    original, whole = content(read_tensors(written)), written.read_bytes()
    flips = list(bit_flips(whole, bits=3))
    survived = accepted(written, flips)
    assert len(flips) == 3 * len(whole)
    assert len(survived) < len(flips) / 100
    assert all(one == original for one in survived)


def test_no_byte_set_to_zero_or_overwritten_changes_what_is_read(written: Path) -> None:
    original, whole = content(read_tensors(written)), written.read_bytes()
    replaced = (
        whole[:position] + bytes([value]) + whole[position + 1 :]
        for position in range(len(whole))
        for value in (0, 0x20, 0xFF)
        if whole[position] != value
    )
    assert all(one == original for one in accepted(written, replaced))


def test_a_block_of_zeros_as_a_full_disk_leaves_is_refused(written: Path) -> None:
    whole = written.read_bytes()
    zeroed = [whole[:n] + bytes(len(whole) - n) for n in range(0, len(whole) - 16, 16)]
    assert accepted(written, zeroed) == []


def resealed(path: Path, **changes: Any) -> bytes:
    """Return the file at `path` with parts of its metadata replaced, and its seal as it was."""
    with safe_open(path, framework="np") as stream:
        metadata = json.loads(stream.metadata()[METADATA_KEY])
        arrays = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 (not a dict)
    return save(arrays, metadata={METADATA_KEY: json.dumps({**metadata, **changes}, sort_keys=True)})


@pytest.mark.parametrize(
    "changes",
    [
        {"about": {**ABOUT, "steps": 2}},
        {"names": sorted(ARRAYS)},
        {"names": list(ARRAYS)[:-1]},
        {"names": [*ARRAYS, "1/none"]},
        {"names": 3},
        {"sha256": "0" * 64},
        {"as_bytes": {"1/half": "float8_e4m3fn"}},
        {"as_bytes": {"1/half": "float128_e9"}},
        {"as_bytes": ["1/half"]},
        {"as_bytes": {}},
        {"more": 1},
    ],
)
def test_facts_that_were_edited_break_the_seal(written: Path, changes: dict[str, Any]) -> None:
    assert len(accepted(written, [resealed(written)])) == 1
    assert accepted(written, [resealed(written, **changes)]) == []


def test_a_tensor_that_was_added_is_refused(written: Path) -> None:
    with safe_open(written, framework="np") as stream:
        metadata = stream.metadata()
        arrays = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 (not a dict)
    assert accepted(written, [save({**arrays, "2/loss": np.ones(1)}, metadata=metadata)]) == []


def test_values_that_were_edited_break_the_seal(written: Path) -> None:
    with safe_open(written, framework="np") as stream:
        metadata = stream.metadata()
        arrays = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 (not a dict)
    arrays["1/loss"] = np.array(0.25, np.float32)
    assert accepted(written, [save(arrays, metadata=metadata)]) == []


@pytest.mark.parametrize("metadata", ["", "3", "null", "[]", "{}", "{", '{"names": [], "about": {}}'])
def test_metadata_that_is_not_of_this_project_is_refused(written: Path, metadata: str) -> None:
    assert accepted(written, [save(dict(np.load(_npz(written))), metadata={METADATA_KEY: metadata})]) == []


def _npz(path: Path) -> Path:
    np.savez(path.with_suffix(".npz"), x=np.ones(2, np.float32))
    return path.with_suffix(".npz")


def test_a_seal_under_another_name_is_not_taken_for_the_file_of_another_tool(written: Path) -> None:
    renamed = written.read_bytes().replace(b'"xla_equiv"', b'"xla_equiW"')
    assert accepted(written, [renamed]) == []
