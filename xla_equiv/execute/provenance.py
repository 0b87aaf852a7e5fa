"""Everything that explains numbers: versions, device, flags, precision, threads."""

import os
import platform
import subprocess
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

import torch

from xla_equiv.execute.backends import Backend
from xla_equiv.execute.graphs import without_dump_flags

EXPLAINING_VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS", "XLA_USE_BF16", "XLA_DOWNCAST_BF16", "ATEN_CPU_CAPABILITY")


def package_version(name: str) -> str:
    """Return the installed version of the distribution `name`, '' when it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def provenance(backend: Backend) -> dict[str, str]:
    """Return name -> value of what explains the numbers of this process; never a path."""
    facts = {
        "backend": backend.name,
        "device_class": backend.device_class(),
        "device": str(backend.device().type),
        **{package: package_version(package) for package in backend.packages},
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "matmul_precision": torch.get_float32_matmul_precision(),
        **{name: without_dump_flags(os.environ.get(name, "")) for name in EXPLAINING_VARIABLES},
        "revision": _git_revision(),
    }
    return {name: value for name, value in facts.items() if value}


@lru_cache(maxsize=1)
def _git_revision() -> str:
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""
