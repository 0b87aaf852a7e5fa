"""Suite files that cannot be loaded: the file and the line are named; under pytest it is a collection error."""

import re
from collections.abc import Callable

import pytest
from project import SUITE_FILES, Project

TINY = (SUITE_FILES / "tiny.py").read_text()
DOCSTRING = '"""A suite.\n\nCatches: nothing.\n"""\n'

BROKEN = {
    "raises": (f"{DOCSTRING}\nimport math\n\nSUITE = math.sqrt(-1)\n", "ValueError: ", "suites/bad.py:8"),
    "syntax": (f"{DOCSTRING}SUITE = (\n", "SyntaxError: ", "suites/bad.py:5"),
    "import": (f"{DOCSTRING}import no_such_module\nSUITE = 1\n", "no_such_module", "suites/bad.py:5"),
    "exits": (f"{DOCSTRING}import sys\nsys.exit(0)\nSUITE = 1\n", "SystemExit: 0", "suites/bad.py:6"),
    "no_suite": (f"{DOCSTRING}SUITE = 3\n", "bad.py exports no Suite", "SUITE = 3"),
    "no_docstring": (TINY.partition('"""\n\n')[2], "does not say what it catches", "Catches:"),
    "impossible": (TINY.replace("steps=2", "steps=0"), "steps: 0 is not a whole number", "suites/bad.py:"),
    "no_reason": (
        TINY.replace("candidates=", 'tolerance={"*": Tolerance(rtol=1e-3, why="")}, candidates=').replace(
            "import Case", "import Case, Tolerance"
        ),
        "why: empty; every tolerance has a reason",
        "suites/bad.py:",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_suite_that_cannot_be_loaded_is_refused(project: Callable[..., Project], name: str) -> None:
    made = project("tiny")
    text, *wanted = BROKEN[name]
    made.write("bad", text)
    for command in (["run", "--out", "run"], ["list"], ["golden", "check"]):
        made.xla_equiv(*command).refuses("SuiteError", "bad.py", *wanted)
    assert not (made.root / "run").exists()


def test_all_suites_that_cannot_be_loaded_are_named_at_once(project: Callable[..., Project]) -> None:
    made = project("tiny")
    made.write("bad", BROKEN["raises"][0])
    made.write("worse", BROKEN["syntax"][0])
    made.xla_equiv("run").refuses("SuiteError", "2 suites cannot be loaded", "- bad.py", "- worse.py", ":8", ":5")


def test_under_pytest_it_is_a_collection_error(project: Callable[..., Project]) -> None:
    made = project("tiny")
    made.write("bad", BROKEN["raises"][0])
    made.write("worse", BROKEN["syntax"][0])
    ran = made.pytest("suites")
    assert ran.code == 2
    assert "2 errors" in ran.out
    for name, line in (("bad", 8), ("worse", 5)):
        assert f"SuiteError: {name}.py raises when it is loaded" in ran.out
        assert f"suites/{name}.py:{line}" in ran.out
    assert not re.search(r"\d (passed|failed)", ran.out)


def test_a_suite_may_put_off_its_annotations(project: Callable[..., Project]) -> None:
    made = project()
    head, _, body = TINY.partition("from xla_equiv import")
    dataclass = "\n\n@dataclass(frozen=True)\nclass Sizes:\n    width: int = 3\n\n\nLOOP ="
    text = f"{head}from __future__ import annotations\nfrom dataclasses import dataclass\nfrom xla_equiv import{body}"
    made.write("tiny", text.replace("\n\nLOOP =", dataclass))
    ran = made.xla_equiv("list")
    assert (ran.code, ran.err) == (0, "")
