"""The committed suites against the committed goldens, as a user and as CI run them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

PROCESSORS = {
    "one thread": {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NPROC": "1"},
    "two threads": {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "NPROC": "2"},
    "generic kernels": {"ATEN_CPU_CAPABILITY": "default", "XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2"},
    "AVX2 kernels": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
    },
}
"""Environments in which kernels take sums in another order than where the goldens were recorded."""


def run(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, env={**os.environ, **(env or {})}, capture_output=True, text=True
    )


def statuses(report: Path) -> dict[str, str]:
    return {verdict["test"]: verdict["status"] for verdict in json.loads(report.read_text())["verdicts"]}


@pytest.mark.parametrize("processor", PROCESSORS)
def test_verdicts_do_not_depend_on_the_processor(processor: str, tmp_path: Path) -> None:
    found = run("xla_equiv", "run", "--out", str(tmp_path / "run"), env=PROCESSORS[processor])
    assert found.returncode == 0, found.stdout + found.stderr


def test_pytest_gives_the_same_verdicts_alone_and_distributed(tmp_path: Path) -> None:
    for name, options in (("alone", ()), ("distributed", ("-n", "2"))):
        found = run("pytest", "suites", "-q", "--xe-report", str(tmp_path / name), *options)
        assert found.returncode == 0, found.stdout + found.stderr
    alone = statuses(tmp_path / "alone" / "report.json")
    assert alone
    assert alone == statuses(tmp_path / "distributed" / "report.json")


def test_the_published_losses_are_met_at_full_size_by_every_arm(tmp_path: Path) -> None:
    found = run("xla_equiv", "run", "published_mlp", "--full", "-k", "full_size", "--out", str(tmp_path / "run"))
    assert found.returncode == 0, found.stdout + found.stderr
    verdicts = json.loads((tmp_path / "run" / "report.json").read_text())["verdicts"]
    met = {
        verdict["test"]: [c["compared"] for c in verdict["comparisons"] if c["against"].startswith("published")]
        for verdict in verdicts
        if verdict["status"] != "UNVERIFIED"
    }
    assert met == {f"published_mlp::full_size.{arm}": [8] for arm in ("loop[cpu]", "loop[xla:cpu]", "while[xla:cpu]")}
