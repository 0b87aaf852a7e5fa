"""torch_xla of another release, and no torch_xla at all."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from project import Project

from xla_equiv.execute.environment import installed
from xla_equiv.values.verdict import Status

Make = Callable[..., Project]

HIDING = """
from importlib.machinery import PathFinder

find_spec = PathFinder.find_spec.__func__

def hiding(cls, name, path=None, target=None):
    return None if name.partition(".")[0] in {hidden!r} else find_spec(cls, name, path, target)

PathFinder.find_spec = classmethod(hiding)
"""


def first_on_path(folder: Path) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))}


@pytest.fixture
def another_release(tmp_path: Path) -> dict[str, str]:
    """Return variables under which torch_xla seems to be installed in version 2.8.1."""
    about = tmp_path / "site" / "torch_xla-2.8.1.dist-info" / "METADATA"
    about.parent.mkdir(parents=True)
    about.write_text("Metadata-Version: 2.1\nName: torch_xla\nVersion: 2.8.1\n")
    return first_on_path(tmp_path / "site")


def hiding(folder: Path, *hidden: str) -> dict[str, str]:
    """Return variables under which the packages `hidden` are not installed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(HIDING.format(hidden=hidden))
    return first_on_path(folder)


@pytest.fixture(scope="module")
def goldens(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project with goldens for all that runs without XLA."""
    project = Project(tmp_path_factory.mktemp("with_xla"), "with_xla")
    assert project.run("--backend", "cpu", "--out", "first").code == 4
    assert project.xla_equiv("golden", "accept", "first", "--why", "a test").code == 0
    return project


def test_packages_that_do_not_match_are_refused_with_the_fix(goldens: Project, another_release: dict[str, str]) -> None:
    ran = goldens.run("--out", "no", env=another_release)
    torch = installed("torch")
    ran.refuses("EnvironmentMismatch", f"torch {torch} does not match torch_xla 2.8.1", code=3)
    assert ran.next == "pip install 'torch==2.8.*'"
    assert not (goldens.root / "no").exists()


def test_packages_that_do_not_match_are_no_hindrance_without_xla(
    goldens: Project, another_release: dict[str, str]
) -> None:
    ran = goldens.run("--backend", "cpu", env=another_release)
    assert (ran.code, ran.err) == (0, "")


def test_under_pytest_packages_that_do_not_match_are_an_error(
    goldens: Project, another_release: dict[str, str]
) -> None:
    ran = goldens.pytest("suites", env=another_release)
    assert ran.code == 2
    assert "EnvironmentMismatch: torch " in ran.out
    assert "pip install 'torch==2.8.*'" in ran.out


def test_the_doctor_names_the_mismatch(goldens: Project, another_release: dict[str, str], tmp_path: Path) -> None:
    both = hiding(tmp_path / "site", "torch")
    ran = goldens.xla_equiv("doctor", env=both)
    assert ran.code == 3
    assert "torch pair: torch " in ran.out
    assert "pip install 'torch==2.8.*'" in ran.out


def test_without_torch_xla_its_backends_are_unverified_and_the_rest_is_judged(goldens: Project, tmp_path: Path) -> None:
    ran = goldens.run("--out", "without", env=hiding(tmp_path, "torch_xla"))
    assert (ran.code, ran.err) == (0, "")
    verdicts = goldens.verdicts("without")
    statuses = {test.partition("::")[2]: verdict.status for test, verdict in verdicts.items()}
    assert statuses == {
        "loop[cpu]": Status.EXACT,
        "other[cpu]": Status.EXACT,
        "other[xla:cpu]": Status.UNVERIFIED,
        "other[xla:tpu]": Status.UNVERIFIED,
    }
    absent = verdicts["with_xla::other[xla:cpu]"]
    assert absent.what.startswith("torch_xla is not installed (Linux ")
    assert absent.remedy.startswith("pip install 'torch==2.9.*' 'torch_xla==2.9.0'")
    assert "2 equivalent, 2 not verified" in ran.out
    assert f"{absent.what}; next: {absent.remedy}" in " ".join(ran.out.split())


def test_a_run_in_which_nothing_could_be_judged_is_not_green(goldens: Project, tmp_path: Path) -> None:
    ran = goldens.run("--backend", "xla:cpu", "--backend", "xla:tpu", env=hiding(tmp_path, "torch_xla"))
    assert (ran.code, ran.err) == (3, "")
    assert "2 not verified, nothing was judged" in ran.out


def test_without_torch_nothing_can_be_judged(goldens: Project, tmp_path: Path) -> None:
    ran = goldens.run("--out", "bare", env=hiding(tmp_path, "torch", "torch_xla"))
    assert (ran.code, ran.err) == (3, "")
    verdicts = goldens.verdicts("bare").values()
    assert {verdict.status for verdict in verdicts} == {Status.UNVERIFIED}
    assert all(verdict.what and verdict.remedy for verdict in verdicts)


def test_what_has_an_absent_reference_is_unverified_with_its_remedy(project: Make, tmp_path: Path) -> None:
    made = project("with_xla")
    text = (made.root / "suites" / "with_xla.py").read_text()
    made.write("with_xla", text.replace('"loop", backend="cpu"', '"loop", backend="xla:cpu"'))
    ran = made.run("-k", "other[cpu]", "--out", "run", env=hiding(tmp_path, "torch_xla"))
    assert ran.code == 3
    (verdict,) = made.verdicts().values()
    assert verdict.status is Status.UNVERIFIED
    assert verdict.what.startswith("its reference loop[xla:cpu] ended as UNVERIFIED: torch_xla is not installed")
    assert verdict.remedy.startswith("pip install 'torch==2.9.*' 'torch_xla==2.9.0'")


@pytest.mark.skipif(any(Path("/dev").glob("accel*")) or any(Path("/dev").glob("vfio/[0-9]*")), reason="there is a TPU")
def test_without_a_tpu_its_backend_is_unverified(goldens: Project) -> None:
    ran = goldens.run("-k", "xla:tpu", "--out", "tpu")
    assert (ran.code, ran.err) == (3, "")
    (verdict,) = goldens.verdicts("tpu").values()
    assert verdict.status is Status.UNVERIFIED
    assert verdict.what.startswith("no TPU: neither /dev/accel* nor ")
    assert "pip install 'torch_xla[tpu]==2.9.0'" in verdict.remedy
