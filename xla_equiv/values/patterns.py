"""Key patterns: shell wildcards over trace keys, and which of several is the most specific."""

import fnmatch
from collections.abc import Iterable

from xla_equiv.values.ranks import split_rank

WILDCARDS = "*?["


def matches(key: str, pattern: str) -> bool:
    """Return whether `pattern` (`*`, `?`, `[...]`, case-sensitive) covers the whole `key`.

    A pattern without `@` covers a key of every rank.

    >>> matches("grad/blocks.3.bias", "grad/*.bias"), matches("grad/fc.bias@rank2", "grad/*.bias")
    (True, True)
    >>> matches("grad/fc.bias@rank2", "grad/*@rank1")
    False
    """
    return fnmatch.fnmatchcase(key if "@" in pattern else split_rank(key)[0], pattern)


def specificity(pattern: str) -> tuple[int, int]:
    """Return a rank: patterns without wildcards first, then by the number of literal characters."""
    literal = sum(character not in WILDCARDS for character in pattern)
    return (int(literal == len(pattern)), literal)


def most_specific(key: str, patterns: Iterable[str]) -> str | None:
    """Return the most specific of `patterns` that covers `key`; the later one on a tie; None when none does."""
    found: str | None = None
    for pattern in patterns:
        if matches(key, pattern) and (found is None or specificity(pattern) >= specificity(found)):
            found = pattern
    return found


def key_group(key: str) -> str:
    """Return the group that `key` is reported under: its first part, with `/*` when there are more.

    >>> key_group("grad/fc.weight"), key_group("loss"), key_group("optim/fc.weight/exp_avg")
    ('grad/*', 'loss', 'optim/*/exp_avg')
    """
    first, _, rest = split_rank(key)[0].partition("/")
    if not rest:
        return first
    if first == "optim":
        return f"optim/*/{rest.rpartition('/')[2]}"
    return f"{first}/*"
