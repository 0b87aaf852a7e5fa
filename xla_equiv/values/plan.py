"""The tests that suites stand for: one for every suite, case and variant."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xla_equiv.values.case import Case
from xla_equiv.values.equivalence import Equivalence
from xla_equiv.values.stages import Stage, stages_of
from xla_equiv.values.steps import Steps, is_key_selected
from xla_equiv.values.suite import ExpectedFailure, PublishedValues, Skip, Suite, Variant, label, test_matches


@dataclass(frozen=True)
class NamedSuite:
    """A Suite with what only its file knows.

    Args:
        name: the file's stem.
        path: the file, as it was given.
        catches: what its docstring says after `Catches:`.
        summary: the first line of its docstring.
        suite: the Suite.
    """

    name: str
    path: str
    catches: str
    summary: str
    suite: Suite


@dataclass(frozen=True)
class Test:
    """One variant of one case of one suite: what gets one verdict."""

    __test__ = False  # not a class for pytest to collect

    named: NamedSuite
    case_name: str
    variant: Variant
    is_reference: bool

    @property
    def label(self) -> str:
        """Return the name inside the suite, `case.variant[backend]`."""
        return label(self.case_name, self.variant)

    @property
    def id(self) -> str:
        """Return the full name, `suite::case.variant[backend]`."""
        return f"{self.named.name}::{self.label}"

    @property
    def case(self) -> Case:
        """Return the case that it trains."""
        return self.named.suite.cases[self.case_name]

    @property
    def reference(self) -> "Test":
        """Return the test of the trusted variant of the same case."""
        return Test(self.named, self.case_name, self.named.suite.reference, True)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Return the stages in which it trains, each in a process of its own."""
        return stages_of(self.case, self.variant.spread, tuple(self.variant.treatments))

    @property
    def devices(self) -> int:
        """Return how many devices it trains on at most."""
        return max(stage.devices for stage in self.stages)

    @property
    def expected_failure(self) -> ExpectedFailure | None:
        """Return the known fault that this test shows, if any."""
        rules = self.named.suite.expected_failures
        return next((rule for rule in rules if test_matches(self.label, rule.test)), None)

    @property
    def equivalence(self) -> Equivalence:
        """Return how closely it is expected to agree with its reference."""
        rules = self.named.suite.equivalence
        found = [rules[pattern] for pattern in rules if test_matches(self.label, pattern)]
        return found[-1] if found else Equivalence.REASSOCIATION

    @property
    def skip(self) -> Skip | None:
        """Return why this test makes no sense, if so."""
        return next((rule for rule in self.named.suite.skips if test_matches(self.label, rule.test)), None)

    @property
    def recorded_keys(self) -> Mapping[str, Steps]:
        """Return which keys its trace keeps, at which steps."""
        suite = self.named.suite
        return {**suite.record, **suite.case_record.get(self.case_name, {})}

    def records(self, key: str, step: int) -> bool:
        """Return whether its trace keeps `key` at `step`."""
        return is_key_selected(key, step, self.recorded_keys, steps=self.case.steps)

    @property
    def golden_keys(self) -> Mapping[str, Steps]:
        """Return which keys its golden keeps, at which steps."""
        suite = self.named.suite
        return {**suite.golden, **suite.case_golden.get(self.case_name, {})}

    @property
    def published(self) -> list[PublishedValues]:
        """Return the published values that this test must meet."""
        return [values for values in self.named.suite.published if test_matches(self.label, values.test)]


def expand(suites: Sequence[NamedSuite]) -> Iterator[Test]:
    """Yield the tests of `suites` in order: for each case the reference, then its candidates."""
    for named in suites:
        for case_name in named.suite.cases:
            yield Test(named, case_name, named.suite.reference, True)
            for variant in named.suite.candidates:
                yield Test(named, case_name, variant, False)
