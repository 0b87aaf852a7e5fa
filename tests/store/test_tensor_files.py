"""What is written to a tensor file is what is read from it."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from safetensors.numpy import save_file

from xla_equiv.store.tensors import DamagedFile, read_tensors, write_tensors
from xla_equiv.values.trace import Array

INTEGERS = [f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64)]
FLOATS = ["bfloat16", "float16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"]
DTYPES = [*INTEGERS, *FLOATS, "bool", "complex64", "complex128"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@st.composite
def tensors(draw: st.DrawFn) -> Array:
    """Draw an array of any dtype and shape, of random bits."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    size = int(np.prod(shape)) * dtype.itemsize
    data = draw(st.binary(min_size=size, max_size=size))
    if dtype == np.bool_:
        data = bytes(byte % 2 for byte in data)
    return np.frombuffer(data, dtype).reshape(shape)


def contents(arrays: dict[str, Array]) -> list[tuple[str, str, tuple[int, ...], bytes]]:
    return [(name, array.dtype.name, array.shape, array.tobytes()) for name, array in arrays.items()]


@given(st.dictionaries(NAMES, tensors(), max_size=5), st.dictionaries(st.text("abc"), JSON, max_size=3))
@settings(deadline=None)
def test_everything_comes_back_in_order_and_bit_by_bit(arrays: dict[str, Array], about: dict[str, Any]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.safetensors")
        write_tensors(path, arrays, about)
        found = read_tensors(path)
        assert found.is_sealed
        assert contents(dict(found.arrays)) == contents(arrays)
        assert found.about == about
        once = path.read_bytes()
        write_tensors(path, {name: array.copy() for name, array in arrays.items()}, dict(reversed(about.items())))
        assert path.read_bytes() == once


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (2, 0, 3)])
def test_every_dtype_and_shape_comes_back(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.ones(shape, np.dtype(dtype))
    write_tensors(tmp_path / "a", {"x": array}, {})
    found = read_tensors(tmp_path / "a").arrays["x"]
    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_arrays_in_any_memory_layout_are_written_as_what_they_hold(tmp_path: Path) -> None:
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    layouts = {"transposed": base.T, "strided": base[::2, ::3], "reversed": base[::-1], "fortran": np.asfortranarray(base)}
    write_tensors(tmp_path / "a", layouts, {})
    found = read_tensors(tmp_path / "a").arrays
    assert all(np.array_equal(found[name], array) for name, array in layouts.items())


def test_not_a_number_comes_back_in_values_and_facts(tmp_path: Path) -> None:
    values = np.array([0x7FC00001, 0xFF800000], np.uint32).view(np.float32)
    write_tensors(tmp_path / "a", {"x": values}, {"moments": [float("nan"), float("inf")]})
    found = read_tensors(tmp_path / "a")
    assert found.arrays["x"].tobytes() == values.tobytes()
    assert repr(found.about) == "{'moments': [nan, inf]}"


def test_the_order_of_the_names_is_part_of_the_content(tmp_path: Path) -> None:
    one, other = {"b": np.ones(2), "a": np.ones(2)}, {"a": np.ones(2), "b": np.ones(2)}
    for name, arrays in (("one", one), ("other", other)):
        write_tensors(tmp_path / name, arrays, {})
    assert list(read_tensors(tmp_path / "one").arrays) == ["b", "a"]
    assert (tmp_path / "one").read_bytes() != (tmp_path / "other").read_bytes()


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_a_file_of_another_tool_is_read_without_a_seal(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    arrays = {"x": np.arange(3, dtype=np.float32), "y": np.ones((), ml_dtypes.bfloat16)}
    save_file(arrays, tmp_path / "a", metadata=metadata)
    found = read_tensors(tmp_path / "a")
    assert (found.is_sealed, found.about) == (False, {})
    assert sorted(contents(dict(found.arrays))) == sorted(contents(arrays))


@pytest.mark.parametrize("content", [b"", b"\x00", b"not a tensor file at all", b"\xff" * 64, b"\x02" + b"\x00" * 7 + b"[]"])
def test_what_is_no_tensor_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(DamagedFile, match="cannot be read"):
        read_tensors(tmp_path / "a")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(DamagedFile, match="cannot be read"):
            read_tensors(path)
