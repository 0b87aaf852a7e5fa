"""Whether a comparison could fail at all: what a training that trains nothing leaves in its trace."""

import numpy as np

from xla_equiv.measure.inputs import sha256
from xla_equiv.values.ranks import split_rank
from xla_equiv.values.trace import Entry, RunFacts, Trace
from xla_equiv.values.verdict import Finding, Status


def blind_findings(reference: Trace, *, wants_gradients: bool) -> list[Finding]:
    """Return why comparing with `reference` could not show a fault; empty when it could.

    Args:
        reference: the trusted trace.
        wants_gradients: whether gradients are recorded where there are any.
    """
    gradients = _of(reference, "grad/")
    found = []
    if wants_gradients and not gradients:
        found.append("the reference has no gradient")
    elif gradients and not any(np.any(reference.read(entry)) for entry in gradients):
        found.append("every gradient of the reference is zero")
    parameters = _of(reference, "param/")
    if parameters and not any(_has_moved(reference, entry) for entry in parameters):
        found.append("no parameter of the reference has moved from its initial value")
    if reference.entries and not any(_depends_on_gradient(entry) for entry in reference.entries):
        found.append("nothing that is recorded depends on a gradient")
    what = [f"{one}: nothing could fail" for one in found]
    what += [one for one in (_same_batches(reference), _drifted(reference)) if one]
    return [Finding(status=Status.BLIND, what=one) for one in what]


def padding_findings(facts: RunFacts) -> list[Finding]:
    """Return which replicas hold no element of any sharded parameter, so that nothing they do with them could show."""
    if not facts.placement:
        return []
    holding = {part.rank for parts in facts.placement.values() for part in parts}
    idle = [str(rank) for rank in range(facts.ranks) if rank not in holding]
    if not idle:
        return []
    what = f"rank {', '.join(idle)} of {facts.ranks} holds padding only, no element of any parameter: a fault of its shards could not show"
    return [Finding(status=Status.BLIND, what=what)]


def draw_findings(reference: Trace) -> list[Finding]:
    """Return that no two draws of `reference` differ, so that it has no distribution to compare with."""
    if any(np.ptp(reference.read(entry), axis=0).any() for entry in _of(reference, "loss")):
        return []
    return [Finding(status=Status.BLIND, what="the draws of the reference have equal losses: nothing random is drawn")]


def _same_batches(reference: Trace) -> str:
    """Return which replicas train on the same batches: one's gradient could stand for the other's."""
    drawn: dict[int, list[tuple[str, str]]] = {}
    for name, digest in reference.facts.inputs.items():
        base, rank = split_rank(name)
        if rank is not None and base.startswith("batch/"):
            drawn.setdefault(rank, []).append((base, digest.sha256))
    ranks_of: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for rank, batches in sorted(drawn.items()):
        ranks_of.setdefault(tuple(sorted(batches)), []).append(str(rank))
    alike = next((ranks for ranks in ranks_of.values() if len(ranks) > 1), [])
    return f"replicas {', '.join(alike)} train on the same batches: a gradient that is not reduced could not show" if alike else ""


def _drifted(reference: Trace) -> str:
    """Return which parameter the reference's own replicas do not hold alike."""
    entry = next((entry for entry in _of(reference, "param/") if split_rank(entry.key)[1] is not None), None)
    return f"the reference's own replicas have drifted apart: {entry.key} at step {entry.step}" if entry else ""


def _depends_on_gradient(entry: Entry) -> bool:
    return entry.step > 1 or entry.key.partition("/")[0] in ("local_grad", "grad", "grad_norm", "optim", "param")


def _of(trace: Trace, prefix: str) -> list[Entry]:
    return [entry for entry in trace.entries if entry.key.startswith(prefix)]


def _has_moved(trace: Trace, entry: Entry) -> bool:
    initial = trace.facts.inputs.get(entry.key)
    if initial is None:
        return True
    array = trace.read(entry)
    drawn = array if array.shape == initial.shape else array[0]  # of several draws, which began alike, the first
    return initial.sha256 != sha256(drawn)
