"""Statuses, and what judging produced: measurements, findings, comparisons and verdicts."""

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from xla_equiv.values.equivalence import Equivalence
from xla_equiv.values.graph import GraphFacts


class Status(str, enum.Enum):
    """The outcome of a measurement, a comparison or a test. The order is the order of gravity."""

    EXACT = "EXACT"
    WITHIN = "WITHIN"
    DRIFT = "DRIFT"
    UNVERIFIED = "UNVERIFIED"
    NOGOLDEN = "NOGOLDEN"
    STALE = "STALE"
    BLIND = "BLIND"
    UNPROVEN = "UNPROVEN"
    UNSTABLE = "UNSTABLE"
    OUTSIDE = "OUTSIDE"
    MISSING = "MISSING"
    NONFINITE = "NONFINITE"
    TIMEOUT = "TIMEOUT"
    CRASHED = "CRASHED"

    @property
    def gravity(self) -> int:
        """Return the rank among statuses, the harmless first."""
        return list(Status).index(self)

    @property
    def is_green(self) -> bool:
        """Return whether the status means agreement."""
        return self in (Status.EXACT, Status.WITHIN, Status.DRIFT)

    @property
    def is_infrastructure(self) -> bool:
        """Return whether the status says nothing about numbers."""
        return self in (Status.CRASHED, Status.TIMEOUT)


def worst(statuses: Sequence[Status]) -> Status:
    """Return the gravest of `statuses`; EXACT when there are none."""
    return max(statuses, key=lambda status: status.gravity, default=Status.EXACT)


class ComparisonKind(str, enum.Enum):
    """What is compared with what."""

    EQUIVALENCE = "equivalence"
    REGRESSION = "regression"
    ANCHOR = "anchor"


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """How far one key of one step is apart.

    `margin` is the largest |candidate - reference| / (atol + rtol * |reference|): 1.0 is exactly at the
    limit. `min_rtol` and `min_atol` are the least values that would pass with the other one unchanged. `statistic`
    says what of several draws the values are; '' when they are the key's own.
    """

    key: str
    step: int
    dtype: str
    shape: tuple[int, ...]
    status: Status
    size: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    margin: float = 0.0
    min_rtol: float = 0.0
    min_atol: float = 0.0
    outside: int = 0
    nonfinite: int = 0
    index: tuple[int, ...] = ()
    candidate_value: float = math.nan
    reference_value: float = math.nan
    rtol: float = 0.0
    atol: float = 0.0
    decided_by: str = ""
    why: str = ""
    statistic: str = ""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that is wrong, and where. `measurement` is None when nothing could be measured."""

    status: Status
    what: str
    key: str = ""
    step: int = 0
    measurement: Measurement | None = None


@dataclass(frozen=True, kw_only=True)
class KeyGroup:
    """The measurements of one group of keys (`grad/*`), over all steps, put together.

    `measurement` is the one that used the most of its margin; `first_outside` is the first step with an
    element outside, 0 for none.
    """

    group: str
    compared: int
    outside: int
    max_abs: float
    max_rel: float
    min_rtol: float
    min_atol: float
    first_outside: int
    status: Status
    measurement: Measurement
    decided_by: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One trace held against another, or against a golden.

    Args:
        kind: equivalence, regression or anchor.
        against: what was on the other side.
        status: the gravest of all findings and groups.
        groups: one for each group of keys.
        findings: everything wrong, in order of step and then of computation.
        compared: how many (key, step) pairs were measured.
        unobserved: patterns of keys that a treatment cannot record, left out.
        likely: probable causes, from facts only.
        graph: how the compiled graphs of the two sides differ; '' when they do not, or one has none.
        declared: how closely the suite expects the two sides of an equivalence to agree.
    """

    kind: ComparisonKind
    against: str
    status: Status
    groups: tuple[KeyGroup, ...] = ()
    findings: tuple[Finding, ...] = ()
    compared: int = 0
    unobserved: tuple[str, ...] = ()
    likely: tuple[str, ...] = ()
    graph: str = ""
    declared: Equivalence | None = None

    @property
    def margin(self) -> float:
        """Return the largest share of a tolerance that was used."""
        return max((group.measurement.margin for group in self.groups), default=0.0)

    @property
    def first_bad_step(self) -> int:
        """Return the first step with a finding, 0 for none."""
        return min((finding.step for finding in self.findings if finding.step), default=0)

    @property
    def worst_group(self) -> KeyGroup | None:
        """Return the group that used the most of its tolerance; of equals, the one that was first outside."""

        def rank(group: KeyGroup) -> tuple[int, float, int]:
            return group.status.gravity, group.measurement.margin, -group.first_outside

        return max(self.groups, key=rank, default=None)


