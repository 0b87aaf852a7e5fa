"""The manifest of a golden: TOML beside its tensors, written so that a review can read it."""

from pathlib import Path
from typing import Annotated

import tomlkit
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from tomlkit.exceptions import TOMLKitError

from xla_equiv.store.atomic import write_bytes
from xla_equiv.values.errors import GoldenError

SCHEMA = 1


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class JournalEntry(_Strict):
    """One approval: when, why, from which run, and what it changed.

    `change` is the margin by which the newly accepted values left the golden before, in per cent of the
    tolerance; `forced` is the reason given for accepting in spite of an objection.
    """

    date: str
    why: Annotated[str, Field(min_length=1)]
    run: str
    torch: str
    torch_xla: str
    change: str
    forced: str = ""


class Manifest(_Strict):
    """What a golden is of, what it was recorded with, and who approved it why.

    `margin` is the share of its tolerance that equivalence with the reference used in the accepted run;
    a reference has none. `losses` holds the loss of every recorded step as text at full precision. `reruns` is how many runs
    were bit-identical when it was accepted.
    """

    format: int = SCHEMA
    test: str
    device_class: str
    steps: int
    reruns: int = 1
    margin: float | None = None
    losses: list[str]
    provenance: dict[str, str]
    settings: dict[str, str]
    journal: list[JournalEntry]


def read_manifest(path: Path) -> Manifest:
    """Return the manifest at `path`.

    Raises:
        GoldenError: it is missing, not TOML, of another format, or has faults (all are listed).
    """
    try:
        document = tomlkit.parse(path.read_text()).unwrap()
    except (OSError, UnicodeDecodeError, TOMLKitError) as error:
        raise GoldenError(
            f"cannot read the golden's manifest {path}",
            details=[("because", str(error))],
            next=f"git checkout -- '{path}'",
        ) from error
    if document.get("format") != SCHEMA:
        raise GoldenError(
            f"{path} has format {document.get('format')!r}, this version reads {SCHEMA}",
            next="install the matching version of xla-equiv, or accept the golden again",
        )
    try:
        return Manifest.model_validate(document)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        raise GoldenError(f"{path} is damaged", problems=problems, next=f"git checkout -- '{path}'") from error


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write `manifest` to `path` atomically, losses one on a line, the journal last."""
    document = tomlkit.document()
    for name, value in manifest.model_dump(exclude={"losses", "journal"}, exclude_none=True).items():
        document[name] = value
    losses = tomlkit.array()
    losses.extend(manifest.losses)
    document["losses"] = losses.multiline(True)
    journal = tomlkit.aot()
    for entry in manifest.journal:
        journal.append(tomlkit.item(entry.model_dump(exclude_defaults=True)))
    document["journal"] = journal
    write_bytes(path, tomlkit.dumps(document).encode())
