"""Impossible tolerances: all faults at once, with their paths, before anything is trained."""

import pytest
from project import Project

FAULTY = """
[tolerance."grad/*"]
rtol = -1e-3
why = "negative"

[tolerance."loss"]
atol = nan
why = ""

[tolerance."param/*"]
why = "no number"

[suite.tiny."buffer/*"]
rtol = "1e-3"
why = "a text"

[suite.tinny."grad/*"]
rtol = 1e-3
colour = "red"
"""

PROBLEMS = [
    'tolerance."grad/*".rtol: -0.001 is not a finite number of at least 0',
    "tolerance.loss.atol: nan is not a finite number of at least 0",
    "tolerance.loss.why: ",
    'tolerance."param/*": neither rtol nor atol is given',
    'suite.tiny."buffer/*".rtol: ',
    "suite.tinny: no such suite; did you mean 'tiny'?",
    'suite.tinny."grad/*".why: ',
    'suite.tinny."grad/*".colour: ',
]


def test_every_fault_of_a_file_is_named_with_its_path(accepted: Project) -> None:
    (accepted.root / "t.toml").write_text(FAULTY)
    ran = accepted.run("--tolerances", "t.toml", "--out", "run")
    ran.refuses("ToleranceError", "t.toml has 8 faults", *PROBLEMS)
    assert not (accepted.root / "run").exists()


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (None, ["cannot read the tolerance file t.toml", "No such file"]),
        (b"rtol = = 1", ["t.toml is not TOML", "line 1"]),
        (b"\xff\xfe", ["cannot read the tolerance file t.toml"]),
        (b'[tolerances."*"]\nrtol = 1.0\nwhy = "typo"', ["t.toml has a fault", "tolerances"]),
        (b"tolerance = 3", ["t.toml has a fault", "tolerance: "]),
        (b"suite = [1]", ["t.toml has a fault", "suite: "]),
    ],
)
def test_a_file_that_is_none_is_refused(accepted_project: Project, content: bytes | None, texts: list[str]) -> None:
    path = accepted_project.root / "t.toml"
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content)
    accepted_project.run("--tolerances", "t.toml", "--out", "no").refuses("ToleranceError", *texts)


def test_a_file_may_speak_of_suites_that_are_not_run(accepted: Project) -> None:
    accepted.write("second", (accepted.root / "suites" / "tiny.py").read_text())
    (accepted.root / "t.toml").write_text('[suite.second."grad/*"]\nrtol = 1e-3\nwhy = "a test"\n')
    ran = accepted.run("tiny", "--tolerances", "t.toml")
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--rtol", "-1e-3"],
        ["--rtol", "nan"],
        ["--atol", "inf"],
        ["--atol", "grad/*=-1"],
        ["--rtol", "grad/*=nan"],
        ["--rtol", "grad/*"],
        ["--rtol", "grad/*=1e-3x"],
        ["--rtol", ""],
    ],
)
def test_an_impossible_number_on_the_command_line_is_refused(accepted_project: Project, arguments: list[str]) -> None:
    for command in (["run", "--out", "no"], ["compare", "run/traces/tiny/loop[cpu]", "run/traces/tiny/other[cpu]"]):
        ran = accepted_project.xla_equiv(*command, *arguments)
        ran.refuses("ToleranceError", "impossible tolerance on the command line", f"{arguments[0]} {arguments[1]}: ")
    assert not (accepted_project.root / "no").exists()


def test_all_impossible_numbers_are_named_at_once(accepted_project: Project) -> None:
    ran = accepted_project.run("--rtol", "-1", "--atol", "nan", "--rtol", "grad/*=x")
    ran.refuses("ToleranceError", "--rtol -1: ", "--atol nan: ", "--rtol grad/*=x: ")
