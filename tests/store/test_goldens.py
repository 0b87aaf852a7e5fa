"""Where goldens lie, what they keep, and what is read from them."""

from pathlib import Path

import numpy as np
import pytest
from made_goldens import LOOP, WHILE, accepted, arrays, made_test, made_trace
from safetensors.numpy import load_file, save_file

from xla_equiv.measure.inputs import stale_findings
from xla_equiv.store.golden import golden_files, golden_path, manifest_path, read_golden
from xla_equiv.store.manifest import read_manifest

KEPT = {(step, "loss") for step in (1, 2, 3)} | {(step, key) for step in (1, 3) for key in ("grad/z", "grad/a")} | {(3, "param/z")}


@pytest.mark.parametrize(
    ("label", "case", "device_class", "name"),
    [
        (WHILE, "", "xla-cpu", "while[xla-cpu]"),
        (WHILE, "deep", "xla-cpu", "deep.while[xla-cpu]"),
        (LOOP, "", "tpu-v4", "loop[tpu-v4]"),
        ("loop[cpu]", "a-b_2", "cpu", "a-b_2.loop[cpu]"),
    ],
)
def test_where_a_golden_lies(tmp_path: Path, label: str, case: str, device_class: str, name: str) -> None:
    path = golden_path(tmp_path, made_test(label, case=case), device_class)
    assert path == tmp_path / "mlp" / f"{name}.safetensors"
    assert manifest_path(path) == tmp_path / "mlp" / f"{name}.toml"


def test_a_golden_is_read_as_it_was_accepted(tmp_path: Path) -> None:
    test = made_test()
    trace = made_trace(test)
    golden = read_golden(accepted(tmp_path, test, trace), test.id)
    assert golden is not None
    assert golden.is_sealed
    assert {(entry.step, entry.key) for entry in golden.trace.entries} == KEPT
    for entry, array in golden.trace.arrays():
        assert array.tobytes() == arrays()[entry.step, entry.key].tobytes()
    assert golden.trace.facts.settings == trace.facts.settings
    assert set(golden.trace.facts.inputs) == {"batch/1/0/0", "batch/3/0/0"}
    assert (golden.trace.facts.run_s, golden.trace.facts.compile_s) == (0.0, 0.0)
    assert stale_findings(golden.trace.facts, trace.facts) == []


def test_a_golden_keeps_the_order_in_which_keys_were_recorded(tmp_path: Path) -> None:
    golden = read_golden(accepted(tmp_path), made_test().id)
    assert golden is not None
    assert [entry.key for entry in golden.trace.entries if entry.step == 3] == ["loss", "grad/z", "grad/a", "param/z"]


def test_a_golden_that_is_accepted_twice_is_the_same_bytes(tmp_path: Path) -> None:
    paths = [accepted(tmp_path / name) for name in ("one", "other")]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert manifest_path(paths[0]).read_bytes() == manifest_path(paths[1]).read_bytes()


def test_the_losses_stand_in_the_manifest_at_full_precision(tmp_path: Path) -> None:
    manifest = read_manifest(manifest_path(accepted(tmp_path)))
    assert [np.float32(text) for text in manifest.losses] == [arrays()[step, "loss"] for step in (1, 2, 3)]
    assert manifest.losses[2] == repr(float(np.float32(1 / 3)))
    assert (manifest.test, manifest.device_class, manifest.steps, manifest.reruns) == (made_test().id, "xla-cpu", 3, 2)
    text = manifest_path(tmp_path / "mlp" / "while[xla-cpu].safetensors").read_text()
    assert all(f'\n    "{loss}",\n' in text for loss in manifest.losses)


def test_more_than_nine_steps_stay_in_order(tmp_path: Path) -> None:
    test = made_test()
    recorded = {(step, "loss"): np.float32([step]) for step in range(1, 13)}
    path = accepted(tmp_path, test, made_trace(test, recorded))
    save_file(load_file(path), path)
    golden = read_golden(path, test.id)
    assert golden is not None
    assert golden.manifest.losses == [f"{step}.0" for step in range(1, 13)]


def test_where_there_is_no_golden_none_is_read(tmp_path: Path) -> None:
    assert read_golden(tmp_path / "mlp" / "while[xla-cpu].safetensors", made_test().id) is None
    assert list(golden_files(tmp_path / "none")) == []


def test_a_golden_that_another_tool_has_rewritten_is_read_without_a_seal(tmp_path: Path) -> None:
    test = made_test()
    path = accepted(tmp_path)
    tensors = load_file(path)
    tensors["3/grad/a"] = tensors["3/grad/a"] * np.float32(1.001)
    save_file(tensors, path)
    golden = read_golden(path, test.id)
    assert golden is not None
    assert not golden.is_sealed
    assert {(entry.step, entry.key) for entry in golden.trace.entries} == KEPT
    assert stale_findings(golden.trace.facts, made_trace(test).facts) == []


def test_all_goldens_are_listed_also_those_of_which_only_a_part_is_left(tmp_path: Path) -> None:
    paths = [accepted(tmp_path, made_test(label, suite=suite)) for suite in ("b", "a") for label in (WHILE, LOOP)]
    paths[0].unlink()
    manifest_path(paths[1]).unlink()
    (tmp_path / "a" / "notes.txt").write_text("other")
    assert list(golden_files(tmp_path)) == sorted(paths)
