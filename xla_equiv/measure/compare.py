"""One trace held against another: every key of every step, nothing left out silently."""

import math
from collections.abc import Callable, Mapping, Sequence

from xla_equiv.measure.distributions import measure_distribution
from xla_equiv.measure.graphs import graph_difference
from xla_equiv.measure.metrics import measure
from xla_equiv.values.patterns import key_group, matches
from xla_equiv.values.ranks import is_of_each_rank, split_rank
from xla_equiv.values.tolerance import ToleranceTable
from xla_equiv.values.trace import Entry, Trace
from xla_equiv.values.verdict import Comparison, ComparisonKind, Finding, KeyGroup, Measurement, Status, worst

Select = Callable[[Entry], bool]


def compare_traces(
    reference: Trace,
    candidate: Trace,
    tolerances: ToleranceTable,
    *,
    kind: ComparisonKind,
    against: str,
    select: Select = lambda entry: True,
    unobserved: Sequence[str] = (),
    known_findings: Sequence[Finding] = (),
    in_distribution: bool = False,
) -> Comparison:
    """Return how `candidate` compares with `reference`.

    Args:
        reference: the trusted trace.
        candidate: the trace that must agree with it.
        tolerances: the tolerances in force.
        kind: copied into the result; tolerances may depend on it.
        against: copied into the result.
        select: which entries are compared; applied to both traces.
        unobserved: patterns of keys that one side cannot record; left out, and listed in the result.
        known_findings: what was found before comparing, such as unequal inputs.
        in_distribution: compare what the draws have in common, not draw by draw.
    """

    def is_compared(entry: Entry) -> bool:
        return select(entry) and not any(matches(entry.key, pattern) for pattern in unobserved)

    references = {(entry.step, entry.key): entry for entry in reference.entries if is_compared(entry)}
    candidates = {(entry.step, entry.key): entry for entry in candidate.entries if is_compared(entry)}
    _let_stand_for_ranks(references, candidates)
    _let_stand_for_ranks(candidates, references)
    findings = list(known_findings) + _missing(references, candidates)
    values = sum(math.prod(entry.shape[1:]) for entry in references.values())
    measurements = []
    for place in sorted(references.keys() & candidates.keys(), key=_order(references)):
        entry, other = references[place], candidates[place]
        if (entry.dtype, entry.shape) != (other.dtype, other.shape):
            findings.append(_unlike(place[1], entry, other))
            continue
        one, two = reference.read(entry), candidate.read(other)
        tolerance = tolerances.resolve(place[1], entry.dtype, kind.value)
        measurements.append(
            measure_distribution(one, two, tolerance, key=place[1], step=entry.step, values=values)
            if in_distribution
            else measure(one, two, tolerance, key=place[1], step=entry.step)
        )
    findings += [_outside(found) for found in measurements if not found.status.is_green]
    if not measurements:
        is_shared = bool(references.keys() & candidates.keys())
        why = "no key has the same dtype and shape" if is_shared else "no key and step stands"
        findings.append(Finding(status=Status.MISSING, what=f"nothing was compared: {why} on both sides"))
    findings.sort(key=lambda finding: finding.step)
    groups = group_measurements(measurements)
    return Comparison(
        kind=kind,
        against=against,
        status=worst([group.status for group in groups] + [finding.status for finding in findings]),
        groups=groups,
        findings=tuple(findings),
        compared=len(measurements),
        unobserved=tuple(unobserved),
        graph=graph_difference(reference.facts.graph, candidate.facts.graph),
    )


def _let_stand_for_ranks(entries: dict[tuple[int, str], Entry], others: Mapping[tuple[int, str], Entry]) -> None:
    """Add to `entries` what only `others` has for a rank of its own: there, what all ranks hold alike stands for it."""
    for step, key in others:
        base, rank = split_rank(key)
        if rank is not None and not is_of_each_rank(base) and (step, key) not in entries and (step, base) in entries:
            entries[step, key] = entries[step, base]


def _order(entries: Mapping[tuple[int, str], Entry]) -> Callable[[tuple[int, str]], tuple[int, int]]:
    """Return a sort key: by step, then in the order in which the reference recorded the keys."""
    position = {place: number for number, place in enumerate(entries)}
    return lambda place: (place[0], position[place])


def _missing(
    references: Mapping[tuple[int, str], Entry], candidates: Mapping[tuple[int, str], Entry]
) -> list[Finding]:
    findings = []
    for present, absent, name in ((references, candidates, "candidate"), (candidates, references, "reference")):
        steps_of: dict[str, list[int]] = {}
        for step, key in present:
            if (step, key) not in absent:
                steps_of.setdefault(key, []).append(step)
        findings += [
            Finding(
                status=Status.MISSING,
                key=key,
                step=min(steps),
                what=f"{key} is missing from the {name} at {len(steps)} step{'s' * (len(steps) > 1)}, first {min(steps)}",
            )
            for key, steps in steps_of.items()
        ]
    return findings


def _unlike(key: str, reference: Entry, candidate: Entry) -> Finding:
    return Finding(
        status=Status.MISSING,
        key=key,
        step=reference.step,
        what=f"{key} is {candidate.dtype}{list(candidate.shape)} in the candidate, "
        f"{reference.dtype}{list(reference.shape)} in the reference",
    )


def _outside(found: Measurement) -> Finding:
    if found.status is Status.NONFINITE:
        what = f"{found.key} has {found.nonfinite} of {found.size} elements that are NaN or inf on at least one side"
    else:
        what = f"{found.key} has {found.outside} of {found.size} elements outside tolerance"
    return Finding(status=found.status, key=found.key, step=found.step, what=what, measurement=found)


def group_measurements(measurements: Sequence[Measurement]) -> tuple[KeyGroup, ...]:
    """Return the measurements put together by group of keys, in recorded order."""
    members: dict[str, list[Measurement]] = {}
    for found in measurements:
        members.setdefault(key_group(found.key), []).append(found)
    return tuple(_group(name, found) for name, found in members.items())


def _group(name: str, members: Sequence[Measurement]) -> KeyGroup:
    bad = [found for found in members if not found.status.is_green]
    return KeyGroup(
        group=name,
        compared=len(members),
        outside=len(bad),
        max_abs=max(found.max_abs for found in members),
        max_rel=max(found.max_rel for found in members),
        min_rtol=max(found.min_rtol for found in members),
        min_atol=max(found.min_atol for found in members),
        first_outside=min((found.step for found in bad), default=0),
        status=worst([found.status for found in members]),
        measurement=max(members, key=lambda found: found.margin),
        decided_by=tuple(sorted({found.decided_by for found in members})),
    )
