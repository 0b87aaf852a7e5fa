"""Parameters inside flat tensors that are shared out among replicas: put together again, and where they lie."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from xla_equiv.measure.replicas import reassemble
from xla_equiv.values.shards import HeldBy, Member, placement
from xla_equiv.values.trace import Array

SHAPES = st.lists(array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5), min_size=1, max_size=5)


def numbered(shapes: list[tuple[int, ...]]) -> dict[Member, Array]:
    """Return for each shape a member and its array; no number stands twice in all arrays, and none is 0."""
    found, begin = {}, 1
    for number, shape in enumerate(shapes):
        member = Member(f"p{number}", shape)
        found[member] = np.arange(begin, begin + member.size, dtype=np.float32).reshape(shape)
        begin += member.size
    return found


def shared_out(arrays: dict[Member, Array], ranks: int, padding: int) -> list[Array]:
    """Return the flat shard of each rank: of equal sizes, `padding` elements longer than they need to be."""
    flat = np.concatenate([array.ravel() for array in arrays.values()])
    size = -(-flat.size // ranks) + padding
    return list(np.pad(flat, (0, ranks * size - flat.size)).reshape(ranks, size))


@given(SHAPES, st.integers(1, 9), st.integers(0, 3))
@settings(deadline=None)
def test_what_was_shared_out_is_put_together_again(shapes: list[tuple[int, ...]], ranks: int, padding: int) -> None:
    arrays = numbered(shapes)
    found = reassemble(shared_out(arrays, ranks, padding), tuple(arrays))
    assert list(found) == [member.name for member in arrays]
    for member, array in arrays.items():
        assert found[member.name].shape == member.shape
        assert np.array_equal(found[member.name], array)


@given(SHAPES, st.integers(1, 9), st.integers(0, 3))
@settings(deadline=None)
def test_the_placement_says_where_the_elements_are(shapes: list[tuple[int, ...]], ranks: int, padding: int) -> None:
    arrays = numbered(shapes)
    shards = shared_out(arrays, ranks, padding)
    found = placement(tuple(arrays), shards[0].size, ranks)
    assert list(found) == [member.name for member in arrays]
    for member, array in arrays.items():
        held = {part.rank: array.ravel()[part.start : part.stop] for part in found[member.name]}
        for rank, shard in enumerate(shards):
            assert np.array_equal(held.get(rank, np.array([])), np.intersect1d(shard, array))
        assert all(part.start < part.stop for part in found[member.name])


@given(SHAPES, st.integers(1, 9), st.integers(0, 3))
@settings(deadline=None)
def test_every_element_lies_on_one_replica(shapes: list[tuple[int, ...]], ranks: int, padding: int) -> None:
    arrays = numbered(shapes)
    found = placement(tuple(arrays), shared_out(arrays, ranks, padding)[0].size, ranks)
    for member in arrays:
        parts = found[member.name]
        assert [part.rank for part in parts] == sorted({part.rank for part in parts})
        edges = [edge for part in parts for edge in (part.start, part.stop)]
        assert edges[:1] + edges[-1:] == ([0, member.size] if member.size else [])
        assert edges[1:-1:2] == edges[2:-1:2]


def test_a_parameter_may_lie_on_some_replicas_only_and_padding_on_none() -> None:
    members = (Member("a", (3,)), Member("empty", (0, 2)), Member("scalar", ()), Member("b", (2, 1)))
    assert placement(members, 2, 5) == {
        "a": (HeldBy(0, 0, 2), HeldBy(1, 2, 3)),
        "empty": (),
        "scalar": (HeldBy(1, 0, 1),),
        "b": (HeldBy(2, 0, 2),),
    }


def test_one_replica_holds_all() -> None:
    assert placement((Member("a", (2, 3)),), 8, 1) == {"a": (HeldBy(0, 0, 6),)}


@pytest.mark.parametrize(("shape", "size"), [((), 1), ((4,), 4), ((2, 3), 6), ((2, 0), 0)])
def test_a_member_has_as_many_elements_as_its_shape(shape: tuple[int, ...], size: int) -> None:
    assert Member("a", shape).size == size
