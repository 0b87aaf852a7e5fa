"""Whether two runs trained on the same inputs, on one processor and on two."""

import hashlib
import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from xla_equiv.measure.inputs import golden_inputs, input_findings, is_same_input, moments, stale_findings
from xla_equiv.values.trace import Array, InputDigest, RunFacts
from xla_equiv.values.verdict import Status

SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.sampled_from([2, 3, 10, 1000, 30_000])


def digest(array: Array) -> InputDigest:
    data = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return InputDigest(array.dtype.name, array.shape, data, moments(array))


def drawn(seed: int, size: int = 1000) -> Array:
    return np.random.default_rng(seed).normal(size=size).astype(np.float32)


def facts(inputs: Mapping[str, Array], *, steps: int = 3, settings: Mapping[str, str] | None = None) -> RunFacts:
    digests = {name: digest(array) for name, array in inputs.items()}
    return RunFacts(test="a::b[c]", steps=steps, inputs=digests, settings=settings or {})


@given(SEEDS, SIZES)
@settings(deadline=None)
def test_noise_in_the_last_bit_is_the_same_input(seed: int, size: int) -> None:
    one = drawn(seed, size)
    noisy = np.nextafter(one, np.random.default_rng(seed + 1).choice(np.float32([-9, 9]), size))
    assert digest(one).sha256 != digest(noisy).sha256
    assert is_same_input(digest(one), digest(noisy))


@given(SEEDS, SEEDS, SIZES)
@settings(deadline=None)
def test_another_seed_is_another_input(one: int, other: int, size: int) -> None:
    assume(one != other)
    assert not is_same_input(digest(drawn(one, size)), digest(drawn(other, size)))


@pytest.mark.parametrize("size", [2, 3, 10, 1000, 30_000])
def test_a_permutation_is_another_input(size: int) -> None:
    one = drawn(5, size)
    for seed in range(20):
        permuted = np.random.default_rng(seed).permutation(one)
        assert is_same_input(digest(one), digest(permuted)) is np.array_equal(one, permuted)


@pytest.mark.parametrize("change", [lambda x: -x, lambda x: 2 * x, lambda x: x + 1e-3, lambda x: np.roll(x, 1), lambda x: x[::-1]])
def test_a_changed_array_is_another_input(change: object) -> None:
    one = drawn(5)
    assert not is_same_input(digest(one), digest(np.asarray(change(one), np.float32)))  # type: ignore[operator]


def test_two_labels_exchanged_are_another_input() -> None:
    one = np.random.default_rng(0).integers(0, 1000, 256)
    other = one.copy()
    other[[3, 200]] = other[[200, 3]]
    assert not is_same_input(digest(one), digest(other))


@pytest.mark.parametrize("moment", [0, 1, 2])
def test_every_moment_may_differ_by_so_much_of_the_sum_of_absolute_values(moment: int) -> None:
    def made(difference: float) -> InputDigest:
        values = [3.0, 100.0, 50.0]
        values[moment] += difference
        return InputDigest("float32", (9,), f"{difference}", (values[0], values[1], values[2]))

    for sign in (1, -1):
        assert is_same_input(made(0.0), made(sign * 0.9e-4))
        assert is_same_input(made(sign * 0.9e-4), made(0.0))
        assert not is_same_input(made(0.0), made(sign * 1.1e-4))
        assert not is_same_input(made(sign * 1.1e-4), made(0.0))


def test_the_sign_of_zeros_is_noise() -> None:
    assert is_same_input(digest(np.zeros(4)), digest(-np.zeros(4)))
    assert not is_same_input(digest(np.zeros(4)), digest(np.full(4, 1e-20)))


def test_equal_values_of_another_dtype_or_shape_are_another_input() -> None:
    one = np.zeros(4, np.float32)
    assert is_same_input(digest(one), digest(one))
    assert not is_same_input(digest(one), digest(one.astype(np.int32)))
    assert not is_same_input(digest(one), digest(one.reshape(2, 2)))


def test_the_same_bits_are_the_same_input_even_where_nothing_can_be_summed() -> None:
    for value in (math.nan, math.inf, 1e308):
        one = np.array([value, value])
        assert is_same_input(digest(one), digest(one.copy()))
        assert not is_same_input(digest(one), digest(np.array([value, 0.0])))


def test_arrays_without_elements_have_moments() -> None:
    assert moments(np.zeros((0, 3))) == (0.0, 0.0, 0.0)
    assert moments(np.array([True, False, True]))[0] == 2.0


INPUTS = {"param/a": drawn(1), "buffer/n": np.array(0), "batch/1/0/0": drawn(2), "batch/2/3/1": drawn(3), "batch/3/0/0": drawn(4)}


