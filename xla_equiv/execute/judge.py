"""From saved traces and goldens to verdicts. Pure numpy: repeatable at any time, without a device."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from xla_equiv.execute.outcome import Ending, Outcome
from xla_equiv.measure.attribution import attribute, likely_causes
from xla_equiv.measure.compare import compare_traces
from xla_equiv.measure.inputs import input_findings, stale_findings
from xla_equiv.measure.metrics import same_bits
from xla_equiv.measure.vacuity import blind_findings, draw_findings, padding_findings
from xla_equiv.store.golden import Golden, golden_selection
from xla_equiv.values.equivalence import Equivalence
from xla_equiv.values.plan import Test
from xla_equiv.values.suite import PublishedValues, test_matches
from xla_equiv.values.tolerance import Level, Tolerance, ToleranceTable
from xla_equiv.values.trace import RunFacts, Trace, memory_trace
from xla_equiv.values.verdict import Comparison, ComparisonKind, Expectation, Finding, Status, Verdict, worst

EDITED_GOLDEN = "its golden carries no seal: another tool has edited it since it was accepted"

OF_RANKS = ("loss@rank*", "loss/*@rank*", "local_grad/*")
"""What only a run of several replicas records."""

OF_REFERENCE = "its reference: "
"""Begins what is said of a test for the fault of its reference."""

ENDINGS = {
    Ending.ABSENT: Status.UNVERIFIED,
    Ending.RAISED: Status.CRASHED,
    Ending.DIED: Status.CRASHED,
    Ending.NO_OUTPUT: Status.CRASHED,
    Ending.HUNG: Status.TIMEOUT,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known of one test: how its run ended, its trace and those of its repeats, and its golden.

    `trace` is None when the run did not end well, `golden` when there is none.
    """

    test: Test
    outcome: Outcome
    trace: Trace | None
    repeats: Sequence[Trace] = ()
    golden: Golden | None = None
    golden_path: Path | None = None


def judge(
    evidence: Evidence,
    reference: Evidence,
    overrides: Sequence[tuple[Level, Mapping[str, Tolerance]]],
) -> Verdict:
    """Return the verdict for the test of `evidence`.

    Args:
        evidence: what is known of the test.
        reference: what is known of the reference of the same case; the same object for a reference.
        overrides: tolerances stronger than the suite's, by level.
    """
    test = evidence.test
    if evidence.trace is None:
        return _expected(test, _without_trace(evidence))
    tolerances = tolerance_table(test, overrides)
    comparisons = []
    if not test.is_reference:
        if reference.trace is None:
            return _without_reference(evidence, reference)
        comparisons.append(_equivalence(reference.trace, evidence.trace, test, tolerances))
    own = _against_golden(evidence, tolerances) if not test.expected_failure else None
    comparisons += [own] if own else []
    comparisons += [_against_published(evidence.trace, test, published, overrides) for published in test.published]
    if comparisons and not test.is_reference and own is not None:
        anchor = _against_golden(reference, tolerance_table(reference.test, overrides)) if reference.trace else None
        reading = attribute(comparisons[0], own, anchor)
        if reading:
            place = 0 if not comparisons[0].status.is_green else 1  # where the arms agree, the golden is what failed
            likely = (reading, *comparisons[place].likely)
            comparisons[place] = dataclasses.replace(comparisons[place], likely=likely)
    notes = [] if evidence.golden is None or evidence.golden.is_sealed else [EDITED_GOLDEN]
    notes += [_published_note(evidence.trace, published) for published in test.published]
    run_findings = _run_findings(evidence)
    if reference is not evidence:
        run_findings += [dataclasses.replace(f, what=OF_REFERENCE + f.what) for f in _run_findings(reference)]
    status = worst([c.status for c in comparisons] + [finding.status for finding in run_findings])
    grave = next((f.what for f in run_findings if f.status is status), "")
    what = grave or next((f.what for c in comparisons if c.status is status for f in c.findings if f.status is status), "")
    verdict = _verdict(evidence, status, what=what, comparisons=tuple(comparisons))
    verdict = dataclasses.replace(verdict, notes=(*verdict.notes, *notes))
    return _expected(test, verdict, run_findings)


