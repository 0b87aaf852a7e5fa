"""From judged tests to a report."""

import datetime
import os
import platform
from collections.abc import Iterable, Mapping, Sequence

from xla_equiv import __version__
from xla_equiv.execute.environment import installed
from xla_equiv.store.report import Report
from xla_equiv.store.runs import RunFolder
from xla_equiv.values.verdict import Verdict, exit_code

REPORTED_PACKAGES = ("torch", "torch_xla", "libtpu", "numpy")
REPORTED_VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS", "OMP_NUM_THREADS", "ATEN_CPU_CAPABILITY", "PJRT_DEVICE")


def build_report(
    folder: RunFolder, verdicts: Iterable[Verdict], *, options: Mapping[str, str], notes: Sequence[str] = (), unfinished: Sequence[str] = (), code: int | None = None
) -> Report:
    """Return the report of the run in `folder`; `code` is its exit code where the verdicts do not say it all."""
    verdicts = tuple(verdicts)
    return Report(
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        run=str(folder.path),
        provenance=controller_provenance(),
        options=options,
        verdicts=verdicts,
        notes=tuple(notes),
        unfinished=tuple(unfinished),
        exit_code=exit_code(verdicts) if code is None else code,
    )


def controller_provenance() -> dict[str, str]:
    """Return the versions and variables that hold for every worker of this run."""
    facts = {
        "xla_equiv": __version__,
        **{name: installed(name) for name in REPORTED_PACKAGES},
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        **{name: os.environ.get(name, "") for name in REPORTED_VARIABLES},
    }
    return {name: value for name, value in facts.items() if value}
