"""The fenced code blocks of the project's documents, and the command lines in them."""

import importlib.util
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

FENCE = re.compile(r"^```([\w-]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(xla-equiv [^`\n]+)`")
EXIT_CODE = re.compile(r"^exit code (\d)$", re.MULTILINE)
IN_CODE = re.compile(r"^\s*(?:\$ )?(xla-equiv [^\n]+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block: the document it stands in, its language, its text."""

    document: Path
    language: str
    text: str


@dataclass(frozen=True)
class Call:
    """One call of `xla-equiv`: its arguments, and the exit code that the document states, None where it states none."""

    arguments: tuple[str, ...]
    exit_code: int | None = None


def script(name: str) -> ModuleType:
    """Return the script docs/NAME.py as a module."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def blocks(document: Path, language: str = "") -> list[Block]:
    """Return the blocks of `document`, all or those in one language."""
    found = [Block(document, *fence.groups()) for fence in FENCE.finditer(document.read_text())]
    return [block for block in found if language in ("", block.language)]


def calls_of(block: Block) -> list[Call]:
    """Return the calls in `block`, in order."""
    code = EXIT_CODE.search(block.text)
    lines = [line for line in IN_CODE.findall(block.text) if not line.startswith("xla-equiv report of")]
    arguments = [tuple(shlex.split(line, comments=True)[1:]) for line in lines]
    return [Call(one, int(code.group(1)) if code else None) for one in arguments]


def all_calls() -> Iterator[tuple[Path, Call]]:
    """Yield every call of `xla-equiv` in the documents, in blocks and in running text."""
    for document in DOCUMENTS:
        for block in blocks(document):
            for call in calls_of(block):
                yield document, call
        running_text = FENCE.sub("", document.read_text())
        for line in INLINE.findall(running_text):
            yield document, Call(tuple(shlex.split(line)[1:]))
