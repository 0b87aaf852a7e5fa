"""Fills the generated blocks of README.md, and checks them.

    python docs/generate.py                     check; exit code 1 when a block is malformed or out of date
    python docs/generate.py --write [BLOCK]...  fill all blocks or some; a report is made by a run, which trains

A block stands between `<!-- generated: NAME -->` and `<!-- end -->`.
"""

import inspect
import math
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from tabulate import tabulate

from xla_equiv import treatments as shipped
from xla_equiv.faces.cli import COMMANDS
from xla_equiv.faces.failure_text import CLAUSES
from xla_equiv.faces.tables import HEADERS, SYMBOLS
from xla_equiv.values.tolerance import DEFAULTS_BY_DTYPE
from xla_equiv.values.treatment import Treatment
from xla_equiv.values.verdict import Status, Verdict, exit_code

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "README.md"
BLOCK = re.compile(r"(<!-- generated: ([\w-]+) -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)
MARK = re.compile(r"^<!-- (?:generated: [\w-]+|end) -->$", re.MULTILINE)


@dataclass(frozen=True)
class Report:
    """A report that is shown: the command that makes it, what it ends with, and what must stand in it."""

    command: str
    exit_code: int
    parts: Sequence[str]

    def make(self) -> str:
        """Return the block's content, by running the command."""
        ended = subprocess.run(
            [sys.executable, "-m", "xla_equiv", *shlex.split(self.command)[1:]], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if ended.returncode != self.exit_code:
            raise click.ClickException(f"{self.command}: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")
        output = "\n".join(line.rstrip() for line in ended.stdout.strip().splitlines())
        return f"```console\n$ {self.command}\n{output}\n\nexit code {self.exit_code}\n```\n"

    def problem(self, content: str) -> str:
        """Return what is wrong with the block's content; '' when nothing is."""
        wanted = [
            f"```console\n$ {self.command}\nxla-equiv report of ",
            *self.parts,
            f"exit code {self.exit_code}\n```\n",
        ]
        missing = [part for part in wanted if part not in content]
        missing += [] if re.search(r" +".join(map(re.escape, HEADERS)), content) else ["the header of the closing table"]
        return f"lacks {missing[0]!r}" if missing else ""


@dataclass(frozen=True)
class Table:
    """A table of facts of the code, which must be the code's own at any time."""

    make: Callable[[], str]

    def problem(self, content: str) -> str:
        """Return what is wrong with the block's content; '' when nothing is."""
        return "" if content == self.make() else "is out of date"


def statuses() -> str:
    """Return the table of all statuses."""
    rows = [(f"`{SYMBOLS[one]}`", f"`{one.value}`", f"the test {CLAUSES[one]}", _consequence(one)) for one in Status]
    return _table(("", "status", "meaning", "the run"), rows)


def _consequence(status: Status) -> str:
    verdict, green = Verdict(test="a::b[cpu]", status=status), Verdict(test="a::c[cpu]", status=Status.EXACT)
    if verdict.is_skip:
        return "skips it, and counts it"
    return "is green" if verdict.is_green else f"fails with exit code {exit_code([verdict, green])}"


def commands() -> str:
    """Return the table of the sub-commands."""
    return _table(("command", ""), [(f"`xla-equiv {name}`", text) for name, text in COMMANDS.items()])


def treatments() -> str:
    """Return the table of the treatments that ship."""
    found = [one for one in vars(shipped).values() if isinstance(one, type) and issubclass(one, Treatment) and one is not Treatment]
    rows = [(f"`{one.__name__}`", *map(_in_one_line, (_summary(one), _source(one)))) for one in found]
    return _table(("treatment", "", "runs"), sorted(rows))


def _summary(treatment: type) -> str:
    return (inspect.getdoc(treatment) or "").partition("\n\n")[0]


def _source(treatment: type) -> str:
    return (inspect.getdoc(treatment) or "").partition("Source:\n")[2]


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def default_tolerances() -> str:
    """Return the table of the project's default tolerances."""
    rows = [
        (f"`{dtype}`", f"2^{math.log2(rule.rtol or 0):g} = {rule.rtol:.2g}", f"{rule.atol:g}", rule.why)
        for dtype, rule in DEFAULTS_BY_DTYPE.items()
    ]
    rows.append(("integers, `bool`", "0", "0", "they are exact"))
    return _table(("dtype", "rtol", "atol", "why"), rows)


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True) + "\n"


BLOCKS: Mapping[str, Report | Table] = {
    "green-report": Report("xla-equiv run mlp_accumulation", 0, ["loop[cpu]", "loop[xla:cpu]", "while[xla:cpu]"]),
    "red-report": Report(
        "xla-equiv run mlp_accumulation -k while --atol 'grad/*=1e-9'",
        1,
        ["OUTSIDE: mlp_accumulation::while[xla:cpu]", "  where ", "  numbers ", "  limit ", "  next ", "1 outside tolerance"],
    ),
    "statuses": Table(statuses),
    "commands": Table(commands),
    "treatments": Table(treatments),
    "default-tolerances": Table(default_tolerances),
}


def problems(text: str) -> list[str]:
    """Return what is wrong with the blocks of a document whose text is `text`."""
    found = {name: content for _, name, content, _ in BLOCK.findall(text)}
    wrong = [] if len(MARK.findall(text)) == 2 * len(BLOCK.findall(text)) else ["a block is not closed, or not opened"]
    wrong += [f"there is no block {name}" for name in BLOCKS if name not in found]
    wrong += [f"nothing makes the block {name}" for name in found if name not in BLOCKS]
    faults = {name: BLOCKS[name].problem(content) for name, content in found.items() if name in BLOCKS}
    return wrong + [f"{name} {fault}: python docs/generate.py --write {name}" for name, fault in faults.items() if fault]


@click.command()
@click.option("--write", "is_writing", is_flag=True, help="Fill the blocks instead of checking them.")
@click.argument("names", nargs=-1, type=click.Choice(list(BLOCKS)), metavar="[BLOCK]...")
def main(is_writing: bool, names: Sequence[str]) -> None:
    """Check or fill the generated blocks of README.md."""
    text = DOCUMENT.read_text(encoding="utf-8")
    if is_writing:
        made = {name: BLOCKS[name].make() for name in names or BLOCKS}
        text = BLOCK.sub(lambda block: block[1] + made.get(block[2], block[3]) + block[4], text)
        DOCUMENT.write_text(text, encoding="utf-8")
    wrong = problems(text)
    if wrong:
        raise click.ClickException("\n".join(wrong))


if __name__ == "__main__":
    main()
