"""Reports: the outcome of a run as one versioned JSON file, from which every rendering is made."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from xla_equiv.store.atomic import write_bytes
from xla_equiv.values.errors import ReportError
from xla_equiv.values.verdict import Verdict

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SCHEMA = 1
"""Number of the layout of a report; a change that old readers cannot read counts it up."""

MOST_PROBLEMS = 5

Content = TypeVar("Content")


@dataclass(frozen=True, kw_only=True)
class Report:
    """A whole run.

    Args:
        schema: number of the layout.
        created: when the run ended, as ISO text in UTC.
        run: path of the run folder, as commands take it for their RUN argument.
        provenance: name -> value of everything that explains numbers, as the controller saw it.
        options: name -> text of what was asked for: selection, tolerances, workers.
        verdicts: one for each test.
        notes: what concerns no single test, such as unused goldens.
        unfinished: the tests that were chosen and did not end, in a run that was interrupted.
        exit_code: what the run ended with.
    """

    schema: int = SCHEMA
    created: str
    run: str
    provenance: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    exit_code: int


@dataclass(frozen=True, kw_only=True)
class _SavedVerdict:
    schema: int = SCHEMA
    verdict: Verdict


def write_report(report: Report, path: Path) -> None:
    """Write `report` to `path`, whole or not at all.

    Raises:
        OutputError: the file cannot be written.
    """
    write_bytes(path, _encode(report, Report))


def read_report(path: Path) -> Report:
    """Return the report in `path`.

    Raises:
        ReportError: there is none, or it is truncated, foreign, or of another schema.
    """
    return _decode(path, Report, "report", remedy="xla-equiv run --out DIR writes a report.json; give the path of one")


def write_verdict(verdict: Verdict, path: Path) -> None:
    """Write one `verdict` to `path`, whole or not at all.

    Raises:
        OutputError: the file cannot be written.
    """
    write_bytes(path, _encode(_SavedVerdict(verdict=verdict), _SavedVerdict))


def read_verdict(path: Path) -> Verdict:
    """Return the verdict in `path`.

    Raises:
        ReportError: there is none, or it is truncated, foreign, or of another schema.
    """
    return _decode(path, _SavedVerdict, "verdict", remedy="run its test again").verdict


def to_json(value: object) -> str:
    r"""Return `value` (of mappings, sequences, texts, numbers) as JSON that every parser reads.

    NaN and inf, which JSON has no numbers for, become the texts "nan", "inf" and "-inf".

    >>> to_json([1.0, math.inf])
    '[\n 1.0,\n "inf"\n]'
    """
    return json.dumps(_representable(value), indent=1, ensure_ascii=False, allow_nan=False)


def _representable(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, Mapping):
        return {_representable(name): _representable(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_representable(member) for member in value]
    return value


@cache
def _adapters() -> Mapping[type[Any], TypeAdapter[Any]]:
    from pydantic import TypeAdapter  # here, so that importing a face stays fast

    return {Report: TypeAdapter(Report), _SavedVerdict: TypeAdapter(_SavedVerdict)}


def _encode(value: object, kind: type[object]) -> bytes:
    return f"{to_json(_adapters()[kind].dump_python(value, mode='json'))}\n".encode()


def _decode(path: Path, kind: type[Content], name: str, *, remedy: str) -> Content:
    where = ("where", str(path))
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise ReportError(f"there is no {name}", details=[where], next=remedy) from error
    except OSError as error:
        raise ReportError(
            f"a {name} cannot be read", details=[where, ("because", error.strerror or str(error))], next=remedy
        ) from error
    except (ValueError, RecursionError) as error:
        raise ReportError(
            f"a {name} is truncated, damaged or no JSON", details=[where, ("because", str(error))], next=remedy
        ) from error
    if not isinstance(content, dict) or "schema" not in content:
        raise ReportError(f"a file is not a {name} of xla-equiv", details=[where], next=remedy)
    if content["schema"] != SCHEMA:
        raise ReportError(
            f"a {name} has an unknown schema",
            details=[where, ("numbers", f"schema {content['schema']!r}; this version reads {SCHEMA}")],
            next="read it with the version of xla-equiv that wrote it, or run again",
        )
    return _validated(content, kind, where, name, remedy=remedy)


def _validated(
    content: dict[str, object],
    kind: type[Content],
    where: tuple[str, str],
    name: str,
    *,
    remedy: str,
) -> Content:
    from pydantic import ValidationError

    try:
        result: Content = _adapters()[kind].validate_python(content)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        problems = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults[:MOST_PROBLEMS]]
        if len(faults) > MOST_PROBLEMS:
            problems.append(f"and {len(faults) - MOST_PROBLEMS} more")
        raise ReportError(
            f"a file is not a {name} of xla-equiv", details=[where], problems=problems, next=remedy
        ) from error
    return result
