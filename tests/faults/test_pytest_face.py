"""Under pytest, with and without xdist, every verdict is the one of the command line, shown as what it is."""

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest
from project import Project, Ran

from xla_equiv.values.verdict import Expectation, Status, Verdict

pytestmark = pytest.mark.skipif(
    any(Path("/dev").glob("accel*")) or any(Path("/dev").glob("vfio/[0-9]*")), reason="there is a TPU"
)

STATUSES = {
    "trusted[cpu]": Status.EXACT,
    "agrees[cpu]": Status.EXACT,
    "differs[cpu]": Status.OUTSIDE,
    "without_golden[cpu]": Status.NOGOLDEN,
    "absent[xla:tpu]": Status.UNVERIFIED,
    "known[cpu]": Status.OUTSIDE,
    "mended[cpu]": Status.EXACT,
    "otherwise[cpu]": Status.CRASHED,
}
OUTCOMES = {
    "trusted[cpu]": "passed",
    "agrees[cpu]": "passed",
    "differs[cpu]": "failure",
    "without_golden[cpu]": "failure",
    "absent[xla:tpu]": "pytest.skip",
    "known[cpu]": "pytest.xfail",
    "mended[cpu]": "failure",
    "otherwise[cpu]": "failure",
}
WAYS = {"alone": [], "distributed": ["-n", "2"]}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Mapping[str, Ran]]:
    """Return a project with goldens for some of its tests, and how it ran in each way."""
    project = Project(tmp_path_factory.mktemp("kinds"), "kinds", "tiny")
    assert project.run("--out", "first").code == 1
    chosen = "tiny or trusted or agrees"
    assert project.xla_equiv("golden", "accept", "first", "-k", chosen, "--why", "a test").code == 0
    ran = {"command": project.run("--out", "command")}
    for way, arguments in WAYS.items():
        ran[way] = project.pytest("suites", "--xe-report", way, f"--junitxml={way}.xml", *arguments)
    return project, ran


def kinds(project: Project, run: str) -> dict[str, Verdict]:
    return {test.partition("::")[2]: v for test, v in project.verdicts(run).items() if test.startswith("kinds::")}


@pytest.mark.parametrize("run", ["command", *WAYS])
def test_every_way_gives_the_same_verdicts(judged: tuple[Project, Mapping[str, Ran]], run: str) -> None:
    found = kinds(judged[0], run)
    assert {test: verdict.status for test, verdict in found.items()} == STATUSES
    assert found["known[cpu]"].expectation is Expectation.MET
    assert found["mended[cpu]"].expectation is Expectation.NOT_MET
    assert found["otherwise[cpu]"].is_green is False
    assert {v.status for t, v in judged[0].verdicts(run).items() if t.startswith("tiny::")} == {Status.EXACT}


def test_margins_and_numbers_are_the_same_too(judged: tuple[Project, Mapping[str, Ran]]) -> None:
    numbers = [{test: repr(v.comparisons) for test, v in judged[0].verdicts(run).items()} for run in ("command", *WAYS)]
    assert numbers[0] == numbers[1] == numbers[2]


@pytest.mark.parametrize("way", WAYS)
def test_the_exit_code_and_the_counts(judged: tuple[Project, Mapping[str, Ran]], way: str) -> None:
    ran = judged[1][way]
    assert ran.code == 1
    assert "4 failed, 4 passed, 1 skipped, 1 xfailed" in ran.out
    assert judged[1]["command"].code == 1


@pytest.mark.parametrize("way", WAYS)
def test_the_junit_file_has_outcomes_reasons_and_properties(
    judged: tuple[Project, Mapping[str, Ran]], way: str
) -> None:
    cases = ElementTree.parse(judged[0].root / f"{way}.xml").iter("testcase")
    found = {case.get("name", ""): case for case in cases if case.get("classname") == "suites.kinds"}
    assert {name: outcome(case) for name, case in found.items()} == OUTCOMES
    for name, case in found.items():
        properties = {one.get("name"): one.get("value") for one in case.iter("property")}
        assert properties["xla_equiv_status"] == STATUSES[name].value
        assert float(properties["xla_equiv_margin"] or "nan") >= 0


def outcome(case: ElementTree.Element) -> str:
    for child in case:
        if child.tag == "failure":
            return "failure"
        if child.tag == "skipped":
            return child.get("type", "")
    return "passed"


