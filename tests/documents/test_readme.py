"""What README.md and the other documents say is so: commands, options, tables, files, links."""

import re
from pathlib import Path

import click
import pytest
import tomlkit
from markdown_blocks import DOCUMENTS, ROOT, Call, all_calls, blocks, script

from xla_equiv.execute.suite_files import suite_paths
from xla_equiv.faces.cli import cli
from xla_equiv.store.tolerance_file import read_tolerance_file
from xla_equiv.values.suite import DEFAULT_GOLDEN
from xla_equiv.values.verdict import Status

README = ROOT / "README.md"
LINK = re.compile(r"\[[^]]+]\(([^)#\s]+)\)")
PATH = re.compile(r"(?<![\w/.-])((?:\.?ci|docs|\.github|xla_equiv|tests)/[\w./-]*\w)")


def check(call: Call) -> None:
    """Parse `call` as the command line would, without running it."""
    context, command = click.Context(cli), cli
    arguments = list(call.arguments)
    while isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
        name = arguments.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {name!r}"
        command = found
    if arguments and not {"--help", "--version"} & set(arguments):
        command.make_context(str(command.name), arguments, resilient_parsing=False)


@pytest.mark.parametrize(
    ("document", "call"),
    [pytest.param(*found, id=f"{found[0].name}-{' '.join(found[1].arguments)}") for found in all_calls()],
)
def test_every_command_of_the_documents_is_one(document: Path, call: Call) -> None:
    if call.arguments[:1] != ("COMMAND",):
        check(call)


def test_a_command_with_an_unknown_option_would_be_seen() -> None:
    with pytest.raises(click.NoSuchOption):
        check(Call(("run", "--rtoll", "1")))
    with pytest.raises(AssertionError, match="no command 'trian'"):
        check(Call(("trian",)))


def test_the_tolerance_files_of_the_documents_are_valid(tmp_path: Path) -> None:
    suites = [path.stem for path in suite_paths(ROOT / "suites")]
    seen = 0
    for document in DOCUMENTS:
        for block in blocks(document, "toml"):
            if {"tolerance", "suite"} & set(tomlkit.parse(block.text).unwrap()):
                path = tmp_path / "tolerances.toml"
                path.write_text(block.text)
                found = read_tolerance_file(path, suites=suites)
                assert found.everywhere
                assert found.by_suite
                seen += 1
    assert seen


def test_the_options_of_pytest_are_those_of_the_plugin() -> None:
    plugin = (ROOT / "xla_equiv" / "faces" / "pytest_plugin.py").read_text()
    existing = set(re.findall(r'addoption\("(--xe-[\w-]+)"', plugin))
    assert set(re.findall(r"--xe-[\w-]+", README.read_text())) == existing


def test_the_generated_blocks_are_whole_and_up_to_date() -> None:
    assert script("generate").problems(README.read_text()) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("<!-- end -->\n", "", "not closed"),
        ("generated: statuses", "generated: stati", "no block statuses"),
        ("| `OUTSIDE`", "| `BESIDE`", "statuses is out of date"),
        ("\nexit code 1\n```", "\n```", "red-report lacks 'exit code 1"),
        ("margin used    first bad step", "", "lacks the header"),
    ],
)
def test_a_malformed_block_is_found(old: str, new: str, fault: str) -> None:
    text = README.read_text()
    assert old in text
    found = script("generate").problems(text.replace(old, new, 1)) + script("generate").problems(text.replace(old, new))
    assert any(fault.replace("'", "") in problem.replace("'", "") for problem in found)


def test_every_status_has_a_line() -> None:
    for status in Status:
        assert re.search(rf"^\| .*`{status.value}`", README.read_text(), re.MULTILINE)


def test_the_first_screen_has_what_a_stranger_needs() -> None:
    start = README.read_text().partition("<!-- generated: red-report -->")[0]
    for needed in ("bash ci/run-default-suites.sh", "bash ci/test.sh", "xla-equiv report of"):
        assert needed in start


def test_what_a_golden_keeps_is_what_the_readme_says() -> None:
    assert DEFAULT_GOLDEN == {"*": (-1,), "loss": None, "grad_norm": None, "loss/*": (), "grad/*": (1, -1), "optim/*": ()}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_paths_lead_somewhere(document: Path) -> None:
    text = document.read_text()
    for target in LINK.findall(text):
        assert target.startswith("https://") or (document.parent / target).exists(), target
    named = "".join(part for part in re.split(r"^```.*?^```$", text, flags=re.MULTILINE | re.DOTALL))
    for path in PATH.findall(named):
        assert (ROOT / path).exists() or (document.parent / path).exists(), path
