"""Workers that crash, hang, leave or talk too much: said so, retried once, and the others are still judged."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from project import Project, Ran

from xla_equiv.values.verdict import ComparisonKind, Expectation, Status, Verdict


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Ran]:
    project = Project(tmp_path_factory.mktemp("crashed"), "crashing", "hanging")
    return project, project.xla_equiv("run", "--workers", "2", "--out", "run")


def verdict_of(crashed: tuple[Project, Ran], name: str, suite: str = "crashing") -> Verdict:
    return crashed[0].verdicts()[f"{suite}::{name}[cpu]"]


def log_of(crashed: tuple[Project, Ran], verdict: Verdict) -> str:
    assert verdict.log
    return (crashed[0].root / "run" / verdict.log).read_text(errors="replace")


def test_the_run_ends_with_the_code_of_what_could_not_run(crashed: tuple[Project, Ran]) -> None:
    ran = crashed[1]
    assert (ran.code, ran.err) == (3, "")
    assert "6 crashed, 1 timed out" in ran.out
    assert "1 expected failure" in ran.out


CRASHES = {
    "segfault": ("the worker was ended by SIGSEGV", "Fatal Python error: Segmentation fault"),
    "killed": ("the worker was ended by SIGKILL, as the kernel does when memory runs out", "--- killed[cpu]"),
    "exits": ("the worker ended with exit code 0", "--- exits[cpu]"),
    "no_start": ("the worker ended with exit code 1 while it started", "PYTHONHOME"),
    "no_python": ("/nowhere/python could not be started: No such file or directory", ""),
}


@pytest.mark.parametrize("name", CRASHES)
def test_a_worker_that_ends_is_replaced_once_and_then_crashed(crashed: tuple[Project, Ran], name: str) -> None:
    verdict, (what, log) = verdict_of(crashed, name), CRASHES[name]
    assert (verdict.status, verdict.what, verdict.attempts) == (Status.CRASHED, what, 2)
    first = re.fullmatch(r"died: (.*) \(log (.*)\)", verdict.first_failure)
    assert first is not None
    assert first.group(1) == what
    assert f"logs/{first.group(2)}" != verdict.log
    for text in (log_of(crashed, verdict), (crashed[0].root / "run/logs" / first.group(2)).read_text()):
        assert log in text
    assert f"CRASHED: crashing::{name}[cpu] crashed: {what}" in crashed[1].out
    assert f"tail -n 50 run/{verdict.log}" in crashed[1].out


def test_the_log_says_where_it_crashed(crashed: tuple[Project, Ran]) -> None:
    text = log_of(crashed, verdict_of(crashed, "segfault"))
    assert re.search(r'File ".*suites/crashing\.py", line \d+ in accumulate', text)


def test_the_steps_before_the_crash_are_kept(crashed: tuple[Project, Ran]) -> None:
    folder = crashed[0].root / "run/traces/crashing/segfault[cpu]"
    assert [path.name for path in folder.iterdir()] == ["step-00001.safetensors"]
    ran = crashed[0].xla_equiv("compare", "run/traces/crashing/loop[cpu]", folder)
    ran.refuses("TraceError", "1 recorded steps, but no facts.json: the run did not end")


def test_an_exception_is_not_retried_and_its_traceback_is_in_the_log(crashed: tuple[Project, Ran]) -> None:
    verdict = verdict_of(crashed, "raises")
    assert (verdict.status, verdict.attempts) == (Status.CRASHED, 1)
    assert verdict.what == "ArithmeticError: the second step"
    text = log_of(crashed, verdict)
    assert "Traceback (most recent call last)" in text
    assert "raise ArithmeticError(" in text


def test_a_known_crash_is_an_expected_failure(crashed: tuple[Project, Ran]) -> None:
    verdict = verdict_of(crashed, "known")
    assert (verdict.status, verdict.expectation, verdict.is_green) == (Status.CRASHED, Expectation.MET, True)


def test_a_worker_that_hangs_is_killed_with_what_it_started(crashed: tuple[Project, Ran]) -> None:
    verdict = verdict_of(crashed, "hangs", "hanging")
    assert (verdict.status, verdict.attempts) == (Status.TIMEOUT, 2)
    assert verdict.what == "no result within its limit of 5 s"
    assert "TIMEOUT: hanging::hangs[cpu] did not end in time" in crashed[1].out
    assert "--- hangs[cpu]" in log_of(crashed, verdict)


def test_a_crash_that_does_not_come_again_passes_visibly(crashed: tuple[Project, Ran]) -> None:
    verdict = verdict_of(crashed, "crashes_once")
    assert (verdict.status, verdict.attempts) == (Status.NOGOLDEN, 2)
    assert "SIGKILL" in verdict.first_failure
    assert equivalence(verdict) is Status.EXACT
    assert "crashing::crashes_once[cpu] ran 2 times; the first: died: the worker was ended by SIGKILL" in crashed[1].out
    assert "7 retried" in crashed[1].out


def test_much_printing_goes_to_the_log_and_changes_nothing(crashed: tuple[Project, Ran]) -> None:
    verdict = verdict_of(crashed, "prints")
    assert (equivalence(verdict), verdict.attempts) == (Status.EXACT, 1)
    log = crashed[0].root / "run" / verdict.log
    assert log.stat().st_size > 4_000_000
    assert len(crashed[1].out) < 40_000


@pytest.mark.parametrize("name", ["crashing::first", "crashing::last", "hanging::last"])
def test_the_other_tests_of_the_run_are_judged(crashed: tuple[Project, Ran], name: str) -> None:
    suite, _, variant = name.partition("::")
    assert equivalence(verdict_of(crashed, variant, suite)) is Status.EXACT


def test_nothing_of_the_workers_stays_in_the_run_folder(crashed: tuple[Project, Ran]) -> None:
    logs: list[Path] = list((crashed[0].root / "run" / "logs").iterdir())
    assert [path.name for path in logs if path.suffix != ".log"] == []


def test_what_has_a_reference_that_raises_says_so(project: Callable[..., Project]) -> None:
    made = project("kinds")
    text = (made.root / "suites" / "kinds.py").read_text()
    made.write(
        "kinds",
        text.replace('"trusted", backend="cpu", treatments=LOOP', '"trusted", backend="cpu", treatments=[Raising()]'),
    )
    ran = made.run("-k", "agrees", "--out", "run")
    assert ran.code == 3
    (verdict,) = made.verdicts().values()
    assert verdict.status is Status.CRASHED
    assert verdict.what == "its reference trusted[cpu] ended as CRASHED: ArithmeticError: too much"
    assert "raise ArithmeticError(" in (made.root / "run" / verdict.log).read_text()


def equivalence(verdict: Verdict) -> Status:
    return next(one.status for one in verdict.comparisons if one.kind is ComparisonKind.EQUIVALENCE)
