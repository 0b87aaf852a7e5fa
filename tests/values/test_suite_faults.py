"""A Suite or Variant that means nothing is refused when it is written down."""

from typing import Any

import pytest
from made_suites import Blindfold, Loop, case, suite, variant

from xla_equiv import ALL_STEPS, LAST_STEP, NO_STEPS, ExpectedFailure, PublishedValues, Skip, Status, Suite, Tolerance
from xla_equiv.values.equivalence import Equivalence
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


@pytest.mark.parametrize("name", ["a b", "a.b", "a[b]", "a/b", "../a", "a:b", " "])
def test_a_case_name_that_would_break_a_test_id_is_refused(name: str) -> None:
    (problem,) = problems(case={"deep": case(), name: case()})
    assert problem == f"case {name!r}: has characters other than letters, digits, '_' and '-'"


@pytest.mark.parametrize("step", [0, 4, -4, 100])
@pytest.mark.parametrize("kind", ["record", "golden"])
def test_a_step_that_a_case_does_not_have_is_refused(kind: str, step: int) -> None:
    (problem,) = problems(**{kind: {"*": ALL_STEPS, "grad/*": (1, step)}})
    assert problem == f"{kind} [grad/*]: step {step} is not in 1 to 3, nor in -3 to -1"


@pytest.mark.parametrize("kind", ["record", "golden"])
def test_steps_are_held_against_each_case_with_the_rules_of_its_own(kind: str) -> None:
    cases = {"short": case(steps=2), "long": case(steps=9)}
    (problem,) = problems(case=cases, **{kind: {"*": (5,)}})
    assert "step 5 is not in 1 to 2" in problem
    assert suite(case=cases, **{kind: {"*": (5,)}, f"case_{kind}": {"short": {"*": (2,)}}}).cases == cases
    (problem,) = problems(case=cases, **{f"case_{kind}": {"long": {"loss": (10,)}}})
    assert "step 10 is not in 1 to 9" in problem


@pytest.mark.parametrize("steps", [ALL_STEPS, NO_STEPS, (1, LAST_STEP), (3,), (-3,)])
def test_steps_that_a_case_has_are_taken(steps: Any) -> None:
    rules = {"*": ALL_STEPS, "grad/*": steps}
    assert suite(record=rules, golden=rules).record == rules


def test_an_expected_crash_names_its_exception() -> None:
    with pytest.raises(SuiteError, match=r"the ExpectedFailure of 'while\*' accepts every CRASHED"):
        ExpectedFailure(test="while*", status=Status.CRASHED, why="known")
    assert ExpectedFailure(test="while*", status=Status.CRASHED, raises="TypeError", why="known").raises == "TypeError"


@pytest.mark.parametrize(
    ("key", "is_covered"), [("grad/a", True), ("param/a", False), ("", False), ("input/batch/1/0/0", False)]
)
def test_an_expected_failure_covers_its_keys_and_never_the_inputs(key: str, is_covered: bool) -> None:
    assert ExpectedFailure(test="*", status=Status.OUTSIDE, keys="grad/*", why="known").covers(key) is is_covered
    every = ExpectedFailure(test="*", status=Status.OUTSIDE, why="known")
    assert every.covers(key) is (key in ("grad/a", "param/a"))


def test_a_comparison_in_distribution_needs_several_draws() -> None:
    declared = {"while*": Equivalence.DISTRIBUTIONAL}
    (problem,) = problems(equivalence=declared)
    assert problem == "equivalence [while*]: while[xla:cpu] is compared in distribution, and its case has 1 of at least 16 draws"
    assert isinstance(suite(case=case(draws=16), equivalence=declared), Suite)
    assert problems(equivalence={"whle*": Equivalence.BITWISE}) == ("equivalence: no test matches 'whle*'",)


def test_draws_and_replicas_exclude_each_other() -> None:
    with pytest.raises(SuiteError, match="draws: a case of several replicas has one"):
        case(draws=2, replicas=2)
