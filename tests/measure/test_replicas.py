"""One trace from what every replica recorded."""

from collections.abc import Collection, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_equiv.measure.replicas import join_ranks, reassemble, split_key, total_norm
from xla_equiv.values.shards import Layout, Member
from xla_equiv.values.trace import Array, computed_at

WORDS = st.lists(st.integers(0, 1), min_size=2, max_size=5)
"""What each rank holds: one of two values."""


def array(*values: float, dtype: Any = np.float32) -> Array:
    return np.array(values, dtype)


def join(*of_ranks: dict[str, Array], layout: Layout | None = None, sharded: Collection[str] = ()) -> dict[str, Array]:
    return join_ranks(of_ranks, layout or {}, sharded)


def same(one: dict[str, Array], other: dict[str, Array]) -> bool:
    """Return whether both hold the same keys and, to the last bit, the same arrays."""
    mine, others = (
        {key: (array.dtype, array.shape, array.tobytes()) for key, array in arrays.items()} for arrays in (one, other)
    )
    return mine == others


@pytest.mark.parametrize("key", ["grad/a", "param/a", "optim/a/exp_avg", "buffer/n", "carried/0", "grad_norm"])
def test_what_all_ranks_hold_alike_stands_there_once(key: str) -> None:
    assert same(join(*({key: array(1, 2)} for _ in range(4))), {key: array(1, 2)})


@pytest.mark.parametrize("key", ["grad/a", "param/a", "optim/a/exp_avg", "buffer/n", "carried/0", "grad_norm"])
def test_a_rank_that_differs_stands_beside_the_others_with_its_number(key: str) -> None:
    found = join(*({key: array(1, 2 if rank != 2 else 3)} for rank in range(4)))
    assert same(found, {key: array(1, 2), f"{key}@rank2": array(1, 3)})


@given(WORDS)
@settings(deadline=None)
def test_what_a_rank_holds_can_be_told_from_the_joined_arrays(held: list[int]) -> None:
    found = join(*({"grad/a": array(value)} for value in held))
    assert [found.get(f"grad/a@rank{rank}", found["grad/a"]).item() for rank in range(len(held))] == held
    assert len(found) == 1 + sum(value != held[0] for value in held)


@pytest.mark.parametrize(
    ("one", "other", "is_alike"),
    [
        (array(0.0), array(-0.0), False),
        (array(np.nan), array(np.nan), True),
        (array(1), array(1, dtype=np.int32), False),
        (array(1, 2), np.array([[1, 2]], np.float32), False),
        (array(1), np.nextafter(array(1), array(2)), False),
        (np.array(3), np.array(3), True),
        (array(), array(), True),
        (array(1, dtype=ml_dtypes.bfloat16), array(1, dtype=ml_dtypes.bfloat16), True),
    ],
)
def test_ranks_are_alike_when_they_hold_the_same_bits(one: Array, other: Array, is_alike: bool) -> None:
    assert list(join({"param/a": one}, {"param/a": other})) == ["param/a"] + ["param/a@rank1"] * (not is_alike)


def test_an_array_that_is_not_contiguous_is_compared_by_its_values() -> None:
    one = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert list(join({"param/a": one.T}, {"param/a": np.ascontiguousarray(one.T)})) == ["param/a"]


def test_of_losses_each_rank_has_its_own_and_all_have_the_mean() -> None:
    found = join({"loss/0": array(1), "loss": np.float32(3)}, {"loss/0": array(1), "loss": np.float32(6)})
    wanted = {"loss/0@rank0": array(1), "loss/0@rank1": array(1), "loss/0": array(1)}
    assert same(found, {**wanted, "loss@rank0": np.float32(3), "loss@rank1": np.float32(6), "loss": np.float32(4.5)})
    assert list(found) == ["loss/0@rank0", "loss/0@rank1", "loss/0", "loss@rank0", "loss@rank1", "loss"]


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=16))
@settings(deadline=None)
def test_the_mean_of_the_losses_is_rounded_once(losses: list[float]) -> None:
    found = join(*({"loss": np.float32(loss)} for loss in losses))["loss"]
    assert found.dtype == np.float32
    assert found == np.float32(np.float64(sum(losses)) / len(losses))


def test_the_mean_of_losses_has_their_dtype() -> None:
    one, two, mean = (array(value, dtype=ml_dtypes.bfloat16) for value in (1, 2, 1.5))
    assert same(join({"loss": one}, {"loss": two}), {"loss@rank0": one, "loss@rank1": two, "loss": mean})


def test_a_loss_that_is_not_finite_on_one_rank_makes_the_mean_so() -> None:
    found = join({"loss": array(1)}, {"loss": array(np.nan)})
    assert np.isnan(found["loss"])
    assert np.isnan(found["loss@rank1"])
    assert found["loss@rank0"] == 1


def test_local_gradients_are_each_ranks_own_and_have_no_mean() -> None:
    found = join({"local_grad/a": array(1), "grad/a": array(2)}, {"local_grad/a": array(3), "grad/a": array(2)})
    assert same(found, {"local_grad/a@rank0": array(1), "local_grad/a@rank1": array(3), "grad/a": array(2)})
    alike = join({"local_grad/a": array(1)}, {"local_grad/a": array(1)})
    assert list(alike) == ["local_grad/a@rank0", "local_grad/a@rank1"]


def test_one_rank_is_joined_too() -> None:
    recorded = {"loss": np.float32(3), "grad/a": array(1), "param/flat": array(1, 2, 0)}
    found = join(recorded, layout=FLAT, sharded=["param/flat"])
    wanted = {"loss@rank0": np.float32(3), "loss": np.float32(3), "grad/a": array(1)}
    assert same(found, {**wanted, "param/p": array(1), "param/q": np.array(2, np.float32)})