@pytest.mark.parametrize("way", WAYS)
def test_failures_are_told_in_the_house_form(judged: tuple[Project, Mapping[str, Ran]], way: str) -> None:
    out = judged[1][way].out
    for text in (
        "OUTSIDE: kinds::differs[cpu] left its tolerance (equivalence against trusted[cpu])",
        "1.001 times the reference at step 1",
        "NOGOLDEN: kinds::without_golden[cpu] has no golden",
        f"xla-equiv golden accept {way} -k 'kinds::without_golden[cpu]'",
        "EXACT: kinds::mended[cpu] expected failure did not occur",
        "remove the ExpectedFailure of mended[cpu] from suites/kinds.py",
        "CRASHED: kinds::otherwise[cpu] crashed: ArithmeticError: too much",
        "no TPU: neither /dev/accel* nor",
        "pip install 'torch_xla[tpu]==2.9.0'",
        f"report: {way}/report.json",
    ):
        assert text in out
    assert "Traceback" not in out


def test_a_selection_and_a_tolerance_can_be_given(judged: tuple[Project, Mapping[str, Ran]]) -> None:
    project = judged[0]
    ran = project.pytest("suites", "-k", "agrees or differs", "--xe-rtol", "1e-2", "--xe-report", "loose")
    assert ran.code == 1
    assert {test: verdict.status for test, verdict in kinds(project, "loose").items()} == {
        "agrees[cpu]": Status.EXACT,
        "differs[cpu]": Status.NOGOLDEN,
    }


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--xe-rtol", "nan"], "ToleranceError: impossible tolerance on the command line"),
        (["--xe-backend", "xla:cpi"], "SelectionError: no backend 'xla:cpi'"),
        (["--xe-tolerances", "nowhere.toml"], "ToleranceError: cannot read the tolerance file"),
        (["--xe-report", "first"], "OutputError: first already holds a run"),
        (["--xe-repeat", "0"], "--xe-repeat takes a whole number of at least 1"),
    ],
)
def test_bad_input_is_an_error_of_the_session(
    judged: tuple[Project, Mapping[str, Ran]], arguments: list[str], text: str
) -> None:
    ran = judged[0].pytest("suites", *arguments)
    assert ran.code in (2, 4)
    assert text in ran.out + ran.err
    assert "Traceback" not in ran.out + ran.err


@pytest.mark.parametrize("way", WAYS)
def test_a_session_in_which_nothing_could_be_judged_is_not_green(
    judged: tuple[Project, Mapping[str, Ran]], way: str
) -> None:
    ran = judged[0].pytest("suites/kinds.py", "--xe-backend", "xla:tpu", *WAYS[way])
    assert ran.code == pytest.ExitCode.NO_TESTS_COLLECTED, ran.out
    assert "1 skipped" in ran.out
    assert "nothing was judged" in ran.out


@pytest.mark.parametrize("way", WAYS)
def test_a_test_that_fails_beside_suites_that_are_skipped_is_told(
    judged: tuple[Project, Mapping[str, Ran]], tmp_path: Path, way: str
) -> None:
    path = tmp_path / "test_ordinary.py"
    path.write_text("def test_it():\n    assert False\n")
    ran = judged[0].pytest("suites/kinds.py", path, "--xe-backend", "xla:tpu", *WAYS[way])
    assert ran.code == pytest.ExitCode.TESTS_FAILED, ran.out
    assert "1 failed, 1 skipped" in ran.out


def test_an_item_is_called_as_it_is_selected(judged: tuple[Project, Mapping[str, Ran]]) -> None:
    project = judged[0]
    listed = project.pytest("suites/tiny.py", "--collect-only", "-q")
    ids = [line for line in listed.out.splitlines() if "::" in line]
    assert ids == ["suites/tiny.py::loop[cpu]", "suites/tiny.py::other[cpu]"]
    ran = project.pytest(ids[1], "--xe-report", "chosen")
    assert ran.code == 0, ran.out
    assert list(project.verdicts("chosen")) == ["tiny::other[cpu]"]
    assert (project.root / "chosen/verdicts/tiny/other[cpu].json").is_file()


@pytest.mark.parametrize("way", WAYS)
def test_a_tolerance_for_keys_that_do_not_exist_is_wrong_usage(
    judged: tuple[Project, Mapping[str, Ran]], way: str
) -> None:
    run = f"mistyped-{way}"
    arguments = ("--xe-rtol", "grd/*=1e-3", "--xe-atol", "loss=1e-3", "--xe-report", run)
    ran = judged[0].pytest("suites/tiny.py", *arguments, *WAYS[way])
    assert ran.code == pytest.ExitCode.USAGE_ERROR, ran.out
    assert "command line [grd/*]: no such key; did you mean 'grad/*'?" in ran.out
    assert "command line [loss]: no such key" not in ran.out
    assert judged[0].report(run).exit_code == 2
    assert judged[0].xla_equiv("report", run).code == 2
