"""Errors in the form of the house."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_equiv.values.errors import (
    EnvironmentMismatch,
    Interrupted,
    SelectionError,
    ToleranceError,
    XlaEquivError,
    choices_text,
    closest,
    format_message,
)


@given(st.lists(st.tuples(st.sampled_from(["where", "numbers", "limit"]), st.text("ab", max_size=3)), max_size=20))
def test_a_message_has_at_most_eight_lines_and_counts_the_rest(details: list[tuple[str, str]]) -> None:
    lines = format_message("It broke", details).splitlines()
    full = [text for _, text in details if text]
    assert lines[0] == "It broke"
    assert len(lines) == min(1 + len(full), 8)
    assert lines[-1].endswith(f"... and {len(full) - 6} more lines") is (len(full) > 7)


def test_labels_are_aligned() -> None:
    first, second = format_message("It broke", [("where", "X"), ("numbers", "X")]).splitlines()[1:]
    assert first.index("X") == second.index("X")


def test_every_problem_is_listed_and_what_to_do_comes_last() -> None:
    error = ToleranceError("the file has faults", problems=[f"fault {n}" for n in range(20)], next="mend them")
    lines = str(error).splitlines()
    assert lines[0] == "ToleranceError: the file has faults"
    assert lines[1:21] == [f"  - fault {n}" for n in range(20)]
    assert lines[21].split() == ["next", "mend", "them"]


@pytest.mark.parametrize(
    ("error", "code"), [(SelectionError, 2), (ToleranceError, 2), (EnvironmentMismatch, 3), (Interrupted, 3)]
)
def test_every_kind_of_error_has_its_exit_code(error: type[XlaEquivError], code: int) -> None:
    assert error("it broke").exit_code == code


def test_the_closest_choice_is_named() -> None:
    choices = ["mlp_accumulation", "llama_accumulation", "published_mlp"]
    assert closest("mlp_acumulation", choices) == "mlp_accumulation"
    assert closest("zzz", choices) == ""
    assert choices_text("mlp_acumulation", choices).startswith("did you mean 'mlp_accumulation'? valid: mlp_acc")
    assert choices_text("zzz", []) == "valid: none"


def test_a_long_list_of_choices_is_cut_and_counted() -> None:
    assert choices_text("zzz", [f"a{n}" for n in range(15)]).endswith("a11 and 3 more")
    assert choices_text("zzz", [f"a{n}" for n in range(12)]).endswith("a10, a11")
