"""Ctrl-C, SIGTERM, SIGHUP and SIGKILL in the middle of a run: what has ended is reported, and no worker is left."""

import os
import signal
import subprocess
import time
from collections.abc import Callable

import pytest
from project import Project, wait_until

from xla_equiv.store.report import read_report
from xla_equiv.values.verdict import Status

STEP = "run/traces/waiting/waits[cpu]/step-00001.safetensors"
ENDED = {"waiting::loop[cpu]": Status.NOGOLDEN, "waiting::quick[cpu]": Status.NOGOLDEN}

Start = Callable[..., tuple[Project, "subprocess.Popen[str]"]]


@pytest.fixture
def start(project: Callable[..., Project]) -> Start:
    """Return what starts a command and waits until its worker waits."""

    def begin(*command: str) -> tuple[Project, "subprocess.Popen[str]"]:
        made = project("waiting")
        process = made.start(*command)
        wait_until((made.root / STEP).exists)
        return made, process

    return begin


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_has_ended_is_reported(start: Start, number: signal.Signals) -> None:
    project, process = start("xla_equiv", "run", "--workers", "1", "--out", "run")
    os.kill(process.pid, number)
    ran = project.end(process, limit_s=20)
    ran.refuses("Interrupted", "Interrupted: 2 tests did not end", code=3)
    assert ran.next == "xla-equiv report run"
    assert {test: verdict.status for test, verdict in project.verdicts().items()} == ENDED
    assert "2 without a golden, 2 not run: interrupted" in ran.out
    assert (project.root / STEP).exists()
    report = project.report()
    assert (report.exit_code, report.unfinished) == (3, ("waiting::waits[cpu]", "waiting::last[cpu]"))


def test_an_interrupted_run_says_so_whenever_it_is_rendered(start: Start) -> None:
    project, process = start("xla_equiv", "run", "--workers", "1", "--out", "run")
    os.kill(process.pid, signal.SIGTERM)
    project.end(process, limit_s=20)
    shown = project.xla_equiv("report", "run", "--markdown", "report.md", "--json", "again.json")
    assert (shown.code, shown.err) == (3, "")
    assert "2 not run: interrupted" in shown.out
    markdown = (project.root / "report.md").read_text()
    assert markdown.startswith("# xla-equiv: 2 without a golden, 2 not run: interrupted\n")
    assert "waiting::waits[cpu]" in markdown
    again = read_report(project.root / "again.json")
    assert (again.exit_code, again.unfinished) == (3, project.report().unfinished)


def test_workers_that_run_side_by_side_are_all_stopped(start: Start) -> None:
    project, process = start("xla_equiv", "run", "--workers", "3", "--out", "run")
    os.kill(process.pid, signal.SIGINT)
    ran = project.end(process, limit_s=20)
    assert ran.code == 3
    assert "waiting::waits[cpu]" not in project.verdicts()
    assert "CRASHED" not in ran.out


def test_a_run_can_be_stopped_while_its_worker_starts(project: Callable[..., Project]) -> None:
    made = project("tiny")
    process = made.start("xla_equiv", "run", "--out", "run")
    wait_until(lambda: any("xla_equiv.execute.worker" in one.cmdline() for one in made.processes()))
    os.kill(process.pid, signal.SIGINT)
    ran = made.end(process, limit_s=20)
    ran.refuses("Interrupted", "Interrupted: 2 tests did not end", code=3)
    assert made.report().verdicts == ()


def test_workers_end_by_themselves_when_the_run_is_killed(start: Start) -> None:
    project, process = start("xla_equiv", "run", "--workers", "1", "--out", "run")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert len(project.processes()) == 1
    started = time.monotonic()
    wait_until(lambda: not project.processes(), limit_s=30)
    assert time.monotonic() - started < 15
    assert project.end(process).code == -signal.SIGKILL
    ended = [path.name for path in (project.root / "run/traces/waiting").glob("*.outcome.json")]
    assert sorted(ended) == ["loop[cpu].outcome.json", "quick[cpu].outcome.json"]


@pytest.mark.parametrize("distributed", [[], ["-n", "2"]])
def test_pytest_can_be_stopped(start: Start, distributed: list[str]) -> None:
    project, process = start("pytest", "suites", "-p", "no:cacheprovider", "--xe-report", "run", *distributed)
    os.kill(process.pid, signal.SIGINT)
    wait_until(lambda: not project.processes(), limit_s=30)
    ran = project.end(process)
    assert ran.code == 2
    if not distributed:
        assert {test: verdict.status for test, verdict in project.verdicts().items()} == ENDED
