"""Keys of what one replica has for itself: `grad/fc.weight@rank2`.

A key without a rank stands for all replicas: what each holds alike, or the mean of what each has of its own.
"""

import re

SUFFIX = re.compile(r"@rank(\d+)$")

OF_EACH_RANK = ("loss", "local_grad")
"""First parts of keys that every replica has its own value of, as a matter of course."""


def rank_key(key: str, rank: int) -> str:
    """Return the key of what replica `rank` has under `key`.

    >>> rank_key("loss/0", 3)
    'loss/0@rank3'
    """
    return f"{key}@rank{rank}"


def split_rank(key: str) -> tuple[str, int | None]:
    """Return `key` without its rank, and the rank; None when the key stands for all replicas.

    >>> split_rank("grad/fc.weight@rank2"), split_rank("loss")
    (('grad/fc.weight', 2), ('loss', None))
    """
    found = SUFFIX.search(key)
    return (key[: found.start()], int(found.group(1))) if found else (key, None)


def is_of_each_rank(key: str) -> bool:
    """Return whether replicas are expected to differ in `key`, a key without rank."""
    return key.partition("/")[0] in OF_EACH_RANK
