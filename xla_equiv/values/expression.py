"""The language of `-k`: words that a test's name must contain, with `and`, `or`, `not` and parentheses."""

import re
from collections.abc import Callable

from xla_equiv.values.errors import SelectionError

TOKEN = re.compile(r"\s*([()]|[^\s()]+)")

Predicate = Callable[[str], bool]


def compile_expression(text: str) -> Predicate:
    """Return whether a name satisfies `text`; a word matches a part of the name, case aside.

    >>> compile_expression("while and not (llama or carried)")("mlp::while[xla:cpu]")
    True

    Raises:
        SelectionError: `text` is empty or ill-formed.
    """
    tokens = TOKEN.findall(text)
    predicate, rest = _either(tokens, text)
    if rest:
        raise _ill_formed(text, f"unexpected {rest[0]!r}")
    return predicate


def _either(tokens: list[str], text: str) -> tuple[Predicate, list[str]]:
    one, rest = _both(tokens, text)
    if rest and rest[0] == "or":
        other, rest = _either(rest[1:], text)
        return (lambda name: one(name) or other(name)), rest
    return one, rest


def _both(tokens: list[str], text: str) -> tuple[Predicate, list[str]]:
    one, rest = _single(tokens, text)
    if rest and rest[0] == "and":
        other, rest = _both(rest[1:], text)
        return (lambda name: one(name) and other(name)), rest
    return one, rest


def _single(tokens: list[str], text: str) -> tuple[Predicate, list[str]]:
    if not tokens or tokens[0] in (")", "and", "or"):
        raise _ill_formed(text, f"a word is missing before {tokens[0]!r}" if tokens else "a word is missing at the end")
    first, rest = tokens[0], tokens[1:]
    if first == "not":
        inner, rest = _single(rest, text)
        return (lambda name: not inner(name)), rest
    if first == "(":
        inner, rest = _either(rest, text)
        if not rest or rest[0] != ")":
            raise _ill_formed(text, "a ')' is missing")
        return inner, rest[1:]
    return (lambda name: first.lower() in name.lower()), rest


def _ill_formed(text: str, what: str) -> SelectionError:
    return SelectionError(f"-k {text!r} is ill-formed: {what}", next="-k 'llama and not while'")
