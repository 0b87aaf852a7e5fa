"""Which replica a difference comes from, and what it did, told from the numbers of both runs."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from xla_equiv.measure.metrics import same_bits
from xla_equiv.values.ranks import rank_key, split_rank
from xla_equiv.values.shards import HeldBy
from xla_equiv.values.trace import Array, Trace
from xla_equiv.values.verdict import Finding

UNEXPLAINED = 1e-3
"""Share of a gradient that may stay unexplained for "a sum of the ranks' own gradients" to be said."""

NEAR_WEIGHT = 1e-3
"""How near the weight of a rank's gradient must be to a telling one."""

NOTABLE = 1e-2
"""Share of the largest difference from which an element counts as off, when its shard is looked up."""


def rank_causes(reference: Trace, candidate: Trace, bad: Sequence[Finding]) -> list[str]:
    """Return what the replicas probably did to cause `bad`, sorted by step; only the first bad step is looked at."""
    ranks = max(reference.facts.ranks, candidate.facts.ranks)
    if ranks == 1 or not bad:
        return []
    ones, twos = _step(reference, bad[0].step), _step(candidate, bad[0].step)
    before = _step(candidate, bad[0].step - 1)
    found = []
    for finding in (finding for finding in bad if finding.step == bad[0].step):
        base, rank = split_rank(finding.key)
        one, two = ones.get(finding.key, ones.get(base)), twos.get(finding.key, twos.get(base))
        if one is None or two is None or one.shape != two.shape or not _is_float(one) or not _is_float(two):
            continue
        kind, _, name = base.partition("/")
        cause = ""
        if kind == "grad":
            cause = _shards(one, two, candidate.facts.placement.get(name, ())) or _contributions(name, two, ones, ranks)
            cause = cause or _other_parameter(base, two, ones) or _rounded(one, two)
        elif kind == "grad_norm":
            cause = _local_norms(one, twos, ranks)
        elif kind == "param" and rank is not None:
            cause = _stale(rank, two, before.get(finding.key, before.get(base)))
        if not cause and kind in ("grad", "param", "optim"):
            parameter = name.rpartition("/")[0] if kind == "optim" else name
            cause = _shards(one, two, candidate.facts.placement.get(parameter, ()))
        if cause:
            found.append(f"{finding.key} at step {finding.step}: {cause}")
    return _without_repetition(found)


def _without_repetition(found: Sequence[str]) -> list[str]:
    """Return the first of all causes that say the same of several keys, with the number of the others."""
    keys_of: dict[str, list[str]] = {}
    for text in found:
        place, _, cause = text.partition(": ")
        keys_of.setdefault(cause, []).append(place)
    return [
        f"{places[0]}: {cause}" + (f" (and {len(places) - 1} more)" if len(places) > 1 else "")
        for cause, places in keys_of.items()
    ]


def _step(trace: Trace, step: int) -> Mapping[str, Array]:
    return {entry.key: trace.read(entry) for entry in trace.entries if entry.step == step}


def _is_float(array: Array) -> bool:
    return bool(array.size) and array.dtype.kind not in "iub" and bool(np.isfinite(_wide(array)).all())


def _wide(array: Array) -> NDArray[np.float64]:
    return np.ravel(array).astype(np.float64)


def _contributions(name: str, gradient: Array, reference: Mapping[str, Array], ranks: int) -> str:
    """Return with which weight each rank's own gradient went into `gradient`, when that explains it."""
    own = [reference.get(rank_key(f"local_grad/{name}", rank)) for rank in range(ranks)]
    present = [_wide(array) for array in own if array is not None]
    is_usable = all(array.shape == (gradient.size,) and np.isfinite(array).all() for array in present)
    if len(present) < ranks or not is_usable or gradient.size < ranks:
        return ""
    matrix, wanted = np.stack(present, axis=1), _wide(gradient)
    weights, _, full, _ = np.linalg.lstsq(matrix, wanted, rcond=None)
    if full < ranks or np.linalg.norm(matrix @ weights - wanted) > UNEXPLAINED * max(float(np.linalg.norm(wanted)), 1e-30):
        return ""
    return _meaning(np.asarray(weights, dtype=np.float64), ranks)


