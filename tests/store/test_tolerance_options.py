"""Tolerances of the command line, and how they go together with those of a file."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_equiv import Tolerance
from xla_equiv.faces.options import COMMAND_LINE_REASON, command_line_tolerances, tolerance_overrides
from xla_equiv.values.errors import ToleranceError
from xla_equiv.values.tolerance import Level, ToleranceTable


def given_as(**parts: float) -> Tolerance:
    return Tolerance(**parts, why=COMMAND_LINE_REASON)  # type: ignore[arg-type]


def test_nothing_given_overrides_nothing() -> None:
    assert command_line_tolerances([], []) == {}


def test_a_number_alone_is_for_every_key() -> None:
    assert command_line_tolerances(["1e-3"], ["1e-7"]) == {"*": given_as(rtol=1e-3, atol=1e-7)}
    assert command_line_tolerances([], ["0"]) == {"*": given_as(atol=0.0)}


def test_a_pattern_is_for_the_keys_that_it_covers() -> None:
    found = command_line_tolerances(["grad/*.bias=1e-3", "1e-5"], ["grad/*.bias=2", "loss=3"])
    assert found == {
        "grad/*.bias": given_as(rtol=1e-3, atol=2.0),
        "*": given_as(rtol=1e-5),
        "loss": given_as(atol=3.0),
    }


def test_a_pattern_may_hold_an_equals_sign() -> None:
    assert command_line_tolerances(["grad/a=b=1e-3"], []) == {"grad/a=b": given_as(rtol=1e-3)}


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (("1", "1e-9"), "1e-9: given twice for all keys"),
        (("1", "1"), "1: given twice for all keys"),
        (("1", "*=1e-9"), "*=1e-9: given twice for *"),
        (("grad/*=1", "loss=1", "grad/*=1e-9"), "grad/*=1e-9: given twice for grad/*"),
    ],
)
def test_two_for_one_pattern_are_refused(texts: tuple[str, ...], says: str) -> None:
    for name, arguments in (("rtol", (texts, ())), ("atol", ((), texts))):
        with pytest.raises(ToleranceError) as caught:
            command_line_tolerances(*arguments)
        assert caught.value.problems == (f"--{name} {says}",)


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "1e999", "", "abc", "grad/*", "grad/*=", "grad/*=-1", "=x", "1e-3,1e-4"])
def test_what_is_no_tolerance_is_refused_as_it_was_typed(text: str) -> None:
    for arguments in (([text], []), ([], [text])):
        with pytest.raises(ToleranceError, match="impossible tolerance on the command line") as caught:
            command_line_tolerances(*arguments)
        (problem,) = caught.value.problems
        assert problem.startswith(f"--{'rtol' if arguments[0] else 'atol'} {text}: ")


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(ToleranceError) as caught:
        command_line_tolerances(["-1", "loss=nan"], ["x", "grad/*=1e-3"])
    assert len(caught.value.problems) == 3


@given(st.floats(0, 1e300), st.text("abc/*?=", min_size=1))
def test_any_pattern_and_number_is_understood(value: float, pattern: str) -> None:
    assert command_line_tolerances([f"{pattern}={value!r}"], []) == {pattern: given_as(rtol=value)}


FILE = """
[tolerance."grad/*"]
rtol = 0.1
atol = 0.1
why = "for all"
[tolerance."grad/*.bias"]
rtol = 0.2
why = "for all, of biases"
[suite.mlp."grad/*"]
rtol = 0.3
why = "for one"
"""


def decided(tmp_path: Path, suite: str, key: str, *rtol: str) -> tuple[float, float, str]:
    (tmp_path / "t.toml").write_text(FILE)
    overrides = tolerance_overrides(rtol, [], tmp_path / "t.toml", suites=["mlp", "llama"])(suite)
    table = ToleranceTable([*overrides, (Level.SUITE, {"*": Tolerance(rtol=9.0, atol=9.0, why="suite")})])
    found = table.resolve(key, "float32", "equivalence")
    return found.rtol, found.atol, found.decided_by


def test_the_command_line_is_stronger_than_the_file_and_the_file_than_the_suite(tmp_path: Path) -> None:
    assert decided(tmp_path, "llama", "loss") == (9.0, 9.0, "suite [*]")
    assert decided(tmp_path, "llama", "grad/a") == (0.1, 0.1, "tolerance file [grad/*]")
    assert decided(tmp_path, "llama", "grad/a", "0.4") == (0.4, 0.1, "rtol command line [*]; atol tolerance file [grad/*]")


def test_what_a_file_says_of_one_suite_is_stronger_than_what_it_says_of_all(tmp_path: Path) -> None:
    assert decided(tmp_path, "llama", "grad/a.bias")[:2] == (0.2, 0.1)
    assert decided(tmp_path, "mlp", "grad/a.bias")[:2] == (0.3, 0.1)


def test_without_a_file_only_the_command_line_overrides() -> None:
    assert tolerance_overrides(["1"], [], None, suites=[])("mlp")[0] == (Level.COMMAND_LINE, {"*": given_as(rtol=1.0)})
    assert all(not rules for _, rules in tolerance_overrides([], [], None, suites=[])("mlp"))
