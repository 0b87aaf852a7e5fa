"""Traces on disk: complete, incomplete and damaged."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_goldens import arrays, bit_flips, truncations
from safetensors.numpy import load_file, save_file

from xla_equiv.store.traces import FACTS_FILE, is_complete, read_trace, recorded_steps, write_facts, write_step
from xla_equiv.values.errors import TraceError
from xla_equiv.values.graph import GraphFacts, ModuleFacts
from xla_equiv.values.trace import InputDigest, RunFacts

FACTS = RunFacts(
    test="mlp::while[xla:cpu]",
    steps=3,
    provenance={"torch": "2.9.0", "note": "größer ‰"},
    inputs={"batch/1/0/0": InputDigest("float32", (2, 3), "ab" * 32, (1.5, 2.5, 1e-9)), "n": InputDigest("int64", (), "", (0, 0, 0))},
    settings={"optimizer": "SGD(lr=0.1)"},
    graph=GraphFacts((ModuleFacts("f" * 64, {"dot": 2, "while": 1}, (4,)),)),
    unproven=("no while",),
    notes=("tied again",),
    compile_s=0.1,
    run_s=0.25,
)


def write(folder: Path, facts: RunFacts | None = FACTS) -> Path:
    for step in (1, 2, 3):
        write_step(folder, step, {key: array for (one, key), array in arrays().items() if one == step})
    if facts:
        write_facts(folder, facts)
    return folder


def test_a_trace_comes_back_as_it_was_recorded(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "trace"))
    assert trace.facts == FACTS
    assert [(entry.step, entry.key) for entry in trace.entries] == list(arrays())
    for entry, array in trace.arrays():
        assert array.tobytes() == arrays()[entry.step, entry.key].tobytes()
        assert (entry.dtype, entry.shape) == (array.dtype.name, array.shape)


def test_arrays_can_be_read_in_any_order(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path))
    for entry in reversed(trace.entries):
        assert np.array_equal(trace.read(entry), arrays()[entry.step, entry.key])


def test_a_step_in_which_nothing_was_recorded_is_read(tmp_path: Path) -> None:
    write_step(tmp_path, 1, {})
    write_facts(tmp_path, RunFacts(test="a", steps=1))
    assert read_trace(tmp_path).entries == ()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_inputs_that_are_not_finite_come_back(tmp_path: Path, value: float) -> None:
    facts = RunFacts(test="a", steps=1, inputs={"x": InputDigest("float32", (1,), "", (value, 0.0, value))}, run_s=value)
    write_step(tmp_path, 1, {})
    write_facts(tmp_path, facts)
    assert repr(read_trace(tmp_path).facts) == repr(facts)


def test_a_run_that_did_not_end_is_not_complete_but_counted(tmp_path: Path) -> None:
    write(tmp_path, facts=None)
    assert not is_complete(tmp_path)
    assert recorded_steps(tmp_path) == 3
    with pytest.raises(TraceError, match=r"3 recorded steps, but no facts\.json: the run did not end"):
        read_trace(tmp_path)
    write_facts(tmp_path, FACTS)
    assert is_complete(tmp_path)


@pytest.mark.parametrize("name", ["none", "none/deeper"])
def test_a_folder_without_a_trace_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TraceError, match="no complete trace") as caught:
        read_trace(tmp_path / name)
    assert caught.value.details == (("found", "nothing"),)
    assert recorded_steps(tmp_path / name) == 0


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"[]", b"{}", b'{"test": 3, "steps": "x"}', b"\xff\xfe", b'{"test":"a","steps":1.5}'])
def test_facts_that_cannot_be_read_are_named(tmp_path: Path, content: bytes) -> None:
    (write(tmp_path) / FACTS_FILE).write_bytes(content)
    with pytest.raises(TraceError, match=r"facts\.json is damaged"):
        read_trace(tmp_path)


def test_every_truncation_of_the_facts_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path) / FACTS_FILE
    for damaged in truncations(path.read_bytes().rstrip()):
        path.write_bytes(damaged)
        with pytest.raises(TraceError):
            read_trace(tmp_path)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_damaged_step_is_named(tmp_path: Path, step: int) -> None:
    path = write(tmp_path) / f"step-{step:05d}.safetensors"
    whole = path.read_bytes()
    damages: list[Any] = [whole[:-1], b"", *list(bit_flips(whole, bits=1))[-20:]]
    for damaged in damages:
        path.write_bytes(damaged)
        with pytest.raises(TraceError, match=f"step-{step:05d}.safetensors is damaged") as caught:
            list(read_trace(tmp_path).arrays())
        assert caught.value.next == "run the suite again"


def test_a_step_that_is_damaged_after_the_trace_was_opened_is_named(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path))
    list(trace.arrays())
    (tmp_path / "step-00001.safetensors").write_bytes(b"")
    with pytest.raises(TraceError, match="step-00001"):
        trace.read(trace.entries[0])


def test_files_of_others_in_the_folder_are_no_steps(tmp_path: Path) -> None:
    write(tmp_path)
    for name in ("step-x.safetensors", ".step-00004.safetensors.abc.part", "log.txt"):
        (tmp_path / name).write_text("other")
    assert len(read_trace(tmp_path).entries) == len(arrays())


@pytest.mark.parametrize("gone", [(1,), (2,), (3,), (2, 3), (1, 2, 3)])
def test_a_trace_without_some_of_its_steps_is_refused(tmp_path: Path, gone: tuple[int, ...]) -> None:
    write(tmp_path)
    for step in gone:
        (tmp_path / f"step-{step:05d}.safetensors").unlink()
    with pytest.raises(TraceError, match="is not whole") as caught:
        read_trace(tmp_path)
    assert caught.value.details == (("found", f"{3 - len(gone)} of 3 steps"),)


def test_a_trace_with_a_step_that_was_not_trained_is_refused(tmp_path: Path) -> None:
    write_step(write(tmp_path), 4, {})
    with pytest.raises(TraceError, match="is not whole"):
        read_trace(tmp_path)


def test_a_step_in_the_place_of_another_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "step-00002.safetensors").write_bytes((tmp_path / "step-00003.safetensors").read_bytes())
    with pytest.raises(TraceError, match=r"step-00002\.safetensors is damaged") as caught:
        read_trace(tmp_path)
    assert caught.value.details == (("because", "it is not the file of step 2 that a run wrote"),)


def test_a_step_that_another_tool_has_written_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path) / "step-00002.safetensors"
    save_file(load_file(path), path)
    with pytest.raises(TraceError, match=r"step-00002\.safetensors is damaged"):
        read_trace(tmp_path)
