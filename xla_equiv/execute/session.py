"""A run from beginning to end: which tests, where they record, and what each is judged to be."""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from filelock import FileLock

from xla_equiv.execute.backends import find_backend
from xla_equiv.execute.judge import Evidence, judge
from xla_equiv.execute.lane import Lane, OnStep, Run
from xla_equiv.execute.outcome import Ending, Outcome, read_outcome, write_outcome
from xla_equiv.execute.runner import Runner
from xla_equiv.store.golden import Golden, golden_files, golden_path, read_golden
from xla_equiv.store.golden_life import is_golden_of
from xla_equiv.store.runs import RunFolder
from xla_equiv.store.traces import FACTS_FILE, read_trace
from xla_equiv.values.errors import GoldenError, TraceError, choices_text
from xla_equiv.values.patterns import key_group, matches
from xla_equiv.values.plan import Test
from xla_equiv.values.tolerance import Level, Tolerance
from xla_equiv.values.verdict import Verdict

EVERY_KEY = "*"
Overrides = Sequence[tuple[Level, Mapping[str, Tolerance]]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Session:
    """Runs tests into a run folder and judges what is recorded there.

    Args:
        folder: the run folder; several processes may share it.
        goldens: the folder of the goldens.
        overrides: suite name -> tolerances stronger than the suite's own, by level.
        repeat: how often each test is run; more than one shows instability.
    """

    folder: RunFolder
    goldens: Path
    overrides: Callable[[str], Overrides] = lambda suite: ()
    repeat: int = 1

    def runs(self, tests: Sequence[Test]) -> list[Run]:
        """Return the runs that `tests` need, references included, each once."""
        needed = [one for test in tests for one in ((test,) if test.is_reference else (test.reference, test))]
        unique = {one.id: one for one in needed}
        return [Run(test, repeat) for test in unique.values() for repeat in range(1, self.repeat + 1)]

    def check_goldens(self, tests: Sequence[Test]) -> None:
        """Read every golden that judging `tests` may need.

        Raises:
            GoldenError: what is wrong with each that is damaged or foreign, before anything is trained.
        """
        errors = []
        for test in tests:
            pattern = golden_path(self.goldens, test, find_backend(test.variant.backend).device_classes)
            for path in golden_files(self.goldens):
                if is_golden_of(path, pattern):
                    try:
                        read_golden(path, test.id)
                    except GoldenError as error:
                        errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            problems = [f"{e.headline}: {dict(e.details).get('because', '')}" for e in errors]
            raise GoldenError(f"{len(errors)} goldens cannot be used", problems=problems, next="git checkout -- golden")

    def train_all(
        self, tests: Sequence[Test], *, workers: int, on_step: OnStep, on_end: Callable[[Run, Outcome], None]
    ) -> None:
        """Run everything that `tests` need, in `workers` processes at a time."""

        def keep(run: Run, outcome: Outcome) -> None:
            write_outcome(run.trace(self.folder), outcome)
            on_end(run, outcome)

        Runner(self.folder, workers=workers, on_step=on_step, on_end=keep).run(self.runs(tests))

    def train(self, test: Test, lane: Lane) -> None:
        """Run what `test` needs in `lane`, unless this or another process has already done so."""
        for run in self.runs([test]):
            trace = run.trace(self.folder)
            trace.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{trace}.lock"):
                if read_outcome(trace) is None:
                    write_outcome(trace, lane.run(run))

    def has_ended(self, test: Test) -> bool:
        """Return whether everything that judging `test` needs has been run."""
        return all(read_outcome(run.trace(self.folder)) is not None for run in self.runs([test]))

    def verdict(self, test: Test) -> Verdict:
        """Return the verdict for `test`, whose runs have ended."""
        evidence = self._evidence(test)
        reference = evidence if test.is_reference else self._evidence(test.reference)
        found = judge(evidence, reference, self.overrides(test.named.name))
        trace = Run(test).trace(self.folder)
        return dataclasses.replace(found, trace=self.folder.relative(trace) if trace.is_dir() else "")

    def unmatched_patterns(self) -> list[str]:
        """Return what is wrong with each key pattern of the overrides that matches no recorded key."""
        keys_of: dict[str, set[str]] = {}
        for facts in self.folder.path.glob(f"traces/*/*/{FACTS_FILE}"):
            keys_of.setdefault(facts.parents[1].name, set()).update(read_trace(facts.parent).keys)
        rules = {(level, pattern) for suite in keys_of for level, given in self.overrides(suite) for pattern in given}
        return unmatched(rules, set().union(*keys_of.values()))

    def _evidence(self, test: Test) -> Evidence:
        traces = []
        outcome = Outcome(ending=Ending.DIED, what="it was not run")
        for run in (Run(test, repeat) for repeat in range(1, self.repeat + 1)):
            folder = run.trace(self.folder)
            outcome = read_outcome(folder) or outcome
            if outcome.ending is not Ending.DONE:
                return Evidence(test=test, outcome=outcome, trace=None)
            try:
                traces.append(read_trace(folder))
            except TraceError as error:
                return Evidence(test=test, outcome=Outcome(ending=Ending.RAISED, what=error.headline), trace=None)
        path = golden_path(self.goldens, test, traces[0].facts.provenance["device_class"])
        golden: Golden | None = None if test.expected_failure else read_golden(path, test.id)
        return Evidence(
            test=test, outcome=outcome, trace=traces[0], repeats=traces[1:], golden=golden, golden_path=path
        )


def unmatched(rules: Iterable[tuple[Level, str]], keys: Collection[str]) -> list[str]:
    """Return what is wrong with each (level, key pattern) of `rules` that matches none of `keys`."""
    choices = list(dict.fromkeys([*sorted({key_group(key) for key in keys}), *sorted(keys)]))
    return [
        f"{level.value} [{pattern}]: no such key; {choices_text(pattern, choices)}"
        for level, pattern in sorted(rules)
        if keys and pattern != EVERY_KEY and not any(matches(key, pattern) for key in keys)
    ]