def test_equal_inputs_of_two_arms_are_no_finding() -> None:
    assert input_findings(facts(INPUTS), facts(INPUTS)) == []


@pytest.mark.parametrize(
    ("name", "kind", "step"),
    [("param/a", "initial value", 0), ("buffer/n", "initial value", 0), ("batch/2/3/1", "batch", 2), ("batch/3/0/0", "batch", 3)],
)
def test_what_differs_is_named_with_its_step(name: str, kind: str, step: int) -> None:
    (finding,) = input_findings(facts(INPUTS), facts({**INPUTS, name: INPUTS[name] + INPUTS[name].dtype.type(1)}))
    assert (finding.status, finding.key, finding.step) == (Status.OUTSIDE, f"input/{name}", step)
    assert finding.what.startswith(f"{kind} differs")


@pytest.mark.parametrize(
    "other",
    [
        np.nextafter(INPUTS["param/a"], np.float32(9)),
        INPUTS["param/a"].reshape(2, -1),
        INPUTS["param/a"].view(np.int32),
    ],
)
def test_two_arms_of_one_run_must_agree_to_the_last_bit(other: Array) -> None:
    assert len(input_findings(facts(INPUTS), facts({**INPUTS, "param/a": other}))) == 1


def test_an_input_of_one_arm_only_is_found_on_either_side() -> None:
    part = {name: array for name, array in INPUTS.items() if name != "batch/2/3/1"}
    assert input_findings(facts(INPUTS), facts(part))[0].what == "batch exists in the reference only"
    assert input_findings(facts(part), facts(INPUTS))[0].what == "batch exists in the candidate only"


def test_findings_come_by_step() -> None:
    changed = {name: array + array.dtype.type(1) for name, array in reversed(INPUTS.items())}
    assert [finding.step for finding in input_findings(facts(INPUTS), facts(changed))] == [0, 0, 1, 2, 3]


def kept(given_facts: RunFacts) -> RunFacts:
    return RunFacts(
        test=given_facts.test, steps=given_facts.steps, inputs=golden_inputs(given_facts), settings=given_facts.settings
    )


def test_a_golden_keeps_initial_values_and_the_batches_of_the_first_and_the_last_step() -> None:
    assert set(golden_inputs(facts(INPUTS))) == set(INPUTS) - {"batch/2/3/1"}
    assert set(golden_inputs(facts(INPUTS, steps=2))) == set(INPUTS) - {"batch/3/0/0"}


def test_the_case_that_a_golden_was_recorded_from_is_not_stale() -> None:
    today = facts(INPUTS, settings={"seed": "0"})
    assert stale_findings(kept(today), today) == []
    assert stale_findings(today, today) == []


def test_a_golden_of_another_processor_is_not_stale() -> None:
    elsewhere = {name: np.nextafter(array, array.dtype.type(9)) if array.ndim else array for name, array in INPUTS.items()}
    assert stale_findings(kept(facts(elsewhere)), facts(INPUTS)) == []


@pytest.mark.parametrize("name", ["param/a", "batch/1/0/0", "batch/3/0/0"])
def test_a_changed_input_makes_a_golden_stale_and_is_named(name: str) -> None:
    (finding,) = stale_findings(kept(facts(INPUTS)), facts({**INPUTS, name: drawn(99)}))
    assert (finding.status, finding.key) == (Status.STALE, f"input/{name}")
    assert f"1 of 4 inputs differ, first {name}: float32[1000] with sum" in finding.what


def test_a_new_or_lost_input_makes_a_golden_stale() -> None:
    more = {**INPUTS, "param/b": drawn(7)}
    (finding,) = stale_findings(kept(facts(INPUTS)), facts(more))
    assert "the golden has nothing" in finding.what
    (finding,) = stale_findings(kept(facts(more)), facts(INPUTS))
    assert "first param/b: nothing, the golden has float32[1000]" in finding.what


def test_changed_settings_make_a_golden_stale() -> None:
    old = facts(INPUTS, settings={"seed": "0", "optimizer": "SGD(lr=0.1)", "gone": "x"})
    new = facts(INPUTS, settings={"seed": "1", "optimizer": "SGD(lr=0.1)", "new": "y"})
    found = [finding.what for finding in stale_findings(kept(old), new)]
    assert found == [
        "the case has changed: seed is '1', the golden has '0'",
        "the case has changed: gone is '', the golden has 'x'",
        "the case has changed: new is 'y', the golden has ''",
    ]


def test_of_a_golden_that_keeps_no_inputs_only_the_settings_are_compared() -> None:
    bare = RunFacts(test="a::b[c]", steps=3, settings={"seed": "0"})
    assert stale_findings(bare, facts(INPUTS, settings={"seed": "0"})) == []
    assert len(stale_findings(bare, facts(INPUTS, settings={"seed": "1"}))) == 1
