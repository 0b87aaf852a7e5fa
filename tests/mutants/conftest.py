"""The suites of mutants are run by the real command, once; they are not collected as tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xla_equiv.store.report import Report, read_report

SUITES = Path(__file__).parent / "suites"

collect_ignore = ["suites", "replica_suites", "treatment_suites"]


def xla_equiv(*arguments: str | Path, suites: Path = SUITES) -> int:
    """Return the exit code of `xla-equiv` with `arguments`."""
    command = [sys.executable, "-m", "xla_equiv", *map(str, arguments), "--suites", str(suites)]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False).returncode


def report_of(suites: Path, out: Path) -> Report:
    """Return the report of a run of all suites in the folder `suites`, without goldens, into `out`."""
    xla_equiv("run", "--out", out / "run", "--golden", out / "golden", suites=suites)
    return read_report(out / "run" / "report.json")


@pytest.fixture(scope="session")
def broken_replicas(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return the report of a run of the suite of replicas that are broken."""
    return report_of(SUITES.with_name("replica_suites"), tmp_path_factory.mktemp("replicas"))


@pytest.fixture(scope="session")
def broken_treatments(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return the report of a run of the suites of treatments that are broken."""
    return report_of(SUITES.with_name("treatment_suites"), tmp_path_factory.mktemp("treatments"))


@pytest.fixture(scope="session")
def mutants_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, int]:
    """Return the report of a run of all suites of mutants, whose path is its `run`, and its exit code."""
    folder = tmp_path_factory.mktemp("mutants")
    code = xla_equiv("run", "--workers", "2", "--out", folder / "run", "--golden", folder / "golden")
    return read_report(folder / "run" / "report.json"), code


@pytest.fixture(scope="session")
def second_run(mutants_run: tuple[Report, int]) -> tuple[Report, int]:
    """Return the report and the exit code of a second run of the rewrites, with the goldens of the first."""
    run = Path(mutants_run[0].run)
    golden = run.with_name("golden")
    accepted = xla_equiv("golden", "accept", run, "-k", "harmless_rewrites", "--why", "a test", "--golden", golden)
    assert accepted == 0
    code = xla_equiv("run", "harmless_rewrites", "--out", run.with_name("second"), "--golden", golden)
    return read_report(run.with_name("second") / "report.json"), code
