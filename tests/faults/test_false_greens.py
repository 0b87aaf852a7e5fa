"""What must not pass for an agreement: broken devices, patched references, idle trainings, known faults gone astray."""

from collections.abc import Callable

import pytest
from project import Project

from xla_equiv.values.verdict import ComparisonKind, Expectation, Status, Verdict

Make = Callable[..., Project]


def equivalence(verdict: Verdict) -> Status:
    return next(one.status for one in verdict.comparisons if one.kind is ComparisonKind.EQUIVALENCE)


BROKEN = 'Variant("broken", backend="xla:cpu", treatments=LOOP, env={"PJRT_DEVICE": "BOGUS"})'
OTHER = 'Variant("other", backend="cpu", treatments=LOOP)'


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project with a variant on a device that is there and does not start."""
    project = Project(tmp_path_factory.mktemp("broken"), "tiny")
    text = (project.root / "suites" / "tiny.py").read_text()
    project.write("tiny", text.replace(OTHER, f"{OTHER}, {BROKEN}"))
    return project


def test_a_device_that_does_not_start_has_crashed(broken: Project) -> None:
    ran = broken.run("--out", "run")
    assert (ran.code, ran.err) == (3, "")
    verdict = broken.verdicts()["tiny::broken[xla:cpu]"]
    assert verdict.status is Status.CRASHED
    assert verdict.what.startswith("the device does not start: ")
    assert "Traceback" in (broken.root / "run" / verdict.log).read_text()
    assert equivalence(broken.verdicts()["tiny::other[cpu]"]) is Status.EXACT
    assert "not verified" not in ran.out


def test_under_pytest_a_device_that_does_not_start_fails(broken: Project) -> None:
    ran = broken.pytest("suites/tiny.py::broken[xla:cpu]", "--xe-report", "pytest")
    (verdict,) = broken.verdicts("pytest").values()
    assert (ran.code, verdict.status) == (1, Status.CRASHED)
    assert "1 failed" in ran.out


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("patched"), "patching")
    assert project.run("--out", "run").code == 1
    return project


@pytest.mark.parametrize("case", ["first", "second"])
def test_a_candidate_does_not_change_what_a_later_case_is_judged_by(patched: Project, case: str) -> None:
    verdict = patched.verdicts()[f"patching::{case}.patches[cpu]"]
    assert verdict.status is Status.OUTSIDE
    assert equivalence(verdict) is Status.OUTSIDE


def test_a_suite_that_changes_the_working_directory_is_judged_all_the_same(patched: Project) -> None:
    verdicts = patched.verdicts()
    assert len(verdicts) == 4
    assert {verdict.status for verdict in verdicts.values()} == {Status.NOGOLDEN, Status.OUTSIDE}
    assert len(list(patched.root.glob("run/traces/patching/*/facts.json"))) == 4


def test_under_pytest_too(patched: Project) -> None:
    ran = patched.pytest("suites", "--xe-report", "pytest")
    assert ran.code == 1
    statuses = {test: verdict.status for test, verdict in patched.verdicts("pytest").items()}
    assert statuses == {test: verdict.status for test, verdict in patched.verdicts().items()}


@pytest.fixture(scope="module")
def vacuous(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("vacuous"), "vacuous")
    assert project.run("--out", "run").code == 1
    return project


@pytest.mark.parametrize(
    ("case", "what"),
    [
        ("zero", "every gradient of the reference is zero"),
        ("unused", "the reference has no gradient"),
        ("still", "no parameter of the reference has moved from its initial value"),
    ],
)
def test_a_training_that_trains_nothing_is_blind(vacuous: Project, case: str, what: str) -> None:
    verdict = vacuous.verdicts()[f"vacuous::{case}.other[cpu]"]
    assert verdict.status is Status.BLIND
    found = [finding.what for comparison in verdict.comparisons for finding in comparison.findings]
    assert f"{what}: nothing could fail" in found


def test_one_that_trains_is_not_blind(vacuous: Project) -> None:
    assert equivalence(vacuous.verdicts()["vacuous::trains.other[cpu]"]) is Status.EXACT


@pytest.mark.parametrize("trusted", ["LOOP", "[Raising()]"], ids=["trusted", "raising"])
def test_a_known_crash_does_not_cover_a_reference_that_crashes(project: Make, trusted: str) -> None:
    made = project("kinds")
    text = (made.root / "suites" / "kinds.py").read_text()
    text = text.replace('"trusted", backend="cpu", treatments=LOOP', f'"trusted", backend="cpu", treatments={trusted}')
    known = 'ExpectedFailure(test="otherwise[cpu]", status=Status.OUTSIDE,'
    assert known in text
    made.write("kinds", text.replace(known, known.replace("OUTSIDE", 'CRASHED, raises="ArithmeticError"')))
    ran = made.run("-k", "otherwise or known", "--out", "run")
    verdicts = {test.partition("::")[2]: verdict for test, verdict in made.verdicts().items()}
    if trusted == "LOOP":
        assert ran.code == 0
        assert {verdict.expectation for verdict in verdicts.values()} == {Expectation.MET}
        return
    assert ran.code == 3
    known_difference = verdicts["known[cpu]"]
    assert (known_difference.status, known_difference.is_green) == (Status.CRASHED, False)
    assert known_difference.what.startswith("its reference trusted[cpu] ended as CRASHED: ")


def test_an_expected_crash_says_which(project: Make) -> None:
    made = project("kinds")
    text = (made.root / "suites" / "kinds.py").read_text()
    made.write("kinds", text.replace('"known[cpu]", status=Status.OUTSIDE', '"known[cpu]", status=Status.CRASHED'))
    made.run("--out", "run").refuses("SuiteError", "the ExpectedFailure of 'known[cpu]' accepts every CRASHED")


def test_a_run_of_which_every_reference_crash_was_foreseen_is_not_green(project: Make) -> None:
    """The fault names the exception that the reference raises too, which is another fault."""
    made = project("kinds")
    text = (made.root / "suites" / "kinds.py").read_text()
    text = text.replace('"trusted", backend="cpu", treatments=LOOP', '"trusted", backend="cpu", treatments=[Raising()]')
    old = '"mended[cpu]", status=Status.OUTSIDE'
    assert old in text
    made.write("kinds", text.replace(old, '"mended[cpu]", status=Status.CRASHED, raises="ArithmeticError"'))
    assert made.run("-k", "mended", "--out", "run").code == 3
    (verdict,) = made.verdicts().values()
    assert (verdict.status, verdict.expectation) == (Status.CRASHED, Expectation.NONE)


def test_keys_that_a_treatment_cannot_record_are_named(project: Make) -> None:
    made = project("tiny")
    text = (made.root / "suites" / "tiny.py").read_text()
    treatment = "class Quiet(LoopedAccumulation):\n    unobserved = ('loss/*', 'grad_norm')\n\n\nSUITE ="
    text = text.replace("SUITE =", treatment).replace('"other", backend="cpu", treatments=LOOP', '"other", backend="cpu", treatments=[Quiet()]')
    made.write("tiny", text)
    ran = made.run("--out", "run")
    assert ran.code == 4
    shown = made.xla_equiv("report", "run", "--markdown", "report.md")
    for text in (ran.out, shown.out, (made.root / "report.md").read_text()):
        (line,) = (line for line in text.splitlines() if line.startswith("left out"))
        assert line.split(maxsplit=2)[2] == "loss/*, grad_norm cannot be recorded by tiny::other[cpu]"
