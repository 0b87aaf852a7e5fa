"""A Suite: one or more cases, the trusted way to run them, and the ways that must agree with it."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xla_equiv.values.case import Case
from xla_equiv.values.equivalence import Equivalence
from xla_equiv.values.errors import SuiteError
from xla_equiv.values.patterns import matches
from xla_equiv.values.spread import Spread
from xla_equiv.values.stages import stages_of
from xla_equiv.values.steps import ALL_STEPS, LAST_STEP, Steps
from xla_equiv.values.tolerance import Tolerance
from xla_equiv.values.treatment import Reduces, Treatment, accumulating
from xla_equiv.values.verdict import Status

LEAST_DRAWS = 16
"""Draws that a comparison in distribution needs: of fewer, a t-test at its level finds next to nothing."""


def is_name(text: str) -> bool:
    """Return whether `text` can name a case or a variant: letters, digits, `_` and `-`."""
    return bool(text) and all(character.isalnum() or character in "_-" for character in text)


@dataclass(frozen=True)
class Variant:
    """A named way to run a case: where, and under which treatments.

    Args:
        name: unique together with the backend; letters, digits, `_` and `-`.
        backend: a registered backend, such as "cpu", "xla:cpu" or "xla:tpu".
        treatments: how the step is executed; one of them must say how to accumulate.
        interpreter: path of the Python that runs it; "" for the current one.
        env: environment variables of its worker process, such as XLA_FLAGS.
    """

    name: str
    backend: str = field(kw_only=True)
    treatments: Sequence[Treatment] = field(kw_only=True)
    interpreter: str = field(default="", kw_only=True)
    env: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        if not is_name(self.name):
            raise SuiteError(f"variant name {self.name!r} has characters other than letters, digits, '_' and '-'")
        if accumulating(self.treatments) is None:
            raise SuiteError(
                f"variant {self.name!r} has no treatment that accumulates",
                next="add LoopedAccumulation() or WhileAccumulation() to its treatments",
            )

        reducing = [t.name for t in self.treatments if isinstance(t, Reduces)]
        if reducing and not self._spreads:
            raise SuiteError(
                f"variant {self.name!r} trains on one device, and {reducing[0]} reduces over replicas",
                next="set spread = Spread.REPLICAS in its class",
            )
        if len(self._spreads) > 1:
            raise SuiteError(
                f"variant {self.name!r} is impossible: its treatments spread replicas in two ways",
                problems=[f"{treatment.name}: {treatment.spread.value}" for treatment in self.treatments],
            )

    @property
    def _spreads(self) -> set[Spread]:
        return {treatment.spread for treatment in self.treatments} - {Spread.ONE}

    @property
    def spread(self) -> Spread:
        """Return how it covers the replicas of a case."""
        return next(iter(self._spreads), Spread.ONE)

    @property
    def unobserved(self) -> tuple[str, ...]:
        """Return the patterns of keys that this variant cannot record."""
        return tuple(pattern for treatment in self.treatments for pattern in treatment.unobserved)


@dataclass(frozen=True, kw_only=True)
class ExpectedFailure:
    """A fault of the system under test that is known. When it stops to occur, the run fails.

    Args:
        test: pattern of test labels, such as "carried_3.while[xla:cpu]".
        status: what the verdict must be.
        keys: pattern of the keys that may be wrong; all others must still agree.
        raises: for CRASHED, the text that the exception must contain; for UNPROVEN, that of the reason. With another
            status: that proof is missing as well, and what its reason must contain.
        why: the fault, and where it is reported.
    """

    test: str
    status: Status
    keys: str = "*"
    raises: str = ""
    why: str

    def __post_init__(self) -> None:
        if self.status in (Status.CRASHED, Status.UNPROVEN) and not self.raises:
            raise SuiteError(
                f"the ExpectedFailure of {self.test!r} accepts every {self.status.value}",
                next="raises='TypeError' names the exception, or the reason, that is expected",
            )

    def covers(self, key: str) -> bool:
        """Return whether `key` may be wrong; inputs that differ between the arms never may."""
        return bool(key) and not key.startswith("input/") and matches(key, self.keys)


@dataclass(frozen=True, kw_only=True)
class Skip:
    """Tests of a suite that make no sense, and why. They are not run; `list` shows them."""

    test: str
    why: str


@dataclass(frozen=True, kw_only=True)
class PublishedValues:
    """Values that somebody else published: a golden that this project cannot accept anew.

    Args:
        source: where they were published.
        test: pattern of the labels of the tests that must meet them.
        values: key -> one number per optimizer step, from step 1.
        tolerance: how closely.
    """

    source: str
    test: str = "*"
    values: Mapping[str, Sequence[float]]
    tolerance: Tolerance


DEFAULT_GOLDEN: Mapping[str, Steps] = {
    "*": (LAST_STEP,),
    "loss": ALL_STEPS,
    "grad_norm": ALL_STEPS,
    "loss/*": (),
    "grad/*": (1, LAST_STEP),
    "optim/*": (),
}
"""Which keys a golden keeps, at which steps: enough to place a change, small enough to commit."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What one file in `suites/` exports as SUITE.

    Args:
        case: the case, or several by name.
        reference: the trusted variant.
        candidates: the variants that must agree with it.
        tolerance: key pattern -> Tolerance, for all cases.
        case_tolerance: case name -> (key pattern -> Tolerance), stronger than `tolerance`.
        test_tolerance: pattern of test labels -> (key pattern -> Tolerance), stronger than both.
        equivalence: pattern of test labels -> how closely they are expected to agree with the reference;
            the last pattern that matches counts, REASSOCIATION where none does.
        expected_failures: known faults of the systems under test.
        skips: tests that make no sense, with reasons.
        published: values published elsewhere that the tests must meet.
        record: key pattern -> steps that a trace keeps.
        case_record: case name -> (key pattern -> steps), stronger than `record`.
        golden: key pattern -> steps that a golden keeps.
        case_golden: case name -> (key pattern -> steps), stronger than `golden`.
    """

    case: Case | Mapping[str, Case]
    reference: Variant
    candidates: Sequence[Variant]
    tolerance: Mapping[str, Tolerance] = field(default_factory=dict)
    case_tolerance: Mapping[str, Mapping[str, Tolerance]] = field(default_factory=dict)
    test_tolerance: Mapping[str, Mapping[str, Tolerance]] = field(default_factory=dict)
    equivalence: Mapping[str, Equivalence] = field(default_factory=dict)
    expected_failures: Sequence[ExpectedFailure] = ()
    skips: Sequence[Skip] = ()
    published: Sequence[PublishedValues] = ()
    record: Mapping[str, Steps] = field(default_factory=lambda: {"*": ALL_STEPS})
    case_record: Mapping[str, Mapping[str, Steps]] = field(default_factory=dict)
    golden: Mapping[str, Steps] = field(default_factory=lambda: DEFAULT_GOLDEN)
    case_golden: Mapping[str, Mapping[str, Steps]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problems = [
            f"{kind}: no case {name!r}"
            for kind in ("case_tolerance", "case_record", "case_golden")
            for name in getattr(self, kind)
            if name not in self.cases
        ]
        if not self.cases:
            problems.append("case: empty; there is nothing to train")
        problems += [
            f"case {name!r}: has characters other than letters, digits, '_' and '-'"
            for name in self.cases
            if name and not is_name(name)
        ]
        problems += self._step_problems()
        if not self.candidates:
            problems.append("candidates: empty; there is nothing to compare with the reference")
        labels = [label(case, variant) for case in self.cases for variant in (self.reference, *self.candidates)]
        problems += sorted({f"candidates: two variants are called {one!r}" for one in labels if labels.count(one) > 1})
        for kind, rules in (
            ("expected_failures", self.expected_failures),
            ("skips", self.skips),
            ("published", self.published),
        ):
            problems += [
                f"{kind}: no test matches {rule.test!r}"
                for rule in rules
                if not any(test_matches(one, rule.test) for one in labels)
            ]
        problems += [
            f"{kind}: no test matches {pattern!r}"
            for kind in ("test_tolerance", "equivalence")
            for pattern in getattr(self, kind)
            if not any(test_matches(one, pattern) for one in labels)
        ]
        problems += [
            f"equivalence [{pattern}]: {one} is compared in distribution, and its case has {case.draws} of at least {LEAST_DRAWS} draws"
            for pattern, kind in self.equivalence.items()
            if kind is Equivalence.DISTRIBUTIONAL
            for name, case in self.cases.items()
            for one in (label(name, variant) for variant in self.candidates)
            if case.draws < LEAST_DRAWS and test_matches(one, pattern)
        ]
        problems += self._stage_problems()
        if problems:
            raise SuiteError("a Suite is impossible", problems=problems)

    def _stage_problems(self) -> list[str]:
        """Return which variants divide which cases into stages that cannot be."""
        problems = []
        for name, case in self.cases.items():
            for variant in (self.reference, *self.candidates):
                try:
                    stages = stages_of(case, variant.spread, tuple(variant.treatments))
                    if case.draws > 1 and len(stages) > 1:
                        problems.append(f"{label(name, variant)}: it has several stages, and its case several draws")
                    if case.draws > 1 and any(treatment.has_own_process for treatment in variant.treatments):
                        problems.append(f"{label(name, variant)}: it needs a process of its own, and its case has several draws")
                except SuiteError as error:
                    problems.append(f"{label(name, variant)}: {error.headline}")
        return problems

    def _step_problems(self) -> list[str]:
        """Return the step numbers of the selections that no case has: they would select nothing, silently."""
        problems = []
        for kind in ("record", "golden"):
            for name, case in self.cases.items():
                selections = {**getattr(self, kind), **getattr(self, f"case_{kind}").get(name, {})}
                problems += [
                    f"{kind} [{pattern}]: step {step} is not in 1 to {case.steps}, nor in -{case.steps} to -1"
                    for pattern, steps in selections.items()
                    for step in steps or ()
                    if not 1 <= abs(step) <= case.steps
                ]
        return list(dict.fromkeys(problems))

    @property
    def cases(self) -> Mapping[str, Case]:
        """Return the cases by name; a single one has the name ''."""
        return {"": self.case} if isinstance(self.case, Case) else self.case


def label(case_name: str, variant: Variant) -> str:
    """Return how a test is called inside its suite: `case.variant[backend]`, or `variant[backend]`."""
    return f"{case_name}.{variant.name}[{variant.backend}]" if case_name else f"{variant.name}[{variant.backend}]"


def test_matches(test_label: str, pattern: str) -> bool:
    """Return whether `pattern` covers `test_label`; only `*` and `?` are wildcards, brackets are literal."""
    return fnmatch.fnmatchcase(test_label, pattern.replace("[", "[[]"))
