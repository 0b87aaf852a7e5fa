"""Which goldens no test uses any more."""

from pathlib import Path

import pytest
from made_goldens import LOOP, WHILE, accepted, made_test, made_trace

from xla_equiv import Skip
from xla_equiv.store.golden import golden_files, golden_path
from xla_equiv.store.golden_life import delete_golden, unused_goldens
from xla_equiv.values.plan import expand

CLASSES = {"cpu": "cpu", "xla:cpu": "xla-cpu"}
TPU = {"cpu": "cpu", "xla:cpu": "tpu-*"}


def unused(root: Path, classes: dict[str, str], **changes: object) -> list[str]:
    tests = list(expand([made_test(**changes).named]))
    return [path.relative_to(root).as_posix() for path in unused_goldens(root, tests, lambda backend: classes[backend])]


def add(root: Path, *names: str, suite: str = "mlp") -> None:
    for name in names:
        (root / suite).mkdir(exist_ok=True)
        (root / suite / f"{name}.safetensors").write_bytes(b"")


def test_goldens_of_tests_that_exist_are_used(tmp_path: Path) -> None:
    for label in (LOOP, WHILE):
        accepted(tmp_path, made_test(label))
    assert unused(tmp_path, CLASSES) == []


def test_goldens_of_tests_that_are_gone_are_unused(tmp_path: Path) -> None:
    add(tmp_path, "while[xla-cpu]", "whil[xla-cpu]", "while2[xla-cpu]", "deep.while[xla-cpu]", "while[xla-gpu]", "while[cpu]")
    add(tmp_path, "while[xla-cpu]", suite="gone")
    assert unused(tmp_path, CLASSES) == [
        "gone/while[xla-cpu].safetensors",
        "mlp/deep.while[xla-cpu].safetensors",
        "mlp/whil[xla-cpu].safetensors",
        "mlp/while2[xla-cpu].safetensors",
        "mlp/while[cpu].safetensors",
        "mlp/while[xla-gpu].safetensors",
    ]


def test_every_device_class_of_a_pattern_is_used(tmp_path: Path) -> None:
    add(tmp_path, "while[tpu-v4]", "while[tpu-v5e]", "while[xla-cpu]", "loop[tpu-v4]", "whil[tpu-v4]", "loop[cpu]")
    assert unused(tmp_path, TPU) == ["mlp/whil[tpu-v4].safetensors", "mlp/while[xla-cpu].safetensors"]


def test_the_golden_of_a_case_is_used_by_that_case(tmp_path: Path) -> None:
    add(tmp_path, "deep.while[xla-cpu]", "while[xla-cpu]")
    assert unused(tmp_path, CLASSES, wanted=WHILE, case="deep") == ["mlp/while[xla-cpu].safetensors"]


def test_the_golden_of_a_test_that_is_skipped_is_unused(tmp_path: Path) -> None:
    add(tmp_path, "while[xla-cpu]", "loop[xla-cpu]")
    skips = [Skip(test="while*", why="senseless")]
    assert unused(tmp_path, CLASSES, skips=skips) == ["mlp/while[xla-cpu].safetensors"]


@pytest.mark.parametrize("part", [".safetensors", ".toml"])
def test_deleting_removes_every_part(tmp_path: Path, part: str) -> None:
    test = made_test()
    path = accepted(tmp_path, test, made_trace(test))
    path.with_name(path.name.replace(".safetensors", part)).unlink()
    assert list(golden_files(tmp_path)) == [path]
    delete_golden(path)
    assert list(path.parent.iterdir()) == []
    assert golden_path(tmp_path, test, "xla-cpu") == path
