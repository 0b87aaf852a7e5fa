"""The pytest plugin: one item for each test of a suite, `suites/NAME.py::VARIANT[BACKEND]`.

Importing this module imports neither torch nor anything else that is heavy; a project without suites
pays for one look at its files' names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xla_equiv.faces.pytest_run import PytestRun
    from xla_equiv.values.plan import Test
    from xla_equiv.values.verdict import Verdict

RUN_KEY = pytest.StashKey["PytestRun"]()
WORKER_INPUT = "xla_equiv_run_folder"
SUITES_INI = "xla_equiv_suites"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and the ini value of this plugin."""
    group = parser.getgroup("xla_equiv", "numerical equivalence of training")
    group.addoption("--xe-backend", action="append", default=[], metavar="B", help="only variants on backend B; may be repeated")
    group.addoption("--xe-full", action="store_true", help="also the cases that are left out for their length")
    group.addoption("--xe-rtol", action="append", default=[], metavar="X|PATTERN=X", help="relative tolerance")
    group.addoption("--xe-atol", action="append", default=[], metavar="X|PATTERN=X", help="absolute tolerance")
    group.addoption("--xe-tolerances", default=None, metavar="FILE", help="TOML file of tolerances")
    group.addoption("--xe-repeat", type=int, default=1, metavar="N", help="run every test N times; a difference is UNSTABLE")
    group.addoption("--xe-report", default=None, metavar="DIR", help="run folder (default: .xla_equiv/runs/TIME)")
    group.addoption("--xe-golden", default="golden", metavar="DIR", help="folder of the goldens")
    parser.addini(SUITES_INI, "names of the folders whose files are suites", type="args", default=["suites"])


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the files that export a SUITE, in the folders that hold suites."""
    if file_path.suffix != ".py" or file_path.parent.name not in parent.config.getini(SUITES_INI):
        return None
    from xla_equiv.execute.suite_files import is_suite_file

    return SuiteFile.from_parent(parent, path=file_path) if is_suite_file(file_path) else None


def run_of(config: pytest.Config) -> PytestRun:
    """Return what the tests of this process share, made when it is first asked for."""
    if RUN_KEY not in config.stash:
        from xla_equiv.faces.pytest_run import PytestRun

        config.stash[RUN_KEY] = PytestRun(config, shared_folder(config))
    return config.stash[RUN_KEY]


def shared_folder(config: pytest.Config) -> str:
    """Return the run folder that xdist's controller chose, '' outside an xdist worker."""
    return str(getattr(config, "workerinput", {}).get(WORKER_INPUT, ""))


class SuiteFile(pytest.File):
    """A suite file; its items are the suite's tests."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each test that the options leave."""
        run = run_of(self.config)
        for test in run.tests(self.path):
            item: SuiteItem = SuiteItem.from_parent(self, name=test.label, test=test)
            item.add_marker(pytest.mark.xdist_group(run.schedule_group(test)))
            yield item

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> Any:  # type: ignore[override]
        """Return the house form of an error in a suite, pytest's own of any other."""
        from xla_equiv.values.errors import XlaEquivError

        return str(excinfo.value) if isinstance(excinfo.value, XlaEquivError) else super().repr_failure(excinfo)


class VerdictFailure(Exception):
    """Carries a verdict that is not green to where pytest prints it."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.test)
        self.verdict = verdict


class SuiteItem(pytest.Item):
    """One test of a suite."""

    def __init__(self, *, test: Test, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.test = test

    def runtest(self) -> None:
        """Train what the test needs, judge it, and turn the verdict into pytest's outcome."""
        from xla_equiv.values.verdict import Expectation

        verdict = run_of(self.config).judge(self.test)
        self.user_properties += [
            ("xla_equiv_status", verdict.status.value),
            ("xla_equiv_margin", repr(verdict.margin)),
        ]
        if verdict.is_skip:
            pytest.skip(f"{verdict.what}; {verdict.remedy}")
        if verdict.expectation is Expectation.MET:
            pytest.xfail(verdict.why_expected)
        if not verdict.is_green:
            raise VerdictFailure(verdict)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the house form of a verdict or error."""
        from xla_equiv.faces.failure_text import failure_text
        from xla_equiv.values.errors import XlaEquivError

        if isinstance(excinfo.value, VerdictFailure):
            return failure_text(excinfo.value.verdict, run=str(run_of(self.config).folder.path))
        if isinstance(excinfo.value, XlaEquivError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return where the test is written, and its full name."""
        return self.path, 0, self.test.id


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell an xdist worker which run folder all of them share."""
    node.workerinput[WORKER_INPUT] = str(run_of(node.config).folder.path)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the workers; in the process that the user started, write the report."""
    run = session.config.stash.get(RUN_KEY, None)
    if run is None:
        return
    run.finish()
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    is_all_skipped = run.report is not None and all(verdict.is_skip for verdict in run.report.verdicts)
    if run.problems:
        session.exitstatus = pytest.ExitCode.USAGE_ERROR
    elif is_all_skipped and reporter is not None and not reporter.stats.get("passed") and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED  # a run that judged nothing is not green


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the closing table and where the report lies."""
    run = config.stash.get(RUN_KEY, None)
    report = run.report if run else None
    if run is None or report is None or not report.verdicts:
        return
    from xla_equiv.faces.tables import closing_table, counts
    from xla_equiv.faces.terminal import summary_lines

    terminalreporter.section("xla_equiv")
    terminalreporter.write_line(closing_table(report.verdicts, colour=False))
    for line in summary_lines(report):
        terminalreporter.write_line(line)
    terminalreporter.write_line(counts(report.verdicts))
    terminalreporter.write_line(f"report: {os.fspath(run.folder.report)}")
    for problem in run.problems:
        terminalreporter.write_line(f"ERROR: {problem}")
