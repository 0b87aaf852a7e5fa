"""What the items of one pytest process share: options, run folder, workers, and the report in the end."""

from collections.abc import Callable
from pathlib import Path

import pytest

from xla_equiv.execute.backends import find_backend
from xla_equiv.execute.environment import check_pair
from xla_equiv.execute.lane import Lane
from xla_equiv.execute.session import Overrides, Session
from xla_equiv.execute.suite_files import load_suite, suite_paths
from xla_equiv.faces.build_report import build_report
from xla_equiv.faces.options import tolerance_overrides
from xla_equiv.store.report import Report, read_verdict, write_report, write_verdict
from xla_equiv.store.runs import RunFolder, choose_run_folder
from xla_equiv.values.errors import XlaEquivError
from xla_equiv.values.plan import Test, expand
from xla_equiv.values.verdict import EXIT_BAD_INPUT, Verdict

WORKERS_KEPT = 2
"""Items alternate between the reference's backend and the candidates': both workers stay."""


class PytestRun:
    """One run in one process. Under xdist all processes share the folder, and the controller reports.

    Args:
        config: pytest's configuration.
        shared_folder: the run folder that the controller chose; "" in the process that the user started.
    """

    def __init__(self, config: pytest.Config, shared_folder: str) -> None:
        self._config = config
        self._is_controller = not shared_folder
        wanted = config.getoption("--xe-report")
        if config.getoption("--xe-repeat") < 1:
            raise pytest.UsageError("--xe-repeat takes a whole number of at least 1")
        try:
            self.folder = RunFolder(Path(shared_folder)) if shared_folder else choose_run_folder(Path(wanted) if wanted else None)
        except XlaEquivError as error:
            raise pytest.UsageError(str(error)) from error
        self._overrides: Callable[[str], Overrides] | None = None
        self._lane: Lane | None = None
        self.report: Report | None = None
        self.problems: list[str] = []

    def tests(self, path: Path) -> list[Test]:
        """Return the tests of the suite at `path` that the options leave.

        Raises:
            SuiteError: the suite cannot be loaded.
        """
        backends, is_full = self._config.getoption("--xe-backend"), self._config.getoption("--xe-full")
        for backend in backends:
            find_backend(backend)
        self._read_tolerances([one.stem for one in suite_paths(path.parent)])
        found = [test for test in expand([load_suite(path)]) if test.skip is None]
        found = [t for t in found if (is_full or not t.case.full) and (not backends or t.variant.backend in backends)]
        check_pair({test.variant.backend for test in found})
        return found

    def schedule_group(self, test: Test) -> str:
        """Return which tests `--dist loadgroup` must keep in one process: a suite's, or those of one device."""
        backend = test.variant.backend
        return backend if find_backend(backend).is_exclusive else test.named.name

    def _read_tolerances(self, suites: list[str] | None) -> None:
        if self._overrides is None:
            option = self._config.getoption
            path = option("--xe-tolerances")
            self._overrides = tolerance_overrides(
                option("--xe-rtol"), option("--xe-atol"), Path(path) if path else None, suites=suites
            )

    @property
    def _session(self) -> Session:
        assert self._overrides is not None
        return Session(
            folder=self.folder,
            goldens=Path(self._config.rootpath, self._config.getoption("--xe-golden")),
            overrides=self._overrides,
            repeat=self._config.getoption("--xe-repeat"),
        )

    def judge(self, test: Test) -> Verdict:
        """Train what `test` needs unless another process has, and return its verdict, saved for the report."""
        self._session.check_goldens([test])
        if self._lane is None:
            self.folder.create(is_shared=True)
            name = getattr(self._config, "workerinput", {}).get("workerid", "main")
            self._lane = Lane(self.folder, name=name, most_workers=WORKERS_KEPT)
        self._session.train(test, self._lane)
        verdict = self._session.verdict(test)
        write_verdict(verdict, self.folder.verdict(test.named.name, test.label))
        return verdict

    def finish(self) -> None:
        """End the workers of this process; in the controller, write the report."""
        if self._lane is not None:
            self._lane.close()
        if not self._is_controller or not self.folder.verdicts.is_dir():
            return
        verdicts = [read_verdict(path) for path in sorted(self.folder.verdicts.glob("*/*.json"))]
        self._read_tolerances(None)
        self.problems = self._session.unmatched_patterns()
        self.report = build_report(
            self.folder, verdicts, options=self._options(), code=EXIT_BAD_INPUT if self.problems else None
        )
        write_report(self.report, self.folder.report)

    def _options(self) -> dict[str, str]:
        """Return what was asked for, by the names that the command line has for it."""
        option = self._config.getoption
        given = {
            "pytest": " ".join(self._config.invocation_params.args),
            "--rtol": " ".join(option("--xe-rtol")),
            "--atol": " ".join(option("--xe-atol")),
            "--tolerances": option("--xe-tolerances") or "",
            "--repeat": str(option("--xe-repeat")) if option("--xe-repeat") > 1 else "",
        }
        return {name: text for name, text in given.items() if text}
