"""One trace from what every replica recorded: shards put together, and each difference between replicas kept."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from xla_equiv.measure.metrics import same_bits
from xla_equiv.values.ranks import is_of_each_rank, rank_key, split_rank
from xla_equiv.values.shards import Layout, Member
from xla_equiv.values.trace import Array, computed_at


def reassemble(shards: Sequence[Array], members: Sequence[Member]) -> dict[str, Array]:
    """Return parameter -> whole array, from the flat `shards` of all ranks in rank order.

    Raises:
        ValueError: the shards do not have the sizes that `members` need.
    """
    if len({shard.shape for shard in shards}) != 1 or shards[0].ndim != 1:
        raise ValueError(f"the shards have the shapes {[list(shard.shape) for shard in shards]}, not one flat shape")
    flat = np.concatenate(shards)
    needed = sum(member.size for member in members)
    if needed > flat.size:
        names = ", ".join(member.name for member in members)
        raise ValueError(f"the shards have {flat.size} elements together; {names} need {needed}")
    found, offset = {}, 0
    for member in members:
        found[member.name] = flat[offset : offset + member.size].reshape(member.shape)
        offset += member.size
    return found


def join_ranks(of_ranks: Sequence[Mapping[str, Array]], layout: Layout, sharded: Collection[str]) -> dict[str, Array]:
    """Return key -> array of the whole run, from what each rank recorded at one step.

    What all ranks hold alike, bit for bit, stands under its key once. A rank that differs from rank 0 stands
    beside it, as `key@rank2`. Of losses each rank's own and their mean are kept; of local gradients each rank's own.

    Args:
        of_ranks: key -> array, for each rank.
        layout: how sharded tensors lie on the ranks.
        sharded: the keys that hold a shard.

    Raises:
        ValueError: ranks recorded other keys than rank 0, or shards that do not fit together.
    """
    whole: list[dict[str, Array]] = [{} for _ in of_ranks]
    for rank, arrays in enumerate(of_ranks):
        if arrays.keys() != of_ranks[0].keys():
            key = next(iter(sorted(arrays.keys() ^ of_ranks[0].keys())))
            raise ValueError(
                f"rank {rank if key in arrays else 0} recorded {key}, rank {0 if key in arrays else rank} did not"
            )
        for key, array in arrays.items():
            whole[rank].update(_members_of(key, array, layout, sharded))
    for key in sharded:
        kind, name, slot = split_key(key, layout)
        for member, array in reassemble([arrays[key] for arrays in of_ranks], layout[name]).items():
            whole[0][f"{kind}/{member}{slot}"] = array
    found: dict[str, Array] = {}
    for key, array in whole[0].items():
        others = [(rank, arrays[key]) for rank, arrays in enumerate(whole) if rank and key in arrays]
        if is_of_each_rank(key):
            found |= {rank_key(key, rank): other for rank, other in [(0, array), *others]}
            if key.startswith("loss"):
                found[key] = _mean([array, *(other for _, other in others)])
            continue
        found[key] = array
        found |= {rank_key(key, rank): other for rank, other in others if not _alike(array, other)}
    return {key: found[key] for key in sorted(found, key=computed_at)}


def _alike(one: Array, other: Array) -> bool:
    return (one.dtype, one.shape) == (other.dtype, other.shape) and same_bits(one, other)


def _mean(arrays: Sequence[Array]) -> Array:
    """Return the mean in the arrays' own dtype, summed in float64."""
    mean: Array = np.mean(np.stack([array.astype(np.float64) for array in arrays]), axis=0, keepdims=True)[0]
    return mean.astype(arrays[0].dtype)


def total_norm(arrays: Mapping[str, Array]) -> Array:
    """Return the global norm of all gradients in `arrays`, a scalar of the first one's dtype, summed in float64."""
    gradients = [array for key, array in arrays.items() if key.startswith("grad/") and split_rank(key)[1] is None]
    squared = sum(float(np.sum(np.square(gradient.astype(np.float64)))) for gradient in gradients)
    return np.asarray(squared**0.5).astype(gradients[0].dtype)


def split_key(key: str, layout: Layout) -> tuple[str, str, str]:
    """Return (first part, name in `layout`, rest with its slash) of `key`; the name is '' when it has none there.

    >>> split_key("optim/flat/exp_avg", {"flat": ()})
    ('optim', 'flat', '/exp_avg')
    """
    kind, _, rest = key.partition("/")
    if rest in layout:
        return kind, rest, ""
    name, _, slot = rest.rpartition("/")
    return (kind, name, f"/{slot}") if kind == "optim" and name in layout else (kind, "", "")


def _members_of(key: str, array: Array, layout: Layout, sharded: Collection[str]) -> dict[str, Array]:
    """Return what a rank holds alike with the others: `key` itself, or a copy for each member of a flat tensor."""
    if key in sharded:
        return {}
    kind, name, slot = split_key(key, layout)
    return {f"{kind}/{member.name}{slot}": array for member in layout[name]} if name else {key: array}
