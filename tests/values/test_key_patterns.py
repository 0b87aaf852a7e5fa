"""Patterns over keys, and the groups that reports put keys into."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_equiv.values.patterns import key_group, matches, most_specific

WORDS = st.text("abc/.", min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("key", "pattern", "is_match"),
    [
        ("grad/a.bias", "grad/*", True),
        ("grad/a.bias", "grad/*.bias", True),
        ("grad/a.bias", "*bias", True),
        ("grad/a.bias", "bias", False),
        ("grad/a.bias", "GRAD/*", False),
        ("grad_norm", "grad/*", False),
        ("loss/0", "loss", False),
        ("loss", "loss/*", False),
        ("loss/3", "loss/[0-2]", False),
        ("loss/3", "loss/?", True),
        ("grad/a.bias@rank2", "grad/a.bias", True),
        ("grad/a.bias@rank2", "grad/*", True),
        ("grad/a.bias@rank2", "*.bias", True),
        ("grad/a.bias@rank2", "*2", False),
        ("grad/a.bias@rank2", "grad/a.bias@rank2", True),
        ("grad/a.bias@rank2", "grad/*@rank2", True),
        ("grad/a.bias@rank2", "grad/*@rank1", False),
        ("grad/a.bias@rank12", "grad/*@rank1", False),
        ("grad/a.bias@rank12", "grad/*@rank1?", True),
        ("grad/a.bias", "grad/*@rank*", False),
        ("loss@rank0", "loss", True),
        ("loss@rank0", "loss@*", True),
        ("loss/0@rank0", "loss", False),
    ],
)
def test_a_pattern_covers_whole_keys(key: str, pattern: str, is_match: bool) -> None:
    assert matches(key, pattern) is is_match


@given(WORDS, st.lists(WORDS, max_size=4))
def test_the_key_itself_is_its_most_specific_pattern(key: str, others: list[str]) -> None:
    assert most_specific(key, [*others, "*", key, key[:-1] + "*", "*" + key[1:]]) == key


@given(WORDS, st.lists(st.text("abc/.*?", max_size=8)))
def test_what_is_found_covers_the_key(key: str, patterns: list[str]) -> None:
    found = most_specific(key, patterns)
    assert (found is None) == (not any(matches(key, pattern) for pattern in patterns))
    assert found is None or matches(key, found)


@given(WORDS, st.integers(0, 20), st.lists(st.text("abc/.*?", max_size=8)))
def test_a_pattern_without_a_rank_covers_the_key_of_every_rank(key: str, rank: int, patterns: list[str]) -> None:
    assert most_specific(f"{key}@rank{rank}", patterns) == most_specific(key, patterns)


def test_of_two_patterns_the_one_that_names_the_rank_is_more_specific() -> None:
    patterns = ["*", "grad/*@rank1", "grad/*", "grad/a@rank2", "grad/a"]
    assert most_specific("grad/a@rank2", patterns) == "grad/a@rank2"
    assert most_specific("grad/b@rank1", patterns) == "grad/*@rank1"
    assert most_specific("grad/b@rank2", patterns) == "grad/*"
    assert most_specific("grad/a", patterns) == "grad/a"


@pytest.mark.parametrize(
    ("key", "group"),
    [
        ("loss", "loss"),
        ("loss/2", "loss/*"),
        ("grad_norm", "grad_norm"),
        ("grad/a/b.weight", "grad/*"),
        ("optim/fc.weight/exp_avg", "optim/*/exp_avg"),
        ("optim/fc.weight/step", "optim/*/step"),
        ("carried/0", "carried/*"),
        ("loss@rank3", "loss"),
        ("loss/2@rank3", "loss/*"),
        ("grad/a/b.weight@rank3", "grad/*"),
        ("optim/fc.weight/exp_avg@rank3", "optim/*/exp_avg"),
        ("local_grad/fc.weight@rank0", "local_grad/*"),
    ],
)
def test_keys_are_reported_in_groups(key: str, group: str) -> None:
    assert key_group(key) == group
