"""How a sharded tensor lies on the replicas."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Member:
    """One parameter inside a flat tensor that is shared out among the replicas.

    Args:
        name: its name in the model that is not sharded.
        shape: its whole shape.
    """

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)


Layout = Mapping[str, tuple[Member, ...]]
"""Name of a sharded tensor -> the parameters that its shards, put together in rank order, hold one after the
other; what follows the last of them is padding."""


LayoutLists = Mapping[str, Sequence[tuple[str, Sequence[int]]]]
"""A Layout as files hold it: name of a sharded tensor -> the (name, shape) of each member."""


def to_lists(layout: Layout) -> LayoutLists:
    """Return `layout` as files hold it."""
    return {name: [(member.name, list(member.shape)) for member in members] for name, members in layout.items()}


def from_lists(lists: LayoutLists) -> Layout:
    """Return the layout that a file holds as `lists`."""
    return {name: tuple(Member(member, tuple(shape)) for member, shape in members) for name, members in lists.items()}


@dataclass(frozen=True)
class HeldBy:
    """Elements `start` to `stop` of a flattened parameter lie on replica `rank`."""

    rank: int
    start: int
    stop: int


def placement(members: tuple[Member, ...], shard_size: int, ranks: int) -> dict[str, tuple[HeldBy, ...]]:
    """Return on which replicas the elements of each of `members` lie.

    >>> placement((Member("a", (3,)), Member("b", (2,))), 2, 3)["a"]
    (HeldBy(rank=0, start=0, stop=2), HeldBy(rank=1, start=2, stop=3))
    """
    found = {}
    offset = 0
    for member in members:
        held = []
        for rank in range(ranks):
            start = max(rank * shard_size - offset, 0)
            stop = min((rank + 1) * shard_size - offset, member.size)
            if start < stop:
                held.append(HeldBy(rank, start, stop))
        found[member.name] = tuple(held)
        offset += member.size
    return found
