"""docs/dependencies.md lists exactly the dependencies of pyproject.toml, each with a reason."""

import re

import tomlkit
from markdown_blocks import ROOT

SECTION = re.compile(r"^## (Always|Extra `(\w+)`)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `([^`]+)` \| (.*?) \|", re.MULTILINE)
NAME = re.compile(r"[\w.-]+(?:\[\w+])?")


def declared() -> dict[str, list[str]]:
    """Return section (the extra's name, '' for none) -> names of the requirements."""
    project = tomlkit.parse((ROOT / "pyproject.toml").read_text()).unwrap()["project"]
    sections = {"": project["dependencies"], **project["optional-dependencies"]}
    return {extra: sorted(NAME.match(text).group() for text in texts) for extra, texts in sections.items()}  # type: ignore[union-attr]


def test_the_list_is_that_of_the_project() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text()
    listed = {extra: ROW.findall(body) for _, extra, body in SECTION.findall(text)}
    assert {extra: sorted(name for name, _ in rows) for extra, rows in listed.items()} == declared()
    for rows in listed.values():
        for name, reason in rows:
            assert len(reason.split()) >= 3, f"{name} has no reason"


def test_the_pair_of_torch_and_torch_xla_is_pinned() -> None:
    project = tomlkit.parse((ROOT / "pyproject.toml").read_text()).unwrap()["project"]
    pins = dict(re.match(r"(torch(?:_xla)?)==(\d+\.\d+)", text).groups() for text in project["dependencies"] if text.startswith("torch"))  # type: ignore[union-attr]
    assert pins["torch"] == pins["torch_xla"]
