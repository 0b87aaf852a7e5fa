"""The decisions in docs/adr: numbered without gaps, of one form, and true where the code can tell."""

import re
from pathlib import Path

import pytest
from markdown_blocks import ROOT

from xla_equiv.execute.outcome import Ending
from xla_equiv.execute.process import START_LIMIT_S
from xla_equiv.measure.inputs import SAME_INPUT_RTOL
from xla_equiv.store.tensors import METADATA_KEY
from xla_equiv.values.tolerance import DEFAULTS_BY_DTYPE
from xla_equiv.values.verdict import GOLDEN_STATUSES, Status

FOLDER = ROOT / "docs" / "adr"
DECISIONS = sorted(FOLDER.glob("[0-9]*.md"))


def text_of(number: int) -> str:
    return " ".join(DECISIONS[number - 1].read_text().split())


def test_numbers_have_no_gaps() -> None:
    assert [int(path.name[:4]) for path in DECISIONS] == list(range(1, len(DECISIONS) + 1))


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_each_has_the_form(path: Path) -> None:
    text = path.read_text()
    assert text.startswith(f"# {int(path.name[:4])}. ")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
    assert f"]({path.name})" in (FOLDER / "README.md").read_text()
    assert len(text.split()) < 700


def test_the_statuses_are_all_named_in_order() -> None:
    assert ", ".join(status.value for status in Status) in text_of(4)
    assert [status for status in Status if status.is_green] == [Status.EXACT, Status.WITHIN, Status.DRIFT]
    assert set(GOLDEN_STATUSES) == {Status.NOGOLDEN, Status.STALE}


def test_only_what_befalls_a_process_is_retried() -> None:
    assert {ending for ending in Ending if ending.is_retried} == {Ending.DIED, Ending.HUNG}


def test_numbers_are_those_of_the_code() -> None:
    assert f"{START_LIMIT_S:g} s to start" in text_of(2)
    assert f"`{METADATA_KEY}`" in text_of(3)
    assert f"{SAME_INPUT_RTOL:.0e}".replace("e-0", "e-") in text_of(3)
    ulps = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
    found = {dtype: (DEFAULTS_BY_DTYPE[dtype].rtol or 0) / ulp for dtype, ulp in ulps.items()}
    assert found == {"float64": 64, "float32": 64, "float16": 4, "bfloat16": 2}
