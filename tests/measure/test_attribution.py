"""Probable causes, from facts only."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import trace

from xla_equiv.measure.attribution import likely_causes, multiple_of, provenance_differences
from xla_equiv.measure.compare import compare_traces
from xla_equiv.values.graph import GraphFacts, ModuleFacts
from xla_equiv.values.tolerance import Level, Tolerance, ToleranceTable
from xla_equiv.values.verdict import ComparisonKind

GRADIENT = np.linspace(-1.0, 2.0, 50, dtype=np.float32)
EXACTLY = ToleranceTable([(Level.SUITE, {"*": Tolerance(rtol=0.0, atol=0.0, why="exact")})])
NOT_DIVIDED = "the accumulated loss was not divided by the number of micro-batches"
DIVIDED_TWICE = "the accumulated loss was divided twice by the number of micro-batches"
FLIPPED = "its sign is flipped"
CLEARED = "it was not accumulated, or cleared"


def causes(
    candidate: Any,
    *,
    micro_batches: int = 4,
    kind: ComparisonKind = ComparisonKind.EQUIVALENCE,
    facts: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {}),
) -> tuple[str, ...]:
    one = trace({(1, "loss"): [1.0], (1, "grad/a"): GRADIENT}, **facts[0])
    other = trace({(1, "loss"): [1.5], (1, "grad/a"): np.asarray(candidate, np.float32)}, **facts[1])
    found = compare_traces(one, other, EXACTLY, kind=kind, against="reference")
    return likely_causes(one, other, found, micro_batches=micro_batches)


@pytest.mark.parametrize(
    ("ratio", "micro_batches", "meaning"),
    [
        (4.0, 4, NOT_DIVIDED),
        (0.25, 4, DIVIDED_TWICE),
        (-1.0, 4, FLIPPED),
        (-1.0, 1, FLIPPED),
        (0.0, 4, CLEARED),
        (0.0, 1, CLEARED),
        (10.0, 10, NOT_DIVIDED),
        (0.1, 10, DIVIDED_TWICE),
    ],
)
def test_a_ratio_that_has_a_meaning_is_explained(ratio: float, micro_batches: int, meaning: str) -> None:
    (cause,) = causes(ratio * GRADIENT, micro_batches=micro_batches)
    assert cause.startswith("grad/a of the candidate is ")
    assert cause.endswith(f"times the reference at step 1: {meaning}")


@pytest.mark.parametrize("ratio", [1.001, 2.0, 0.5, -4.0, 1.0001])
def test_another_ratio_is_named_without_a_meaning(ratio: float) -> None:
    (cause,) = causes(ratio * GRADIENT)
    assert cause == f"grad/a of the candidate is {float(cause.split()[5]):.7g} times the reference at step 1"
    assert math.isclose(float(cause.split()[5]), ratio, rel_tol=1e-6)


def test_rounding_is_no_cause() -> None:
    for candidate in (GRADIENT * np.float32(1 + 1e-6), np.nextafter(GRADIENT, np.float32(9))):
        assert causes(candidate) == ()


def test_with_one_micro_batch_nothing_was_left_undivided() -> None:
    for ratio in (1.0005, 0.9995):
        (cause,) = causes(ratio * GRADIENT, micro_batches=1)
        assert cause.endswith("times the reference at step 1")


def test_what_is_no_multiple_has_no_ratio() -> None:
    assert causes(GRADIENT[::-1]) == ()
    assert causes(4 * GRADIENT + np.float32([1.0] + [0.0] * 49)) == ()


@pytest.mark.parametrize("ratio", [1e-6, 0.5, -1.0, 1.001, 1e6])
def test_a_multiple_may_leave_a_hundredth_of_the_difference_unexplained(ratio: float) -> None:
    one = np.array([3.0, 4.0, 0.0])
    for rest, is_multiple in ((0.9e-2, True), (1.1e-2, False)):
        other = ratio * one + np.array([0.0, 0.0, rest * abs(ratio - 1) * 5])
        assert (multiple_of(one, other) is not None) is is_multiple


def test_one_element_that_differs_is_no_multiple() -> None:
    other = GRADIENT.copy()
    other[3] *= np.float32(1.001)
    assert multiple_of(GRADIENT, other) is None


def test_a_gradient_that_is_not_finite_has_no_ratio() -> None:
    assert causes(np.where(GRADIENT > 0, np.float32(np.nan), GRADIENT)) == ()


def test_nothing_wrong_has_no_cause() -> None:
    one = trace({(1, "grad/a"): GRADIENT})
    found = compare_traces(one, one, EXACTLY, kind=ComparisonKind.EQUIVALENCE, against="reference")
    assert likely_causes(one, one, found, micro_batches=4) == ()


def test_a_key_that_only_one_side_has_does_not_confuse() -> None:
    one, other = trace({(1, "grad/a"): GRADIENT, (1, "loss"): [1.0]}), trace({(1, "loss"): [2.0]})
    found = compare_traces(one, other, EXACTLY, kind=ComparisonKind.EQUIVALENCE, against="reference")
    assert likely_causes(one, other, found, micro_batches=4) == ()


@given(st.floats(-100, 100).filter(lambda x: abs(x) > 1e-3))
@settings(deadline=None)
def test_a_multiple_is_recognised(ratio: float) -> None:
    found = multiple_of(GRADIENT, GRADIENT * np.float32(ratio))
    assert found is not None
    assert math.isclose(found, ratio, rel_tol=1e-5)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e200, 1e300, math.inf, math.nan])
def test_values_too_small_or_large_to_square_have_no_multiple_and_no_warning(scale: float) -> None:
    assert multiple_of(np.full(3, scale), np.full(3, scale)) is None


def test_nothing_is_a_multiple_of_zero() -> None:
    assert multiple_of(np.zeros(3), np.zeros(3)) is None
    assert multiple_of(np.zeros(3), np.ones(3)) is None
    assert multiple_of(np.zeros(0), np.zeros(0)) is None


def test_provenance_that_explains_numbers_is_compared_on_one_kind_of_backend() -> None:
    old = {"backend": "xla:cpu", "torch": "2.8.0", "matmul_precision": "highest", "host": "a"}
    new = {"backend": "xla:cpu", "torch": "2.9.0", "matmul_precision": "highest", "host": "b"}
    assert provenance_differences(old, new) == ["torch: candidate ran '2.9.0', reference '2.8.0'"]
    assert provenance_differences(old, {**new, "backend": "cpu"}) == []
    assert provenance_differences(old, {"backend": "xla:cpu"}) == []
    assert provenance_differences({"backend": "xla:cpu"}, new) == []


def test_a_changed_graph_is_a_cause_with_counts_by_opcode() -> None:
    old, new = ({"graph": GraphFacts((ModuleFacts(str(n), {"reshape": n}, ()),))} for n in (1, 5))
    difference = "candidate has 4 more reshape (optimised)"
    changed = f"the compiled graph changed since the golden was recorded: {difference}"
    assert changed in causes(2 * GRADIENT, kind=ComparisonKind.REGRESSION, facts=(old, new))
    assert changed not in causes(2 * GRADIENT, kind=ComparisonKind.REGRESSION, facts=(old, old))
    assert changed not in causes(2 * GRADIENT, kind=ComparisonKind.REGRESSION, facts=({}, new))
    assert changed not in causes(2 * GRADIENT, kind=ComparisonKind.REGRESSION, facts=(old, {}))
    assert f"graphs differ: {difference}" in causes(2 * GRADIENT, kind=ComparisonKind.EQUIVALENCE, facts=(old, new))
