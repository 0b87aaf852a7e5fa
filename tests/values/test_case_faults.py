"""A Case that cannot be trained is refused when it is written down."""

import math
from typing import Any

import pytest
from made_suites import case

from xla_equiv.values.errors import SuiteError


@pytest.mark.parametrize("name", ["steps", "micro_batches"])
@pytest.mark.parametrize("value", [0, -1, 1.0, "3", None])
def test_counts_are_whole_numbers_of_at_least_one(name: str, value: Any) -> None:
    with pytest.raises(SuiteError) as caught:
        case(**{name: value})
    assert caught.value.problems == (f"{name}: {value!r} is not a whole number of at least 1",)


@pytest.mark.parametrize("name", ["clip_norm", "time_limit_s"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, -math.inf, "3"])
def test_limits_are_finite_and_above_zero(name: str, value: Any) -> None:
    with pytest.raises(SuiteError) as caught:
        case(**{name: value})
    assert caught.value.problems == (f"{name}: {value!r} is not a finite number above 0",)


@pytest.mark.parametrize("name", ["build", "batch", "loss", "optimizer"])
def test_functions_are_functions(name: str) -> None:
    with pytest.raises(SuiteError, match=f"{name}: 3 is not a function"):
        case(**{name: 3})


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(SuiteError) as caught:
        case(steps=0, micro_batches=0, clip_norm=-1.0, loss=None)
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "steps",
        "micro_batches",
        "clip_norm",
        "loss",
    ]


def test_a_possible_case_is_taken() -> None:
    smallest = case(steps=1, micro_batches=1, clip_norm=None)
    assert (smallest.steps, smallest.micro_batches, smallest.seed, smallest.full) == (1, 1, 0, False)
    assert case(clip_norm=1.0, time_limit_s=0.5).clip_norm == 1.0
