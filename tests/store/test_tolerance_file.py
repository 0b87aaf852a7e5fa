"""Tolerance files: what they say, and every fault in them at once."""

from contextlib import suppress
from pathlib import Path

import pytest
import tomlkit
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_equiv import Tolerance
from xla_equiv.store.tolerance_file import ToleranceFile, read_tolerance_file
from xla_equiv.values.errors import ToleranceError

SUITES = ["llama_accumulation", "mlp_accumulation"]


def read(folder: Path, text: str) -> ToleranceFile:
    path = folder / "tolerances.toml"
    path.write_text(text)
    return read_tolerance_file(path, suites=SUITES)


def faults(folder: Path, text: str) -> list[str]:
    with pytest.raises(ToleranceError) as caught:
        read(folder, text)
    assert caught.value.exit_code == 2
    assert "tolerances.toml" in caught.value.headline
    return list(caught.value.problems)


def test_rules_for_all_suites_and_for_one(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
        [tolerance."grad/*.bias"]
        rtol = 1e-3
        why = "a reason"
        [tolerance.loss]
        atol = 1
        rtol = 0
        why = "another"
        [suite.mlp_accumulation."grad/*"]
        atol = 1e-7
        why = "a third"
        """,
    )
    assert found.everywhere == {
        "grad/*.bias": Tolerance(rtol=1e-3, why="a reason"),
        "loss": Tolerance(rtol=0.0, atol=1.0, why="another"),
    }
    own = {"grad/*": Tolerance(atol=1e-7, why="a third")}
    assert found.by_suite == {"mlp_accumulation": own}
    assert list(found.for_suite("mlp_accumulation")) == [own, found.everywhere]
    assert list(found.for_suite("llama_accumulation")) == [{}, found.everywhere]


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    for text in ("", "# nothing yet\n", "[tolerance]\n[suite]\n"):
        assert read(tmp_path, text) == ToleranceFile()


def test_several_faults_are_reported_at_once_each_with_its_path(tmp_path: Path) -> None:
    found = faults(
        tmp_path,
        """
        unknown = 1
        [tolerance."grad/*"]
        rtol = "1e-3"
        why = "a text for a number"
        [tolerance.loss]
        rtol = nan
        atol = -1.0
        why = "impossible"
        [tolerance.param]
        why = "nothing given"
        [tolerance.buffer]
        rtol = 1e-3
        [suite.mlp_acumulation."*"]
        rtol = 1e-3
        why = "no such suite"
        [suite.mlp_accumulation."optim/*"]
        rtl = 1e-3
        atol = inf
        why = ""
        """,
    )
    assert sorted(problem.partition(":")[0] for problem in found) == [
        'suite.mlp_accumulation."optim/*".atol',
        'suite.mlp_accumulation."optim/*".rtl',
        'suite.mlp_accumulation."optim/*".why',
        "suite.mlp_acumulation",
        'tolerance."grad/*".rtol',
        "tolerance.buffer.why",
        "tolerance.loss.atol",
        "tolerance.loss.rtol",
        "tolerance.param",
        "unknown",
    ]


def test_how_many_faults_there_are_is_said(tmp_path: Path) -> None:
    for text, headline in (("a = 1\nb = 2", "has 2 faults"), ("a = 1", "has a fault")):
        with pytest.raises(ToleranceError, match=headline):
            read(tmp_path, text)


def test_an_unknown_suite_is_answered_with_the_closest_and_all(tmp_path: Path) -> None:
    (problem,) = faults(tmp_path, '[suite.mlp_acumulation."*"]\nrtol = 1\nwhy = "w"')
    assert problem == (
        "suite.mlp_acumulation: no such suite; did you mean 'mlp_accumulation'? valid: llama_accumulation, mlp_accumulation"
    )


def test_where_suites_play_no_part_any_suite_may_be_named(tmp_path: Path) -> None:
    path = tmp_path / "tolerances.toml"
    path.write_text('[suite.elsewhere."*"]\nrtol = 1\nwhy = "w"')
    assert set(read_tolerance_file(path, suites=None).by_suite) == {"elsewhere"}


@pytest.mark.parametrize("value", ["nan", "-nan", "inf", "-inf", "-1", "-1e-9", '"1e-3"', "true", "[1]", "1" + "0" * 400, "1979-05-27"])
@pytest.mark.parametrize("part", ["rtol", "atol"])
def test_what_is_no_tolerance_is_named(tmp_path: Path, part: str, value: str) -> None:
    found = faults(tmp_path, f'[tolerance."grad/*"]\n{part} = {value}\nwhy = "a reason"')
    assert all(problem.startswith(f'tolerance."grad/*".{part}: ') for problem in found if "neither" not in problem)


@pytest.mark.parametrize("why", ['""', '" "', '"\\n"', "3", "[]"])
def test_a_rule_without_a_reason_is_named(tmp_path: Path, why: str) -> None:
    (problem,) = faults(tmp_path, f'[suite.mlp_accumulation."grad/*"]\nrtol = 1\nwhy = {why}')
    assert problem.startswith('suite.mlp_accumulation."grad/*".why: ')


@pytest.mark.parametrize(
    "text",
    ["tolerance = 3", "suite = 3", "suite = 'mlp'", "suite = []", "tolerance.loss = 3", "suite.mlp_accumulation = 1", "suite.mlp_accumulation.loss = 1"],
)
def test_a_value_in_place_of_a_table_is_named(tmp_path: Path, text: str) -> None:
    (problem,) = faults(tmp_path, text)
    assert problem.startswith(text.partition(" ")[0] + ": ")


@pytest.mark.parametrize("text", ["[tolerance", "a = ", "a = 1\na = 2", "\x00", "[a]\n[a]", "]", "a = 1e"])
def test_what_is_not_toml_is_refused_with_the_place(tmp_path: Path, text: str) -> None:
    with pytest.raises(ToleranceError, match="is not TOML") as caught:
        read(tmp_path, text)
    assert caught.value.details[0][1]


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("none", "", "binary"):
        with pytest.raises(ToleranceError, match="cannot read the tolerance file"):
            read_tolerance_file(tmp_path / name, suites=SUITES)


VALUES = st.recursive(
    st.integers() | st.floats() | st.booleans() | st.text("ab ", max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["rtol", "atol", "why", "loss", "*"]), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["tolerance", "suite", "x"]), VALUES | st.dictionaries(st.sampled_from(SUITES), VALUES), max_size=3))
@settings(deadline=None)
def test_any_document_is_read_or_refused_with_its_problems(
    tmp_path_factory: pytest.TempPathFactory, document: dict[str, object]
) -> None:
    with suppress(ToleranceError):
        read(tmp_path_factory.getbasetemp(), tomlkit.dumps(document))


@given(st.text("[]=.\"'\n#abe-+1_, {}\t", max_size=30))
@settings(deadline=None)
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    with suppress(ToleranceError):
        read(tmp_path_factory.getbasetemp(), text)