def _meaning(weights: NDArray[np.float64], ranks: int) -> str:
    def near(value: float) -> NDArray[np.bool_]:
        return np.abs(weights - value) <= NEAR_WEIGHT * max(abs(value), 1.0 / ranks)

    mean, none = near(1.0 / ranks), near(0.0)
    if mean.all():
        return ""
    if near(1.0).all():
        return f"the gradients of the {ranks} ranks were summed, not averaged"
    if near(1.0 / ranks**2).all():
        return f"the gradients of the {ranks} ranks were averaged twice"
    if none.sum() == ranks - 1:
        rank = int(np.argmin(none))
        return f"it is rank {rank}'s own gradient times {weights[rank]:.4g}: it was not reduced"
    if none.any():
        missing = ", ".join(str(rank) for rank in np.flatnonzero(none))
        return f"the contribution of rank {missing} is missing"
    unlike = np.flatnonzero(~mean)
    if len(unlike) == 1:
        rank = int(unlike[0])
        return f"rank {rank}'s gradient went in with the weight {weights[rank]:.4g}, not {1.0 / ranks:.4g}"
    listed = " ".join(f"{weight:.4g}" for weight in weights)
    return f"the ranks' gradients went in with the weights {listed}, not {1.0 / ranks:.4g} each"


def _other_parameter(key: str, gradient: Array, reference: Mapping[str, Array]) -> str:
    """Return which other parameter's gradient `gradient` is."""
    for other, array in reference.items():
        if other.startswith("grad/") and other != key and array.size == gradient.size:
            scale = max(float(np.abs(_wide(array)).max()), 1e-30)
            if np.abs(_wide(array) - _wide(gradient)).max() <= 1e-5 * scale and np.any(array):
                return f"it is the gradient of {other.removeprefix('grad/')}: it landed on the wrong parameter"
    return ""


def _rounded(reference: Array, candidate: Array) -> str:
    """Return that every value of the candidate alone is a bfloat16 number."""
    if reference.dtype != np.float32 or candidate.dtype != np.float32 or not np.any(candidate):
        return ""

    def is_bfloat16(array: Array) -> bool:
        return not np.any(np.ascontiguousarray(array).reshape(-1).view(np.uint32) & 0xFFFF)

    if is_bfloat16(candidate) and not is_bfloat16(reference):
        return "every value is a bfloat16 number: it was reduced in bfloat16, not in float32"
    return ""


def _local_norms(norm: Array, candidate: Mapping[str, Array], ranks: int) -> str:
    """Return that each rank has the norm of its own share."""
    norms = [candidate.get(rank_key("grad_norm", rank), candidate["grad_norm"]) for rank in range(ranks)]
    values = [float(_wide(one)[0]) for one in norms]
    if len(set(values)) < ranks:
        return ""
    listed = ", ".join(f"rank {rank}: {value:.6g}" for rank, value in enumerate(values))
    total = float(np.sqrt(np.sum(np.square(values))))
    whose = "its own shard" if abs(total - float(_wide(norm)[0])) <= 1e-4 * total else "its own gradients"
    return f"every rank has the norm of {whose}, not the global one ({listed})"


def _stale(rank: int, values: Array, before: Array | None) -> str:
    if before is not None and before.shape == values.shape and same_bits(before, values):
        return f"rank {rank} still has the value of the step before"
    return ""


def _shards(reference: Array, candidate: Array, held: Sequence[HeldBy]) -> str:
    """Return in whose shards the elements that are off lie, and whose content these have."""
    if len(held) < 2 or sum(part.stop - part.start for part in held) != candidate.size:
        return ""
    one, two = _wide(reference), _wide(candidate)
    difference = np.abs(two - one)
    off = difference > NOTABLE * difference.max()
    hit = [part for part in held if off[part.start : part.stop].any()]
    swapped = list(_content_of_others(one, two, hit, held))
    if swapped:
        return "; ".join(swapped)
    if len(hit) == len(held):
        return ""
    return f"all elements that are off lie in the shard of rank {', '.join(str(part.rank) for part in hit)}"


def _content_of_others(
    one: NDArray[np.float64], two: NDArray[np.float64], hit: Sequence[HeldBy], held: Sequence[HeldBy]
) -> Iterator[str]:
    for part in hit:
        mine = two[part.start : part.stop]
        for other in held:
            theirs = one[other.start : other.stop]
            size = min(mine.size, theirs.size)
            scale = np.abs(theirs[:size]).max()
            if other.rank != part.rank and scale > 0 and np.abs(mine[:size] - theirs[:size]).max() <= 1e-3 * scale:
                yield f"rank {part.rank} holds the shard of rank {other.rank}"
                break
