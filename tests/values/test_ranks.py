"""Keys of what one replica has for itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_equiv.values.ranks import is_of_each_rank, rank_key, split_rank
from xla_equiv.values.trace import computed_at


@given(st.text("ab/.@0", min_size=1, max_size=8), st.integers(0, 4096))
def test_a_key_and_its_rank_come_back(key: str, rank: int) -> None:
    assert split_rank(rank_key(key, rank)) == (key, rank)


@pytest.mark.parametrize(
    "key", ["loss", "loss/0", "grad/rank2", "grad/a@rank", "grad/a@rank2.weight", "grad/a@rank2/step", "grad/a@Rank2"]
)
def test_a_key_without_a_rank_at_its_end_stands_for_all(key: str) -> None:
    assert split_rank(key) == (key, None)


@pytest.mark.parametrize(
    ("key", "is_own"),
    [
        ("loss", True),
        ("loss/3", True),
        ("local_grad/a.weight", True),
        ("grad/a.weight", False),
        ("grad/loss", False),
        ("grad_norm", False),
        ("param/local_grad", False),
        ("optim/a.weight/exp_avg", False),
        ("buffer/a.running_mean", False),
        ("carried/0", False),
    ],
)
def test_losses_and_local_gradients_are_of_each_rank(key: str, is_own: bool) -> None:
    assert is_of_each_rank(key) is is_own


def test_what_a_rank_has_is_computed_when_the_others_compute_theirs() -> None:
    losses = ["loss/0@rank1", "loss/0", "loss@rank1", "loss"]
    others = ["local_grad/a@rank0", "grad/a@rank2", "grad/a", "grad_norm", "param/a", "param/a@rank1"]
    assert sorted([*others, *reversed(losses)], key=computed_at) == losses + others
