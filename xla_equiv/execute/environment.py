"""Whether the installed packages belong together."""

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from xla_equiv.execute.backends import find_backend
from xla_equiv.values.errors import EnvironmentMismatch


def installed(name: str) -> str:
    """Return the version of the distribution `name`, '' when it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def pair_problem() -> str:
    """Return what is wrong with the installed pair of torch and torch_xla; '' when nothing is.

    torch_xla is built against one minor release of torch and does not say so in its metadata.
    """
    torch, torch_xla = installed("torch"), installed("torch_xla")
    if not torch or not torch_xla or torch.split(".")[:2] == torch_xla.split(".")[:2]:
        return ""
    return f"torch {torch} does not match torch_xla {torch_xla}"


def pair_remedy() -> str:
    """Return the command that installs the torch that the installed torch_xla was built for."""
    minor = ".".join(installed("torch_xla").split(".")[:2])
    return f"pip install 'torch=={minor}.*'"


def check_pair(backends: Iterable[str]) -> None:
    """Make sure that the XLA backends among `backends` can be trusted.

    Raises:
        EnvironmentMismatch: torch and torch_xla are of different releases.
    """
    problem = pair_problem()
    if problem and any("torch_xla" in find_backend(name).packages for name in backends):
        raise EnvironmentMismatch(
            problem,
            details=[("because", "torch_xla works with the torch of its own minor release only")],
            next=pair_remedy(),
        )
