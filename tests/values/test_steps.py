"""Which steps a selection holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_equiv import ALL_STEPS, LAST_STEP, NO_STEPS
from xla_equiv.values.steps import Steps, is_key_selected, is_selected
from xla_equiv.values.suite import DEFAULT_GOLDEN


def selected(selection: Steps, steps: int) -> list[int]:
    return [step for step in range(1, steps + 1) if is_selected(step, selection, steps=steps)]


@pytest.mark.parametrize(
    ("selection", "chosen"),
    [
        (ALL_STEPS, [1, 2, 3, 4, 5]),
        (NO_STEPS, []),
        ((LAST_STEP,), [5]),
        ((1, LAST_STEP), [1, 5]),
        ((-2, 1, 1), [1, 4]),
        ((6, -6, 100), []),
        ((5, -1), [5]),
    ],
)
def test_a_selection_of_five_steps(selection: Steps, chosen: list[int]) -> None:
    assert selected(selection, 5) == chosen


@given(st.integers(1, 30), st.sets(st.integers(-40, 40).filter(bool)))
def test_negative_numbers_count_from_the_end_as_in_a_list(steps: int, numbers: set[int]) -> None:
    every = list(range(1, steps + 1))
    chosen = {every[n - 1 if n > 0 else n] for n in numbers if -steps <= n <= steps}
    assert selected(tuple(numbers), steps) == sorted(chosen)


def test_the_most_specific_pattern_decides_for_a_key() -> None:
    selections: dict[str, Steps] = {"*": (1,), "grad/*": ALL_STEPS, "grad/fc.bias": NO_STEPS}
    assert is_key_selected("param/a", 1, selections, steps=3)
    assert not is_key_selected("param/a", 2, selections, steps=3)
    assert is_key_selected("grad/fc.weight", 2, selections, steps=3)
    assert not is_key_selected("grad/fc.bias", 1, selections, steps=3)


def test_a_key_that_no_pattern_covers_is_selected() -> None:
    assert is_key_selected("loss", 2, {"grad/*": NO_STEPS}, steps=3)


@pytest.mark.parametrize(
    ("key", "steps"),
    [("loss", [1, 2, 3]), ("loss/0", []), ("grad_norm", [1, 2, 3]), ("grad/a", [1, 3]), ("param/a", [3]), ("optim/a/b", [])],
)
def test_what_a_golden_keeps_by_default(key: str, steps: list[int]) -> None:
    assert [step for step in (1, 2, 3) if is_key_selected(key, step, DEFAULT_GOLDEN, steps=3)] == steps
