"""The language of `-k`."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_equiv.values.errors import SelectionError
from xla_equiv.values.expression import compile_expression

NAME = "llama::deep.while[xla:cpu]"
NAMES = [NAME, "mlp::loop[cpu]", "mlp::while[xla:cpu]", "llama::loop[xla:cpu]"]


@pytest.mark.parametrize(
    ("text", "is_match"),
    [
        ("llama", True),
        ("LLaMA", True),
        ("mlp", False),
        ("xla:cpu", True),
        ("while[xla:cpu]", True),
        ("not mlp", True),
        ("not not llama", True),
        ("not llama", False),
        ("llama and loop", False),
        ("llama or loop", True),
        ("loop or mlp or deep", True),
        ("loop and mlp or deep", True),
        ("deep or loop and mlp", True),
        ("(deep or loop) and mlp", False),
        ("not loop and deep", True),
        ("not (loop or deep)", False),
        ("not(loop)and(deep)", True),
        ("  deep  ", True),
    ],
)
def test_a_name_satisfies_an_expression(text: str, is_match: bool) -> None:
    assert compile_expression(text)(NAME) is is_match


@pytest.mark.parametrize(
    "text", ["", " ", "and", "or a", "not", "a and", "a or or b", "(a", "a)", "()", "a b", "(a b)", "(a) b", "not (", "a and ()"]
)
def test_an_ill_formed_expression_is_refused(text: str) -> None:
    with pytest.raises(SelectionError, match="is ill-formed") as caught:
        compile_expression(text)
    assert repr(text) in str(caught.value)
    compile_expression(caught.value.next.removeprefix("-k ").strip("'"))


WORD = st.sampled_from(["llama", "mlp", "loop", "while", "cpu"])
TREE = st.recursive(
    WORD,
    lambda inner: (
        st.tuples(st.just("not"), inner)
        | st.tuples(st.just("and"), inner, inner)
        | st.tuples(st.just("or"), inner, inner)
    ),
    max_leaves=8,
)


def written(tree: object) -> str:
    if isinstance(tree, str):
        return tree
    operator, *parts = tree  # type: ignore[misc]
    texts = [f"({written(part)})" for part in parts]
    return f"not {texts[0]}" if operator == "not" else f" {operator} ".join(texts)


def holds(tree: object, name: str) -> bool:
    if isinstance(tree, str):
        return tree in name
    operator, *parts = tree  # type: ignore[misc]
    values = [holds(part, name) for part in parts]
    return {"not": lambda: not values[0], "and": lambda: all(values), "or": lambda: any(values)}[operator]()


@given(TREE)
@settings(deadline=None)
def test_an_expression_means_what_its_tree_means(tree: object) -> None:
    predicate = compile_expression(written(tree))
    assert [predicate(name) for name in NAMES] == [holds(tree, name) for name in NAMES]


@given(st.text("ab() nortd", max_size=12))
@settings(deadline=None)
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        predicate = compile_expression(text)
    except SelectionError:
        return
    assert predicate(NAME) in (True, False)


@pytest.mark.parametrize("text", ["(" * 3000 + "a" + ")" * 3000, "(" * 3000, "not " * 3000 + "a"])
def test_an_expression_that_is_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(SelectionError, match="more than 100 parentheses") as caught:
        compile_expression(text)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("text", ["(" * 100 + "llama" + ")" * 100, "not " * 100 + "llama"])
def test_an_expression_that_is_nested_as_deeply_as_it_may_be_is_understood(text: str) -> None:
    assert compile_expression(text)(NAME)


def test_an_expression_of_many_words_is_understood() -> None:
    assert compile_expression(" or ".join(["zzz"] * 3000 + ["llama"]))(NAME)
    assert not compile_expression(" and ".join(["llama"] * 3000 + ["zzz"]))(NAME)
