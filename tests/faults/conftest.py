"""Projects that tests share, because recording a golden costs a training."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from project import Project


@pytest.fixture(scope="session", autouse=True)
def _heeded_interrupts() -> None:
    """Undo that a shell lets what it starts in the background ignore Ctrl-C, which commands would inherit."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., Project]:
    """Return what makes a project with the suites that are named."""
    return lambda *names: Project(tmp_path / "project", *names)


@pytest.fixture(scope="session")
def accepted_project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project with the suite `tiny`, its goldens, and the run that they come from."""
    project = Project(tmp_path_factory.mktemp("accepted"), "tiny")
    assert project.run("--out", "run").code == 4
    assert project.xla_equiv("golden", "accept", "run", "--why", "a test").code == 0
    return project


@pytest.fixture
def accepted(accepted_project: Project, tmp_path: Path) -> Project:
    """Return a copy of the project with goldens, to be damaged."""
    return accepted_project.copy(tmp_path / "project")
