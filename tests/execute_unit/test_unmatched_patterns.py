"""Tolerances for keys that no trace holds."""

from xla_equiv.execute.session import unmatched
from xla_equiv.values.tolerance import Level

KEYS = {"loss", "grad/a.weight", "grad/a.bias", "param/a.weight"}


def test_patterns_that_match_a_key_are_taken() -> None:
    assert unmatched([(Level.FILE, pattern) for pattern in ("loss", "grad/*", "*.bias", "*", "grad/a.weight")], KEYS) == []


def test_each_pattern_without_a_key_is_answered_with_the_closest() -> None:
    rules = [(Level.FILE, "gard/*"), (Level.COMMAND_LINE, "Loss"), (Level.FILE, "grad/*"), (Level.FILE, "grad")]
    first, second, third = unmatched(rules, KEYS)
    assert first.startswith("command line [Loss]: no such key; did you mean 'loss'? valid: ")
    assert second.startswith("tolerance file [gard/*]: no such key; did you mean 'grad/*'? valid: grad/*, ")
    assert third.startswith("tolerance file [grad]: no such key; ")
    assert all(key in first for key in KEYS)


def test_the_pattern_for_every_key_always_matches() -> None:
    assert unmatched([(Level.COMMAND_LINE, "*")], {"loss"}) == []


def test_where_nothing_was_recorded_no_pattern_is_wrong() -> None:
    assert unmatched([(Level.COMMAND_LINE, "zzz")], []) == []


def test_one_pattern_of_two_levels_is_named_twice() -> None:
    assert len(unmatched({(Level.COMMAND_LINE, "zzz"), (Level.FILE, "zzz")}, KEYS)) == 2