def tolerance_table(test: Test, overrides: Sequence[tuple[Level, Mapping[str, Tolerance]]]) -> ToleranceTable:
    """Return the tolerances for the keys of `test`: `overrides`, then what its suite says."""
    suite = test.named.suite
    of_test = [rules for pattern, rules in suite.test_tolerance.items() if test_matches(test.label, pattern)]
    levels = [*of_test, suite.case_tolerance.get(test.case_name, {}), suite.tolerance]
    return ToleranceTable((*overrides, *((Level.SUITE, rules) for rules in levels)))


def _equivalence(reference: Trace, candidate: Trace, test: Test, tolerances: ToleranceTable) -> Comparison:
    unobserved = (*test.variant.unobserved, *test.reference.variant.unobserved)
    if reference.facts.ranks != candidate.facts.ranks:
        unobserved += OF_RANKS
    unequal = input_findings(reference.facts, candidate.facts)
    in_distribution = test.equivalence is Equivalence.DISTRIBUTIONAL
    found = compare_traces(
        reference,
        candidate,
        tolerances,
        kind=ComparisonKind.EQUIVALENCE,
        against=test.reference.label,
        unobserved=tuple(dict.fromkeys(unobserved)),
        in_distribution=in_distribution,
        known_findings=[
            *unequal,
            *blind_findings(reference, wants_gradients=_records_gradients(test)),
            *padding_findings(reference.facts),
            *padding_findings(candidate.facts),
            *(draw_findings(reference) if in_distribution else []),
        ],
    )
    causes = [f"{len(unequal)} inputs are unlike: {unequal[0].key}: {unequal[0].what}"] if unequal else []
    causes += likely_causes(reference, candidate, found, micro_batches=test.case.micro_batches)
    fell = test.equivalence is Equivalence.BITWISE and found.status is Status.WITHIN
    return dataclasses.replace(
        found,
        status=Status.DRIFT if fell else found.status,
        likely=tuple(causes),
        declared=test.equivalence,
    )


def _records_gradients(test: Test) -> bool:
    """Return whether the suite asks for gradients at any step."""
    return any(test.records("grad/", step) for step in range(1, test.case.steps + 1))


def _against_golden(evidence: Evidence, tolerances: ToleranceTable) -> Comparison:
    test, trace, golden = evidence.test, evidence.trace, evidence.golden
    assert trace is not None
    kind = ComparisonKind.ANCHOR if test.is_reference else ComparisonKind.REGRESSION
    against = f"golden {evidence.golden_path.name}" if evidence.golden_path else "golden"
    if golden is None:
        finding = Finding(status=Status.NOGOLDEN, what="there is no golden")
        return Comparison(kind=kind, against=against, status=Status.NOGOLDEN, findings=(finding,))
    stale = stale_findings(golden.trace.facts, trace.facts)
    if stale:
        return Comparison(kind=kind, against=against, status=Status.STALE, findings=tuple(stale))
    found = compare_traces(
        golden.trace, trace, tolerances, kind=kind, against=against, select=golden_selection(test)
    )
    likely = likely_causes(golden.trace, trace, found, micro_batches=test.case.micro_batches)
    drifted = found.status is Status.WITHIN and golden.manifest.reruns > 1
    return dataclasses.replace(found, likely=likely, status=Status.DRIFT if drifted else found.status)


def _against_published(
    trace: Trace, test: Test, published: PublishedValues, overrides: Sequence[tuple[Level, Mapping[str, Tolerance]]]
) -> Comparison:
    """Hold `trace` against numbers printed elsewhere, which have no dtype: both sides are read as float64."""
    wanted = {
        (step, key): np.asarray(value, dtype=np.float64)
        for key, values in published.values.items()
        for step, value in enumerate(values, start=1)
    }
    recorded = {
        (entry.step, entry.key): array.astype(np.float64)
        for entry, array in trace.arrays()
        if entry.key in published.values
    }
    facts = RunFacts(test=test.id, steps=test.case.steps)
    table = ToleranceTable((*overrides, (Level.SUITE, {"*": published.tolerance})))
    kind = ComparisonKind.ANCHOR if test.is_reference else ComparisonKind.REGRESSION
    against = f"published: {published.source}"
    return compare_traces(memory_trace(facts, wanted), memory_trace(facts, recorded), table, kind=kind, against=against)


