"""Runs, reports and traces that are not there, or damaged."""

import json
import shutil
from pathlib import Path

import pytest
from project import Project


@pytest.fixture
def run(accepted_project: Project, tmp_path: Path) -> tuple[Project, Path]:
    """Return a project, and a run folder in it that may be damaged."""
    project = accepted_project.copy(tmp_path / "project")
    shutil.copytree(accepted_project.root / "run", project.root / "run")
    return project, project.root / "run"


DAMAGES = {
    "truncated": (lambda text: text[: len(text) // 2], "truncated, damaged or no JSON"),
    "empty": (lambda text: "", "truncated, damaged or no JSON"),
    "foreign": (lambda text: '{"tests": []}', "not a report of xla-equiv"),
    "newer": (lambda text: json.dumps({**json.loads(text), "schema": 99}), "schema 99"),
    "faulty": (lambda text: json.dumps({**json.loads(text), "verdicts": [{"test": 3}]}), "verdicts.0."),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_report_is_refused_by_all_that_read_it(run: tuple[Project, Path], damage: str) -> None:
    project, folder = run
    change, text = DAMAGES[damage]
    path = folder / "report.json"
    path.write_text(change(path.read_text()))
    for command in (["report", "run"], ["golden", "diff", "run"], ["golden", "accept", "run", "--why", "x"]):
        project.xla_equiv(*command).refuses("ReportError", "run/report.json", text)


@pytest.mark.parametrize("command", [["report"], ["golden", "diff"], ["show", "tiny::loop[cpu]", "--run"]])
def test_a_run_that_is_not_there_is_refused(accepted_project: Project, command: list[str]) -> None:
    accepted_project.xla_equiv(*command, "nowhere").refuses("ReportError", "no run folder 'nowhere'")


def test_a_run_without_a_report_is_refused(run: tuple[Project, Path]) -> None:
    project, folder = run
    (folder / "report.json").unlink()
    project.xla_equiv("report", "run").refuses("ReportError", "there is no report", "run/report.json")


def test_without_any_run_the_latest_is_refused_with_what_to_do(run: tuple[Project, Path]) -> None:
    ran = run[0].xla_equiv("report")
    ran.refuses("ReportError", "no run in .xla_equiv/runs")
    assert ran.next == "xla-equiv run"


LOOP, OTHER = "run/traces/tiny/loop[cpu]", "run/traces/tiny/other[cpu]"


@pytest.mark.parametrize("arguments", [("nowhere", OTHER), (LOOP, "nowhere"), (LOOP, "run"), (LOOP, "suites/tiny.py")])
def test_comparing_with_what_is_no_trace_is_refused(accepted_project: Project, arguments: tuple[str, str]) -> None:
    wrong = next(path for path in arguments if path not in (LOOP, OTHER))
    ran = accepted_project.xla_equiv("compare", *arguments)
    ran.refuses("TraceError", f"no complete trace in {wrong}", "RUN/traces")


@pytest.mark.parametrize("arguments", [("golden/no.safetensors", OTHER), (LOOP, "golden/no.safetensors")])
def test_comparing_with_a_golden_that_is_not_there_is_refused(
    accepted_project: Project, arguments: tuple[str, str]
) -> None:
    accepted_project.xla_equiv("compare", *arguments).refuses("GoldenError", "golden/no.")


@pytest.mark.parametrize("name", ["step-00002.safetensors", "facts.json"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_damaged_trace_is_refused(run: tuple[Project, Path], name: str, share: float) -> None:
    project, folder = run
    path = folder / "traces/tiny/other[cpu]" / name
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    for command in (
        ["compare", LOOP, OTHER],
        ["show", "tiny::other[cpu]", "--run", "run"],
        ["golden", "accept", "run", "--why", "x"],
    ):
        project.xla_equiv(*command).refuses("TraceError", f"{OTHER}/{name} is damaged")


def test_a_trace_without_its_facts_did_not_end(run: tuple[Project, Path]) -> None:
    project, folder = run
    (folder / "traces/tiny/other[cpu]/facts.json").unlink()
    ran = project.xla_equiv("compare", LOOP, OTHER)
    ran.refuses("TraceError", "2 recorded steps, but no facts.json: the run did not end")


def test_a_trace_without_one_of_its_steps_is_refused(run: tuple[Project, Path]) -> None:
    project, folder = run
    (folder / "traces/tiny/other[cpu]/step-00002.safetensors").unlink()
    ran = project.xla_equiv("compare", LOOP, OTHER)
    ran.refuses("TraceError", f"the trace in {OTHER} is not whole", "1 of 2 steps")


@pytest.mark.parametrize("option", ["--rtol", "--atol"])
def test_comparing_with_a_tolerance_for_keys_that_do_not_exist_is_refused(accepted_project: Project, option: str) -> None:
    ran = accepted_project.xla_equiv("compare", LOOP, OTHER, option, "grd/*=1e-3", option, "grad/*=1e-3")
    ran.refuses("SelectionError", "command line [grd/*]: no such key; did you mean 'grad/*'?")
    assert "[grad/*]" not in ran.err
    assert "tensors compared" not in ran.out
