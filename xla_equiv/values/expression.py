"""The language of `-k`: words that a test's name must contain, with `and`, `or`, `not` and parentheses."""

import re
from collections.abc import Callable

from xla_equiv.values.errors import SelectionError

TOKEN = re.compile(r"\s*([()]|[^\s()]+)")

MOST_NESTED = 100
"""More could nest too deeply: expressions are parsed, and evaluated, by recursion."""

Predicate = Callable[[str], bool]
Parse = Callable[[list[str], str], tuple[Predicate, list[str]]]


def compile_expression(text: str) -> Predicate:
    """Return whether a name satisfies `text`; a word matches a part of the name, case aside.

    >>> compile_expression("while and not (llama or carried)")("mlp::while[xla:cpu]")
    True

    Raises:
        SelectionError: `text` is empty or ill-formed.
    """
    tokens = TOKEN.findall(text)
    if tokens.count("(") + tokens.count("not") > MOST_NESTED:
        raise _ill_formed(text[:40], f"it has more than {MOST_NESTED} parentheses and 'not'")
    predicate, rest = _either(tokens, text)
    if rest:
        raise _ill_formed(text, f"unexpected {rest[0]!r}")
    return predicate


def _either(tokens: list[str], text: str) -> tuple[Predicate, list[str]]:
    parts, rest = _chain("or", _both, tokens, text)
    return (lambda name: any(part(name) for part in parts)), rest


def _both(tokens: list[str], text: str) -> tuple[Predicate, list[str]]:
    parts, rest = _chain("and", _single, tokens, text)
    return (lambda name: all(part(name) for part in parts)), rest


def _chain(word: str, parse: Parse, tokens: list[str], text: str) -> tuple[list[Predicate], list[str]]:
    """Return what `parse` makes of the parts that `word` joins at the head of `tokens`, and the tokens left."""
    first, rest = parse(tokens, text)
    parts = [first]
    while rest and rest[0] == word:
        part, rest = parse(rest[1:], text)
        parts.append(part)
    return parts, rest


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
