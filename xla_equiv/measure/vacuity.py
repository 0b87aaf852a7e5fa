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
    if _train_on_the_same_batches(reference):
        found.append("all replicas train on the same batches, so that a contribution that is missing or doubled cannot be told")
    return [Finding(status=Status.BLIND, what=f"{what}: nothing could fail") for what in found]


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


def _train_on_the_same_batches(trace: Trace) -> bool:
    """Return whether each tensor of each batch is the same on all of several replicas."""
    digests: dict[str, set[str]] = {}
    ranks = set()
    for name, digest in trace.facts.inputs.items():
        base, rank = split_rank(name)
        if rank is not None and name.startswith("batch/"):
            digests.setdefault(base, set()).add(digest.sha256)
            ranks.add(rank)
    return len(ranks) > 1 and all(len(found) == 1 for found in digests.values())


def _of(trace: Trace, prefix: str) -> list[Entry]:
    return [entry for entry in trace.entries if entry.key.startswith(prefix)]


def _has_moved(trace: Trace, entry: Entry) -> bool:
    initial = trace.facts.inputs.get(entry.key)
    return initial is None or initial.sha256 != sha256(trace.read(entry))
