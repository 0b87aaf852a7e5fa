"""`xla-equiv doctor`."""

import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click
from tabulate import tabulate

from xla_equiv import __version__
from xla_equiv.execute.backends import Backend, backends
from xla_equiv.execute.environment import installed, pair_problem, pair_remedy
from xla_equiv.execute.groups import Group
from xla_equiv.execute.process import WorkerDied, WorkerHung, WorkerProcess
from xla_equiv.faces.options import golden_option, suites_option
from xla_equiv.store.atomic import write_bytes
from xla_equiv.store.runs import DEFAULT_RUNS
from xla_equiv.values.errors import OutputError
from xla_equiv.values.verdict import EXIT_COULD_NOT_RUN, EXIT_EQUIVALENT

FREE_BYTES_WANTED = 1 << 30
SUPPORTED_PYTHONS = ((3, 10), (3, 13))


@dataclass(frozen=True)
class Check:
    """One thing looked at: `problem` is '' when it is fine; `is_grave` problems fail the command."""

    what: str
    found: str
    problem: str = ""
    fix: str = ""
    is_grave: bool = True


@click.command("doctor")
@suites_option
@golden_option
def command(suites_folder: Path, golden_folder: Path) -> int:
    """Check what a run needs: versions, the torch pair, every backend by one matmul, folders, disk."""
    checks = [*_versions(), *_folders(suites_folder, golden_folder), *(_backend(one) for one in backends().values())]
    rows = [(check.what, _state(check), check.found) for check in checks]
    click.echo(tabulate(rows, headers=("check", "state", "found"), disable_numparse=True))
    problems = [check for check in checks if check.problem]
    for check in problems:
        click.echo(f"\n{check.what}: {check.problem}\n  {'fix':<9} {check.fix}")
    return EXIT_COULD_NOT_RUN if any(check.is_grave for check in problems) else EXIT_EQUIVALENT


def _state(check: Check) -> str:
    if not check.problem:
        return "ok"
    return "problem" if check.is_grave else "note"


def _versions() -> list[Check]:
    lowest, highest = SUPPORTED_PYTHONS
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    is_supported = lowest <= sys.version_info[:2] <= highest
    wanted = f"{lowest[0]}.{lowest[1]} to {highest[0]}.{highest[1]}"
    problem = pair_problem()
    return [
        Check("xla_equiv", __version__),
        Check("python", version, "" if is_supported else f"Python {version} is not supported", f"use Python {wanted}"),
        Check(
            "torch pair",
            f"torch {installed('torch') or 'absent'}, torch_xla {installed('torch_xla') or 'absent'}",
            problem,
            problem and pair_remedy(),
        ),
        *(
            Check(name, installed(name) or "absent", is_grave=False)
            for name in ("libtpu", "numpy", "pytest", "pytest-xdist")
        ),
    ]


def _folders(suites_folder: Path, golden_folder: Path) -> list[Check]:
    checks = [
        Check(
            f"folder {path}",
            "there" if path.is_dir() else "absent",
            "" if path.is_dir() else "it does not exist",
            fix,
            is_grave=False,
        )
        for path, fix in (
            (suites_folder, "xla-equiv new NAME"),
            (golden_folder, "xla-equiv golden accept RUN --why TEXT"),
        )
    ]
    free = shutil.disk_usage(".").free
    checks.append(
        Check(
            "disk",
            f"{free >> 30} GiB free",
            "" if free >= FREE_BYTES_WANTED else "less than 1 GiB is free",
            "free space",
            is_grave=False,
        )
    )
    try:
        probe = DEFAULT_RUNS / ".doctor"
        write_bytes(probe, b"")
        probe.unlink()
        checks.append(Check(f"folder {DEFAULT_RUNS}", "can be written"))
    except OutputError as error:
        checks.append(Check(f"folder {DEFAULT_RUNS}", "cannot be written", error.headline, error.next))
    return checks


def _backend(backend: Backend) -> Check:
    """Start a worker of `backend` and let it multiply two matrices."""
    what = f"backend {backend.name}"
    absence = backend.absence()
    if absence:
        return Check(what, "not available", absence.reason, absence.remedy, is_grave=False)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "worker.log"
        worker = WorkerProcess(Group("", backend.name), log)
        try:
            event = worker.wait_ready()
        except (WorkerDied, WorkerHung) as error:
            worker.kill()
            last = log.read_text(errors="replace").strip().splitlines()[-1:]
            return Check(what, "does not start", str(error), f"see its last line: {' '.join(last)}")
        finally:
            worker.close()
    if event.kind == "failed":
        return Check(
            what, "does not start", event.what, "install matching versions of torch and torch_xla; free the device"
        )
    return Check(what, "multiplied two matrices")