@pytest.mark.parametrize(
    ("of_ranks", "text"),
    [
        (({"a": 1, "b": 1}, {"a": 1}), "rank 0 recorded b, rank 1 did not"),
        (({"a": 1}, {"a": 1, "b": 1}), "rank 1 recorded b, rank 0 did not"),
        (({"a": 1}, {"a": 1}, {"a": 1}, {}), "rank 0 recorded a, rank 3 did not"),
        (({"a": 1}, {"a": 1}, {"b": 1}), "rank 0 recorded a, rank 2 did not"),
        (({}, {"grad/b": 1, "grad/a": 1}), "rank 1 recorded grad/a, rank 0 did not"),
    ],
)
def test_ranks_that_recorded_other_keys_are_named(of_ranks: Sequence[dict[str, int]], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        join(*({key: array(value) for key, value in arrays.items()} for arrays in of_ranks))


FLAT: Layout = {"flat": (Member("p", (1,)), Member("q", ()))}
MEMBERS = (Member("a.weight", (2, 2)), Member("a.bias", (3,)))
LAYOUT: Layout = {"a.flat": MEMBERS, "b": (Member("b", (3,)),)}


def test_shards_are_put_together_whatever_they_are_of() -> None:
    shards = {
        "grad/a.flat": (array(1, 2, 3, 4), array(5, 6, 7, 0)),
        "optim/a.flat/exp_avg": (array(10, 20, 30, 40), array(50, 60, 70, 0)),
        "param/a.flat": (array(5, 6, 7, 8), array(9, 1, 2, 0)),
        "param/b": (array(1, 2), array(3, 0)),
    }
    of_ranks = [{key: held[rank] for key, held in shards.items()} for rank in range(2)]
    found = join(*of_ranks, layout=LAYOUT, sharded=list(shards))
    wanted = {
        "grad/a.weight": array(1, 2, 3, 4).reshape(2, 2),
        "grad/a.bias": array(5, 6, 7),
        "optim/a.weight/exp_avg": array(10, 20, 30, 40).reshape(2, 2),
        "optim/a.bias/exp_avg": array(50, 60, 70),
        "param/a.weight": array(5, 6, 7, 8).reshape(2, 2),
        "param/a.bias": array(9, 1, 2),
        "param/b": array(1, 2, 3),
    }
    assert same(found, wanted)
    assert list(found) == sorted(found, key=computed_at)


def test_a_scalar_of_a_flat_tensor_becomes_one_of_each_parameter_in_it() -> None:
    found = join(*({"optim/a.flat/step": np.float32(2)} for _ in range(2)), layout=LAYOUT)
    assert same(found, {"optim/a.weight/step": np.float32(2), "optim/a.bias/step": np.float32(2)})


def test_a_scalar_of_a_flat_tensor_that_differs_on_a_rank_is_named_for_each_parameter() -> None:
    found = join({"optim/a.flat/step": np.float32(2)}, {"optim/a.flat/step": np.float32(3)}, layout=LAYOUT)
    keys = ("optim/a.weight/step", "optim/a.bias/step")
    wanted = {**dict.fromkeys(keys, 2), **{f"{key}@rank1": 3 for key in keys}}
    assert {key: value.item() for key, value in found.items()} == wanted


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        ([(2,), (2,)], "the shards have 4 elements together; a.weight, a.bias need 7"),
        ([(4,), (3,)], r"the shards have the shapes \[\[4\], \[3\]\], not one flat shape"),
        ([(2, 2), (2, 2)], r"the shards have the shapes \[\[2, 2\], \[2, 2\]\], not one flat shape"),
        ([(), ()], r"the shards have the shapes \[\[\], \[\]\], not one flat shape"),
    ],
)
def test_shards_of_wrong_sizes_are_refused(shapes: list[tuple[int, ...]], text: str) -> None:
    shards = [np.zeros(shape, np.float32) for shape in shapes]
    with pytest.raises(ValueError, match=f"^{text}$"):
        reassemble(shards, MEMBERS)
    with pytest.raises(ValueError, match=f"^{text}$"):
        join(*({"param/a.flat": shard} for shard in shards), layout=LAYOUT, sharded=["param/a.flat"])


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("grad/a.flat", ("grad", "a.flat", "")),
        ("param/b", ("param", "b", "")),
        ("optim/a.flat/exp_avg", ("optim", "a.flat", "/exp_avg")),
        ("optim/c/exp_avg", ("optim", "", "")),
        ("grad/c", ("grad", "", "")),
        ("buffer/c/a.flat", ("buffer", "", "")),
        ("grad_norm", ("grad_norm", "", "")),
        ("loss/0", ("loss", "", "")),
    ],
)
def test_a_key_is_split_by_the_tensors_that_are_sharded(key: str, parts: tuple[str, str, str]) -> None:
    assert split_key(key, LAYOUT) == parts


def test_the_total_norm_is_that_of_every_gradient_once() -> None:
    arrays = {"grad/a": array(3), "grad/b": array(0, 4), "grad/b@rank1": array(9, 9), "local_grad/a@rank0": array(9)}
    found = total_norm({**arrays, "param/a": array(9)})
    assert (found.dtype, found.shape, found.item()) == (np.float32, (), 5.0)


def test_the_total_norm_is_summed_wider_than_the_gradients_are() -> None:
    assert total_norm({"grad/a": np.full(2**20, 1e30, np.float32)}) == np.float32(2**10 * 1e30)
