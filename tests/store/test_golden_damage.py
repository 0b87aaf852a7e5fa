"""A golden that is damaged, incomplete or foreign is named, and never half-read."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from made_goldens import LOOP, accepted, arrays, bit_flips, made_test, made_trace, truncations
from safetensors.numpy import load_file, save_file

from xla_equiv.store.golden import manifest_path, read_golden
from xla_equiv.store.manifest import Manifest
from xla_equiv.store.tensors import write_tensors
from xla_equiv.values.errors import GoldenError

TEST = made_test()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return accepted(tmp_path)


def refused(path: Path, match: str) -> GoldenError:
    with pytest.raises(GoldenError, match=match) as caught:
        read_golden(path, TEST.id)
    assert caught.value.exit_code == 2
    assert str(path.parent / path.stem) in str(caught.value)
    return caught.value


def contents(path: Path) -> list[tuple[object, ...]]:
    golden = read_golden(path, TEST.id)
    assert golden is not None
    return [(*vars(entry).values(), array.tobytes()) for entry, array in golden.trace.arrays()]


def outcome(path: Path) -> object:
    """Return what is read from a golden, or whether its error names it."""
    try:
        return contents(path)
    except GoldenError as error:
        return "named" if path.stem in error.headline else error.headline


def test_tensors_cut_short_anywhere_are_refused_and_named(path: Path) -> None:
    for damaged in list(truncations(path.read_bytes()))[::7]:
        path.write_bytes(damaged)
        error = refused(path, "is damaged")
        assert error.next == f"git checkout -- '{path}' '{manifest_path(path)}'"


def test_a_flipped_bit_in_the_tensors_is_refused_or_changes_nothing(path: Path) -> None:
    original, whole = contents(path), path.read_bytes()
    for damaged in list(bit_flips(whole, bits=1))[::3]:
        path.write_bytes(damaged)
        assert outcome(path) in (original, "named")


def test_a_flipped_bit_in_the_manifest_never_changes_what_is_compared(path: Path) -> None:
    original, whole = contents(path), manifest_path(path).read_bytes()
    for damaged in bit_flips(whole, bits=1):
        manifest_path(path).write_bytes(damaged)
        assert outcome(path) in (original, "named")


def test_every_truncation_of_the_manifest_is_a_golden_error_or_changes_nothing(path: Path) -> None:
    original, whole = contents(path), manifest_path(path).read_bytes()
    for damaged in truncations(whole):
        manifest_path(path).write_bytes(damaged)
        assert outcome(path) in (original, "named")


def test_a_part_that_is_missing_is_named(path: Path) -> None:
    tensors = path.read_bytes()
    path.unlink()
    refused(path, "is damaged")
    path.write_bytes(tensors)
    manifest_path(path).unlink()
    refused(path, "cannot read the golden's manifest")


def test_the_golden_of_another_test_is_foreign(path: Path, tmp_path: Path) -> None:
    other = accepted(tmp_path / "other", made_test(LOOP))
    shutil.copy(other, path)
    error = refused(path, "belongs to another test")
    assert f"manifest '{TEST.id}', tensors 'mlp::{LOOP}'" in str(error)
    shutil.copy(manifest_path(other), manifest_path(path))
    refused(path, "belongs to another test")


def test_the_golden_of_another_class_of_devices_is_foreign(path: Path) -> None:
    other = path.with_name("while[tpu-v4].safetensors")
    shutil.copy(path, other)
    shutil.copy(manifest_path(path), manifest_path(other))
    assert "'xla-cpu' in the manifest" in str(refused(other, "belongs to another class of devices"))


def test_the_manifest_of_another_test_is_foreign(path: Path, tmp_path: Path) -> None:
    shutil.copy(manifest_path(accepted(tmp_path / "other", made_test(LOOP))), manifest_path(path))
    refused(path, "belongs to another test")


@pytest.mark.parametrize("about", [{"step": 1}, {"test": TEST.id}, {"test": TEST.id, "facts": 3}, {"test": TEST.id, "facts": {}}])
def test_a_sealed_file_that_is_no_golden_is_refused(path: Path, about: dict[str, object]) -> None:
    write_tensors(path, {"loss": np.ones(1)}, about)
    refused(path, "is not a golden of this project")


@pytest.mark.parametrize("name", ["loss", "/loss", "x/loss", "1/", "-1/loss", ""])
def test_tensors_under_other_names_are_no_golden(path: Path, name: str) -> None:
    save_file({**load_file(path), name: np.ones(1)}, path)
    refused(path, "is not a golden of this project")


def test_losses_edited_in_the_manifest_are_refused(path: Path) -> None:
    text = manifest_path(path).read_text()
    manifest_path(path).write_text(text.replace('"0.5"', '"0.6"'))
    assert "first 0.5 against 0.6" in str(refused(path, "is damaged"))
    manifest_path(path).write_text(text.replace('    "0.5",\n', ""))
    refused(path, "is damaged")


def test_losses_edited_in_the_tensors_are_refused_even_without_a_seal(path: Path) -> None:
    tensors = load_file(path)
    tensors["2/loss"] = np.array(0.6, np.float32)
    save_file(tensors, path)
    assert "its losses differ from those in its manifest" in str(refused(path, "is damaged"))


@pytest.mark.parametrize("format_line", ["format = 2", "format = 0", 'format = "1"', ""])
def test_another_format_is_refused_with_what_to_do(path: Path, format_line: str) -> None:
    text = manifest_path(path).read_text()
    manifest_path(path).write_text(text.replace("format = 1", format_line, 1))
    assert "this version reads 1" in refused(path, "has format").headline


def test_every_fault_of_a_manifest_is_listed(path: Path) -> None:
    text = manifest_path(path).read_text()
    for old, new in (("steps = 3", 'steps = "3"'), ('why = "first"', 'why = ""'), ("reruns = 2", "reruns = 2\nmore = 1")):
        assert old in text
        text = text.replace(old, new)
    manifest_path(path).write_text(text)
    assert [problem.partition(":")[0] for problem in refused(path, "is damaged").problems] == ["steps", "journal.0.why", "more"]


def test_a_golden_of_losses_only_is_no_damage(tmp_path: Path) -> None:
    recorded = {place: array for place, array in arrays().items() if place[1] == "loss"}
    path = accepted(tmp_path, TEST, made_trace(TEST, recorded))
    assert [place[1] for place in contents(path)] == ["loss"] * 3
    assert set(Manifest.model_fields) >= {"losses", "journal"}
