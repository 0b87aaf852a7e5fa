"""What does not exist: named, with the closest match, before anything is trained."""

from collections.abc import Callable

import pytest
from project import Project

Make = Callable[..., Project]


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (["tinny"], ["unknown suite", "no suite 'tinny'; did you mean 'tiny'? valid: tiny"]),
        (["tiny", "zzz", "tinny"], ["unknown suites", "no suite 'zzz'; valid: tiny", "did you mean 'tiny'?"]),
        (["-k", "tiny::othr[cpu]"], ["no test is left of 2", "did you mean 'tiny::other[cpu]'?"]),
        (["-k", "othr"], ["no test is left of 2", "did you mean 'other'? valid: loop, other"]),
        (["-k", "other and"], ["ill-formed", "a word is missing at the end"]),
        (["-k", "(other"], ["ill-formed", "a ')' is missing"]),
        (["--backend", "xla:cpi"], ["no backend 'xla:cpi'", "did you mean 'xla:cpu'? valid: cpu, xla:cpu, xla:tpu"]),
        (["--backend", "xla:cpu"], ["no test is left of 2", "-k and --backend leave none"]),
        (["--suites", "nowhere"], ["no folder nowhere", "xla-equiv new NAME"]),
        (["--suites", "golden"], ["no suites in golden"]),
    ],
)
def test_an_unknown_name_is_refused(project: Make, arguments: list[str], texts: list[str]) -> None:
    made = project("tiny")
    made.run(*arguments, "--out", "run").refuses("SelectionError", *texts)
    assert not (made.root / "run").exists()


def test_a_case_that_is_left_out_for_its_length_says_how_to_run_it(project: Make) -> None:
    made = project("tiny")
    text = (made.root / "suites" / "tiny.py").read_text()
    made.write("tiny", text.replace("micro_batches=2", "micro_batches=2, full=True"))
    made.run().refuses("SelectionError", "2 are marked full and need --full")


def test_a_suite_that_was_named_is_not_left_out_silently(project: Make) -> None:
    made = project("tiny")
    text = (made.root / "suites" / "tiny.py").read_text()
    made.write("long", text.replace("micro_batches=2", "micro_batches=2, full=True"))
    for names in (["long", "tiny"], ["tiny", "long"]):
        ran = made.run(*names, "--out", "run")
        ran.refuses("SelectionError", "a suite that was named", "- long", "--full")
        assert "- tiny" not in ran.err
    assert not (made.root / "run").exists()
    assert made.run("long", "tiny", "--full", "--out", "run").code == 4
    assert len(made.verdicts()) == 4


def test_a_backend_that_only_the_suite_names_is_refused_with_the_suite(project: Make) -> None:
    made = project("tiny")
    text = (made.root / "suites" / "tiny.py").read_text()
    made.write("tiny", text.replace('"other", backend="cpu"', '"other", backend="xla-cpu"'))
    made.run().refuses("SelectionError", "tiny::other[xla-cpu]", "did you mean 'xla:cpu'?")


@pytest.mark.parametrize("option", ["--rtol", "--atol"])
def test_an_unknown_key_pattern_is_refused_after_the_report_is_saved(accepted: Project, option: str) -> None:
    ran = accepted.run(option, "grd/*=1e-3", option, "grad/weight=1e-2", "--out", "run")
    ran.refuses("SelectionError", "the report is saved", "command line [grd/*]: no such key; did you mean 'grad/*'?")
    assert "grad/weight]" not in ran.err
    assert [verdict.status.value for verdict in accepted.report().verdicts] == ["EXACT", "EXACT"]
    assert "2 equivalent" in ran.out


def test_an_unknown_key_pattern_of_a_tolerance_file_is_refused(accepted: Project) -> None:
    (accepted.root / "t.toml").write_text('[suite.tiny."param/wieght"]\nrtol = 1e-3\nwhy = "a test"\n')
    ran = accepted.run("--tolerances", "t.toml", "--out", "run")
    ran.refuses("SelectionError", "tolerance file [param/wieght]: no such key; did you mean 'param/weight'?")
    assert len(accepted.report().verdicts) == 2


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (["tinny::loop[cpu]"], ["has no suite 'tinny'", "did you mean 'tiny'?"]),
        (
            ["tiny::lop[cpu]"],
            ["no complete trace of 'lop[cpu]'", "did you mean 'loop[cpu]'? valid: loop[cpu], other[cpu]"],
        ),
        (["tiny"], ["no complete trace of ''", "valid: loop[cpu], other[cpu]"]),
        (["tiny::loop[cpu]", "--key", "grad/wieght"], ["no key 'grad/wieght'", "did you mean 'grad/weight'?"]),
        (["tiny::loop[cpu]", "--step", "3"], ["at step 3"]),
        (["tiny::loop[cpu]", "--against", "othr[cpu]"], ["did you mean 'other[cpu]'?"]),
    ],
)
def test_show_names_the_closest_match(accepted_project: Project, arguments: list[str], texts: list[str]) -> None:
    accepted_project.xla_equiv("show", *arguments, "--run", "run").refuses("SelectionError", *texts)


@pytest.mark.parametrize(
    "arguments", [["run", "--nonsense"], ["rum"], ["run", "--workers", "0"], ["compare", "one"], []]
)
def test_wrong_usage_is_bad_input(project: Make, arguments: list[str]) -> None:
    ran = project("tiny").xla_equiv(*arguments)
    assert ran.code == 2
    assert "Traceback" not in ran.err
    assert "Usage:" in ran.err + ran.out


def test_a_backend_that_cannot_spread_replicas_so_is_refused(project: Make) -> None:
    made = project("tiny")
    text = (made.root / "suites" / "tiny.py").read_text()
    treatments = text.replace("LoopedAccumulation()", "LoopedAccumulation(), SpmdDataParallel()", 1)
    made.write("tiny", treatments.replace("import LoopedAccumulation", "import LoopedAccumulation, SpmdDataParallel"))
    made.run("--out", "run").refuses("SelectionError", "a suite spreads replicas", "cpu has no spmd", "xla:cpu or xla:tpu")
    assert not (made.root / "run").exists()
