"""`xla-equiv new`: what it writes is a suite, and what is there is kept."""

import ast
from pathlib import Path

import pytest

from xla_equiv.faces.scaffold import new_suite
from xla_equiv.values.errors import OutputError, SelectionError


def test_a_new_suite_is_short_and_says_what_is_to_do(tmp_path: Path) -> None:
    path = new_suite("tiny_model", tmp_path / "suites")
    text = path.read_text()
    assert path == tmp_path / "suites" / "tiny_model.py"
    assert len(text.splitlines()) < 40
    assert max(map(len, text.splitlines())) <= 120
    documentation = ast.get_docstring(ast.parse(text)) or ""
    assert documentation.startswith("tiny_model: ")
    assert "Catches:" in documentation
    assert "TODO" in text
    assert "$" not in text


@pytest.mark.parametrize("name", ["", "a-b", "a b", "1a", "a/b", "../a", "class", "_a", "__init__", "é", "a.py"])
def test_a_bad_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(SelectionError, match="no suite can be called") as caught:
        new_suite(name, tmp_path)
    assert "  next " in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("mine")
    with pytest.raises(OutputError, match="there already"):
        new_suite("mine", tmp_path)
    assert (tmp_path / "mine.py").read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_an_error_of_the_house(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        new_suite("mine", tmp_path / "file")
