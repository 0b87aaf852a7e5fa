"""A run of resumed trainings that several tests look at."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUITES = Path(__file__).parent / "resumed_suites"

collect_ignore = ["suites", "resumed_suites"]


@pytest.fixture(scope="session")
def resumed_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run of `resumed_suites/resuming.py`."""
    folder = tmp_path_factory.mktemp("resumed")
    command = [sys.executable, "-m", "xla_equiv", "run", "--workers", "1", "--suites", str(SUITES), "--out", "run"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=False)
    return folder / "run"
