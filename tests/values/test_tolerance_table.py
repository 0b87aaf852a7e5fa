"""Which of four levels, and which of its patterns, decides the tolerance of a key."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_equiv import Tolerance
from xla_equiv.values.tolerance import DEFAULTS_BY_DTYPE, Level, ResolvedTolerance, ToleranceTable

KEY = "grad/fc.bias"
LEVELS = [Level.COMMAND_LINE, Level.FILE, Level.SUITE]
INTEGERS = ["int64", "int32", "uint8", "bool"]


def both(value: float, why: str = "a reason") -> Tolerance:
    return Tolerance(rtol=value, atol=value, why=why)


def resolve(
    *levels: tuple[Level, dict[str, Tolerance]], key: str = KEY, dtype: str = "float32", kind: str = "equivalence"
) -> ResolvedTolerance:
    return ToleranceTable(levels).resolve(key, dtype, kind)


@pytest.mark.parametrize("present", [subset for n in range(4) for subset in combinations(LEVELS, n)])
def test_the_strongest_level_decides(present: tuple[Level, ...]) -> None:
    found = resolve(*((level, {"grad/*": both(0.1 + LEVELS.index(level), level.value)}) for level in present))
    if present:
        strongest = present[0]
        assert (found.rtol, found.atol) == (0.1 + LEVELS.index(strongest),) * 2
        assert (found.decided_by, found.why) == (f"{strongest.value} [grad/*]", strongest.value)
    else:
        default = DEFAULTS_BY_DTYPE["float32"]
        assert (found.rtol, found.atol, found.why) == (default.rtol, default.atol, default.why)
        assert found.decided_by == "project default [float32]"


def test_a_strong_level_whose_pattern_does_not_cover_the_key_leaves_it() -> None:
    found = resolve((Level.COMMAND_LINE, {"param/*": both(1.0)}), (Level.SUITE, {"grad/*": both(2.0)}))
    assert found.decided_by == "suite [grad/*]"


def test_a_weak_level_does_not_win_by_being_more_specific() -> None:
    found = resolve((Level.COMMAND_LINE, {"*": both(1.0)}), (Level.SUITE, {KEY: both(2.0)}))
    assert (found.rtol, found.decided_by) == (1.0, "command line [*]")


@given(st.permutations(["*", "grad/*", "grad/*.bias", "grad/fc*.bias", KEY]), st.integers(1, 5))
def test_the_most_specific_pattern_of_a_level_decides_in_any_order(patterns: list[str], count: int) -> None:
    ranked = ["*", "grad/*", "grad/*.bias", "grad/fc*.bias", KEY]
    given_ones = patterns[:count]
    found = resolve((Level.SUITE, {pattern: both(float(ranked.index(pattern))) for pattern in given_ones}))
    assert found.rtol == max(ranked.index(pattern) for pattern in given_ones)


def test_of_two_equally_specific_patterns_the_later_decides() -> None:
    first, second = {"grad/f*": both(1.0)}, {"grad/?c*": both(2.0)}
    assert resolve((Level.SUITE, {**first, **second}), key="grad/fc").rtol == 2.0
    assert resolve((Level.SUITE, {**second, **first}), key="grad/fc").rtol == 1.0


def test_the_two_parts_are_decided_apart() -> None:
    found = resolve(
        (Level.COMMAND_LINE, {"*": Tolerance(rtol=1.0, why="wide")}),
        (Level.SUITE, {"grad/*": both(2.0, "suite wide"), KEY: Tolerance(rtol=3.0, why="unused")}),
    )
    assert (found.rtol, found.atol) == (1.0, 2.0)
    assert found.decided_by == "rtol command line [*]; atol suite [grad/*]"
    assert found.why == "wide; suite wide"


def test_a_part_that_nobody_gives_is_the_default_of_the_dtype() -> None:
    found = resolve((Level.SUITE, {"*": Tolerance(atol=7.0, why="a reason")}), dtype="bfloat16")
    assert (found.rtol, found.atol) == (DEFAULTS_BY_DTYPE["bfloat16"].rtol, 7.0)
    assert found.decided_by == "rtol project default [bfloat16]; atol suite [*]"


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("level", LEVELS)
def test_the_pattern_for_all_keys_does_not_loosen_integers(dtype: str, level: Level) -> None:
    found = resolve((level, {"*": both(1.0)}), key="buffer/n", dtype=dtype)
    assert (found.rtol, found.atol, found.decided_by) == (0.0, 0.0, f"project default [{dtype}]")


@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_pattern_that_names_integers_loosens_them(dtype: str) -> None:
    assert resolve((Level.SUITE, {"buffer/*": both(1.0)}), key="buffer/n", dtype=dtype).rtol == 1.0


def test_a_dtype_without_a_default_is_exact() -> None:
    found = resolve((Level.SUITE, {"*": both(1.0)}), dtype="float8_e4m3fn")
    assert (found.rtol, found.atol) == (0.0, 0.0)


@pytest.mark.parametrize("kind", ["equivalence", "regression", "anchor"])
def test_a_tolerance_for_some_comparisons_holds_for_those_only(kind: str) -> None:
    rules = {KEY: Tolerance(rtol=1.0, atol=1.0, why="a reason", only=("regression", "anchor")), "*": both(2.0)}
    assert resolve((Level.SUITE, rules), kind=kind).rtol == (2.0 if kind == "equivalence" else 1.0)


def test_equal_nonfinite_values_are_accepted_only_where_it_is_said() -> None:
    for part in ("rtol", "atol"):
        rule = Tolerance(**{part: 0.0}, why="a reason", equal_nonfinite=True)  # type: ignore[arg-type]
        assert resolve((Level.SUITE, {KEY: rule})).equal_nonfinite
        assert not resolve((Level.SUITE, {"param/*": rule})).equal_nonfinite


def test_numbers_of_a_stronger_level_do_not_take_back_that_equal_nonfinite_values_are_accepted() -> None:
    rule = Tolerance(rtol=0.0, atol=0.0, why="a reason", equal_nonfinite=True)
    assert resolve((Level.COMMAND_LINE, {"*": both(1.0)}), (Level.SUITE, {KEY: rule})).equal_nonfinite


@pytest.mark.parametrize(
    ("dtype", "units", "last_place", "atol"),
    [
        ("float64", 64, 2.0**-52, 2.0**-52),
        ("float32", 64, 2.0**-23, 2.0**-23),
        ("float16", 4, 2.0**-10, 1e-5),
        ("bfloat16", 2, 2.0**-7, 1e-5),
        ("complex64", 64, 2.0**-23, 2.0**-23),
        ("complex128", 64, 2.0**-52, 2.0**-52),
    ],
)
def test_the_defaults_are_so_many_units_in_the_last_place(dtype: str, units: int, last_place: float, atol: float) -> None:
    default = DEFAULTS_BY_DTYPE[dtype]
    assert (default.rtol, default.atol, default.equal_nonfinite) == (units * last_place, atol, False)


def test_there_are_no_other_defaults() -> None:
    assert list(DEFAULTS_BY_DTYPE) == ["float64", "float32", "float16", "bfloat16", "complex64", "complex128"]