def _published_note(trace: Trace, published: PublishedValues) -> str:
    """Return the values that were measured beside those that were published, to the last digit of float32."""
    lines = []
    for key, values in published.values.items():
        measured = [f"{float(array.reshape(-1)[0]):.9g}" for entry, array in trace.arrays() if entry.key == key]
        lines.append(f"{key} {' '.join(measured)}; published {' '.join(f'{value:.9g}' for value in values)}")
    return "; ".join(lines)


def _run_findings(evidence: Evidence) -> list[Finding]:
    """Return what is wrong with the run itself: treatments without proof, repeats that disagree."""
    assert evidence.trace is not None
    return [*_unproven(evidence.trace.facts), *_unstable(evidence.trace, evidence.repeats)]


def _unproven(facts: RunFacts) -> list[Finding]:
    return [Finding(status=Status.UNPROVEN, what=reason) for reason in facts.unproven]


def _unstable(trace: Trace, repeats: Sequence[Trace]) -> list[Finding]:
    for number, repeat in enumerate(repeats, start=2):
        if trace.entries != repeat.entries:
            return [Finding(status=Status.UNSTABLE, what=f"repeat {number} recorded other keys, steps or shapes")]
        for (entry, one), (_, other) in zip(trace.arrays(), repeat.arrays(), strict=True):
            if not same_bits(one, other):
                what = f"{entry.key} at step {entry.step} differs between the first run and repeat {number}"
                return [Finding(status=Status.UNSTABLE, key=entry.key, step=entry.step, what=what)]
    return []


def _without_trace(evidence: Evidence) -> Verdict:
    return _verdict(evidence, ENDINGS[evidence.outcome.ending], what=evidence.outcome.what)


def _without_reference(evidence: Evidence, reference: Evidence) -> Verdict:
    """Return the verdict for a test that ran, and has nothing to be held against; the log is the reference's."""
    outcome = reference.outcome
    status = ENDINGS[outcome.ending]
    found = _verdict(evidence, status, what=f"its reference {reference.test.label} ended as {status.value}: {outcome.what}")
    return dataclasses.replace(found, remedy=outcome.remedy, log=f"logs/{outcome.log}" if outcome.log else "")


def _verdict(evidence: Evidence, status: Status, *, what: str, comparisons: tuple[Comparison, ...] = ()) -> Verdict:
    outcome, trace = evidence.outcome, evidence.trace
    facts = trace.facts if trace else RunFacts(test=evidence.test.id, steps=evidence.test.case.steps)
    return Verdict(
        test=evidence.test.id,
        status=status,
        what=what,
        remedy=outcome.remedy,
        comparisons=comparisons,
        attempts=outcome.attempts,
        first_failure=outcome.first_failure,
        log=f"logs/{outcome.log}" if outcome.log else "",
        notes=facts.notes,
        accepted_margin=_accepted_margin(evidence.golden),
        compile_s=facts.compile_s,
        run_s=facts.run_s,
        graph=facts.graph,
    )


def _accepted_margin(golden: Golden | None) -> float:
    return math.nan if golden is None or golden.manifest.margin is None else golden.manifest.margin


def _expected(test: Test, verdict: Verdict, run_findings: Sequence[Finding] = ()) -> Verdict:
    """Return `verdict` with its relation to the known fault of the test, if it has one.

    Of what is wrong with the run itself, only the missing proof of one's own treatment can be expected, when it is named.
    """
    fault = test.expected_failure
    if fault is None or verdict.status is Status.UNVERIFIED:
        return verdict
    findings = [finding for comparison in verdict.comparisons for finding in comparison.findings]
    is_known = all(finding.status is fault.status and fault.covers(finding.key) for finding in findings)
    is_known = is_known and all(
        finding.status is Status.UNPROVEN
        and fault.raises
        and fault.raises in finding.what
        and not finding.what.startswith(OF_REFERENCE)
        for finding in run_findings
    )
    is_said = any(fault.raises in what for what in (verdict.what, *(finding.what for finding in run_findings)))
    if verdict.status is fault.status and is_known and is_said:
        return dataclasses.replace(verdict, expectation=Expectation.MET, why_expected=fault.why)
    if verdict.status.is_green:
        return dataclasses.replace(verdict, expectation=Expectation.NOT_MET, why_expected=fault.why)
    return dataclasses.replace(verdict, why_expected=fault.why) if not run_findings else verdict
