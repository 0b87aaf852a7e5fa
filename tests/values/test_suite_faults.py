"""A Suite or Variant that means nothing is refused when it is written down."""

from typing import Any

import pytest
from made_suites import Blindfold, Loop, case, suite, variant

from xla_equiv import ExpectedFailure, PublishedValues, Skip, Status, Suite, Tolerance
from xla_equiv.values.errors import SuiteError

TOLERANCE = Tolerance(rtol=1e-6, why="printed to seven digits")


def problems(**changes: Any) -> tuple[str, ...]:
    with pytest.raises(SuiteError) as caught:
        suite(**changes)
    return caught.value.problems


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a[b]", "a:b", "a/b", "a@b"])
def test_a_variant_name_that_would_break_a_test_id_is_refused(name: str) -> None:
    with pytest.raises(SuiteError, match="variant name"):
        variant(name)


def test_a_variant_that_does_not_say_how_to_accumulate_is_refused() -> None:
    for treatments in ([], [Blindfold()]):
        with pytest.raises(SuiteError, match="no treatment that accumulates") as caught:
            variant(treatments=treatments)
        assert "LoopedAccumulation" in caught.value.next


def test_a_variant_hides_what_any_of_its_treatments_hides() -> None:
    assert variant(treatments=[Blindfold(), Loop()]).unobserved == ("loss/*",)


def test_a_suite_without_candidates_is_refused() -> None:
    assert problems(candidates=[]) == ("candidates: empty; there is nothing to compare with the reference",)


def test_a_suite_without_a_case_is_refused() -> None:
    assert problems(case={}) == ("case: empty; there is nothing to train",)


def test_two_variants_of_one_name_and_backend_are_refused() -> None:
    assert problems(candidates=[variant()]) == ("candidates: two variants are called 'loop[cpu]'",)
    assert problems(case={"a": case(), "b": case()}, candidates=[variant()]) == (
        "candidates: two variants are called 'a.loop[cpu]'",
        "candidates: two variants are called 'b.loop[cpu]'",
    )


@pytest.mark.parametrize("kind", ["case_tolerance", "case_record", "case_golden"])
def test_rules_for_a_case_that_does_not_exist_are_refused(kind: str) -> None:
    assert problems(case={"deep": case()}, **{kind: {"dep": {}}}) == (f"{kind}: no case 'dep'",)


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        ("expected_failures", ExpectedFailure(test="whle*", status=Status.OUTSIDE, why="known")),
        ("skips", Skip(test="whle*", why="senseless")),
        ("published", PublishedValues(source="a paper", test="whle*", values={}, tolerance=TOLERANCE)),
    ],
)
def test_rules_for_a_test_that_does_not_exist_are_refused(kind: str, rule: Any) -> None:
    assert problems(**{kind: [rule]}) == (f"{kind}: no test matches 'whle*'",)


def test_brackets_in_the_pattern_of_a_test_are_literal() -> None:
    one = suite(skips=[Skip(test="while[xla:cpu]", why="senseless")])
    assert isinstance(one, Suite)
    assert problems(skips=[Skip(test="while[x]", why="senseless")]) == ("skips: no test matches 'while[x]'",)


def test_all_faults_are_named_at_once() -> None:
    assert len(problems(candidates=[], case_tolerance={"a": {}}, skips=[Skip(test="b", why="c")])) == 3


def test_a_single_case_has_no_name() -> None:
    assert list(suite().cases) == [""]
    assert list(suite(case={"deep": case(), "wide": case()}).cases) == ["deep", "wide"]
