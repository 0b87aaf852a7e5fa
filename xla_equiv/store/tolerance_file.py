"""Tolerance files: TOML that overrides what suites say, checked as a whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import tomlkit
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from tomlkit.exceptions import TOMLKitError

from xla_equiv.values.errors import ToleranceError, choices_text
from xla_equiv.values.tolerance import Tolerance, tolerance_problems


class _Rule(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    rtol: float | None = None
    atol: float | None = None
    why: str = Field(min_length=1)


class _File(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    tolerance: dict[str, _Rule] = {}
    suite: dict[str, dict[str, _Rule]] = {}


@dataclass(frozen=True)
class ToleranceFile:
    """What a file says: for all suites by key pattern, and for single suites, which is stronger."""

    everywhere: Mapping[str, Tolerance] = field(default_factory=dict)
    by_suite: Mapping[str, Mapping[str, Tolerance]] = field(default_factory=dict)

    def for_suite(self, name: str) -> Sequence[Mapping[str, Tolerance]]:
        """Return what holds for the suite `name`, the strongest first, each key pattern -> Tolerance."""
        return self.by_suite.get(name, {}), self.everywhere


def read_tolerance_file(path: Path, *, suites: Sequence[str] | None) -> ToleranceFile:
    """Return the tolerances in `path`.

        [tolerance."grad/*.bias"]                      # every suite
        rtol = 1e-3
        why = "..."

        [suite.llama_accumulation."grad/*"]            # one suite
        atol = 1e-7
        why = "..."

    Args:
        path: the TOML file.
        suites: names of the suites that exist; None where suites play no part.

    Raises:
        ToleranceError: the file cannot be read; or every fault in it, each with its path.
    """
    try:
        document = tomlkit.parse(path.read_text()).unwrap()
    except (OSError, UnicodeDecodeError) as error:
        raise ToleranceError(f"cannot read the tolerance file {path}", details=[("because", str(error))]) from error
    except TOMLKitError as error:
        raise ToleranceError(f"{path} is not TOML", details=[("where", str(error))]) from error
    problems: list[str] = []
    try:
        parsed = _File.model_validate(document)
    except ValidationError as error:
        parsed = _File()
        problems = [f"{_path(fault['loc'])}: {fault['msg']}, found {fault['input']!r}" for fault in error.errors()]
    problems += _value_problems(document)
    problems += [
        f"suite.{name}: no such suite; {choices_text(name, suites or [])}"
        for name in _named(document.get("suite"))
        if suites is not None and name not in suites
    ]
    if problems:
        raise ToleranceError(f"{path} has {len(problems)} faults" if len(problems) > 1 else f"{path} has a fault", problems=problems)
    return ToleranceFile(
        {pattern: _tolerance(rule) for pattern, rule in parsed.tolerance.items()},
        {
            name: {pattern: _tolerance(rule) for pattern, rule in rules.items()}
            for name, rules in parsed.suite.items()
        },
    )


def _named(section: object) -> list[str]:
    return list(section) if isinstance(section, dict) else []


def _path(location: Sequence[object]) -> str:
    return ".".join(f'"{part}"' if isinstance(part, str) and not part.replace("_", "").isalnum() else str(part) for part in location)


def _value_problems(document: Mapping[str, object]) -> list[str]:
    """Return what is wrong with the numbers, wherever they are numbers at all."""
    rules: list[tuple[tuple[str, ...], object]] = []
    for section, depth in (("tolerance", 1), ("suite", 2)):
        content = document.get(section)
        level: list[tuple[tuple[str, ...], object]] = [((section,), content)]
        for _ in range(depth):
            level = [((*path, name), value) for path, table in level if isinstance(table, dict) for name, value in table.items()]
        rules += level
    problems = []
    for path, rule in rules:
        if not isinstance(rule, dict):
            continue
        numbers = {part: rule.get(part) for part in ("rtol", "atol")}
        real = {part: v for part, v in numbers.items() if isinstance(v, int | float) and not isinstance(v, bool)}
        problems += [f"{_path(path)}.{text}" for text in tolerance_problems(real.get("rtol"), real.get("atol"))]
        if all(value is None for value in numbers.values()):
            problems.append(f"{_path(path)}: neither rtol nor atol is given")
        if isinstance(why := rule.get("why"), str) and why and not why.strip():
            problems.append(f"{_path(path)}.why: blank; every tolerance has a reason")
    return problems


def _tolerance(rule: _Rule) -> Tolerance:
    return Tolerance(rtol=rule.rtol, atol=rule.atol, why=rule.why)