class Expectation(str, enum.Enum):
    """How a verdict relates to the expected failures of its suite."""

    NONE = "none"
    MET = "expected"
    NOT_MET = "expected failure did not occur"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The outcome for one test.

    Args:
        test: full name.
        status: the gravest of its comparisons and of what happened while it ran.
        what: one clause for a status without numbers (UNVERIFIED, CRASHED, UNPROVEN ...).
        remedy: what to do about it, when known.
        comparisons: every comparison made.
        expectation: whether a known fault was expected, and occurred.
        why_expected: the reason of the expected failure.
        attempts: how often the worker had to start it.
        first_failure: what happened at the first attempt, when there were two.
        log: the worker's log, relative to the run folder.
        trace: the trace, relative to the run folder.
        notes: what a reader should know.
        accepted_margin: share of its tolerance that the equivalence comparison used when the golden was
            accepted; NaN when there is no golden, and for a reference.
        compile_s, run_s: seconds, as in RunFacts.
        graph: the compiled modules that executed its steps.
    """

    test: str
    status: Status
    what: str = ""
    remedy: str = ""
    comparisons: tuple[Comparison, ...] = ()
    expectation: Expectation = Expectation.NONE
    why_expected: str = ""
    attempts: int = 1
    first_failure: str = ""
    log: str = ""
    trace: str = ""
    notes: tuple[str, ...] = field(default_factory=tuple)
    accepted_margin: float = math.nan
    compile_s: float = 0.0
    run_s: float = 0.0
    graph: GraphFacts = field(default_factory=GraphFacts)

    @property
    def is_green(self) -> bool:
        """Return whether nothing is wrong: it agrees, or fails exactly as it is known to."""
        if self.expectation is Expectation.NONE:
            return self.status.is_green
        return self.expectation is Expectation.MET

    @property
    def equivalence(self) -> Comparison | None:
        """Return the comparison with the live reference, None for a reference and where there was none."""
        return next((one for one in self.comparisons if one.kind is ComparisonKind.EQUIVALENCE), None)

    @property
    def margin_change(self) -> float:
        """Return how much more of its tolerance equivalence uses than when the golden was accepted; NaN if unknown."""
        return self.equivalence.margin - self.accepted_margin if self.equivalence else math.nan

    @property
    def is_skip(self) -> bool:
        """Return whether nothing was judged because the backend is absent."""
        return self.status is Status.UNVERIFIED and self.expectation is Expectation.NONE

    @property
    def margin(self) -> float:
        """Return the largest share of a tolerance that any comparison used."""
        return max((comparison.margin for comparison in self.comparisons), default=0.0)


EXIT_EQUIVALENT = 0
EXIT_DIFFERENT = 1
EXIT_BAD_INPUT = 2
EXIT_COULD_NOT_RUN = 3
EXIT_GOLDEN = 4

GOLDEN_STATUSES = (Status.NOGOLDEN, Status.STALE)


def exit_code(verdicts: Sequence[Verdict]) -> int:
    """Return the exit code for `verdicts`: a numeric difference outweighs a crash, a crash a golden.

    A run in which nothing was judged could not run: it is not green.
    """
    bad = [verdict for verdict in verdicts if not verdict.is_green and not verdict.is_skip]
    numeric = [v for v in bad if not v.status.is_infrastructure and v.status not in GOLDEN_STATUSES]
    if numeric or any(v.expectation is Expectation.NOT_MET for v in bad):
        return EXIT_DIFFERENT
    if any(verdict.status.is_infrastructure for verdict in bad):
        return EXIT_COULD_NOT_RUN
    if bad:
        return EXIT_GOLDEN
    return EXIT_EQUIVALENT if any(verdict.is_green for verdict in verdicts) else EXIT_COULD_NOT_RUN
