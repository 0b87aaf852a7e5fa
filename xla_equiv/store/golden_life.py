"""The life of goldens: which are accepted, and which nobody uses any more."""

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from xla_equiv.store.golden import (
    golden_files,
    golden_path,
    golden_selection,
    loss_texts,
    manifest_path,
    read_golden,
    write_golden,
)
from xla_equiv.store.manifest import JournalEntry, Manifest, read_manifest
from xla_equiv.values.errors import GoldenError
from xla_equiv.values.plan import Test
from xla_equiv.values.trace import Trace
from xla_equiv.values.verdict import Comparison, ComparisonKind, Expectation, Status, Verdict

ABOUT_THE_GOLDEN = (Status.NOGOLDEN, Status.STALE)


@dataclasses.dataclass(frozen=True)
class Acceptance:
    """One golden that would be written: from which trace, under which verdict.

    `objections` are the reasons against it; they must be overruled by a reason of their own.
    """

    test: Test
    verdict: Verdict
    trace: Trace
    path: Path
    reruns: int
    objections: tuple[str, ...]


def propose(test: Test, verdict: Verdict, trace: Trace, root: Path, *, reruns: int) -> Acceptance:
    """Return what accepting `trace` as the golden of `test` means, with every objection to it."""
    path = golden_path(root, test, trace.facts.provenance["device_class"])
    return Acceptance(test, verdict, trace, path, reruns, tuple(_objections(verdict, trace, golden_selection(test))))


def _objections(verdict: Verdict, trace: Trace, keep: Callable[..., bool]) -> list[str]:
    found = []
    if verdict.expectation is not Expectation.NONE:
        found.append(f"it is a known failure ({verdict.why_expected})")
    elif verdict.status.is_infrastructure or verdict.status in (Status.UNPROVEN, Status.UNSTABLE):
        found.append(f"the run was {verdict.status.value}: {verdict.what}")
    found += [
        f"{comparison.kind.value} against {comparison.against} was {comparison.status.value}"
        for comparison in verdict.comparisons
        if not comparison.status.is_green and not _is_about_own_golden(comparison)
    ]
    found += [f"{entry.key} at step {entry.step} is not finite" for entry, array in trace.arrays() if keep(entry) and not np.isfinite(array.astype(np.float64)).all()][:3]
    return found


def _is_about_own_golden(comparison: Comparison) -> bool:
    return comparison.kind is not ComparisonKind.EQUIVALENCE and comparison.against.startswith("golden")


def accept(acceptance: Acceptance, *, why: str, run: str, forced: str = "") -> None:
    """Write the golden of `acceptance`, with an entry in its journal. It never trains.

    Args:
        acceptance: what to write.
        why: the reason, for the journal.
        run: name of the run that it comes from.
        forced: the reason for overruling the objections.

    Raises:
        GoldenError: there are objections, and no reason to overrule them.
    """
    if acceptance.objections and not forced:
        raise GoldenError(
            f"{acceptance.test.id} is not accepted",
            problems=acceptance.objections,
            next="mend the cause, or overrule with --force REASON",
        )
    trace, provenance = acceptance.trace, dict(acceptance.trace.facts.provenance)
    keep = golden_selection(acceptance.test)
    old = _read_or_none(acceptance.path, acceptance.test.id)
    entry = JournalEntry(
        date=datetime.date.today().isoformat(),
        why=why,
        run=run,
        torch=provenance.get("torch", ""),
        torch_xla=provenance.get("torch_xla", ""),
        change=_change(acceptance.verdict) if old else "new",
        forced=forced,
    )
    kept = {(e.step, e.key): trace.read(e) for e in trace.entries if keep(e) and e.key == "loss"}
    manifest = Manifest(
        test=acceptance.test.id,
        device_class=provenance["device_class"],
        steps=trace.facts.steps,
        reruns=acceptance.reruns,
        margin=acceptance.verdict.equivalence.margin if acceptance.verdict.equivalence else None,
        losses=loss_texts(kept),
        provenance=provenance,
        settings=dict(trace.facts.settings),
        journal=[*(old or []), entry],
    )
    write_golden(acceptance.path, trace, manifest, keep)


def _read_or_none(path: Path, test_id: str) -> list[JournalEntry] | None:
    """Return the journal of the golden that is replaced, None where there is none to read."""
    try:
        golden = read_golden(path, test_id)
    except GoldenError:  # damaged tensors are no reason to lose the journal
        return _journal_alone(path, test_id)
    return list(golden.manifest.journal) if golden else None


def _journal_alone(path: Path, test_id: str) -> list[JournalEntry] | None:
    try:
        manifest = read_manifest(manifest_path(path))
    except GoldenError:
        return None
    return list(manifest.journal) if manifest.test == test_id else None


def _change(verdict: Verdict) -> str:
    margins = [c.margin for c in verdict.comparisons if _is_about_own_golden(c) and c.status not in ABOUT_THE_GOLDEN]
    if margins:
        return f"{100 * max(margins):.3g} % of the tolerance"
    is_stale = any(c.status is Status.STALE for c in verdict.comparisons)
    return "the case has changed" if is_stale else "unknown: the run was not compared with it"


def unused_goldens(root: Path, tests: Sequence[Test], device_classes: Callable[[str], str]) -> list[Path]:
    """Return the goldens under `root` that no test uses.

    Args:
        root: the folder of the goldens.
        tests: all tests that exist, run or not.
        device_classes: backend name -> pattern of its device classes, such as "xla-cpu" or "tpu-*".
    """
    used = [golden_path(root, test, device_classes(test.variant.backend)) for test in tests if test.skip is None]
    return [path for path in golden_files(root) if not any(is_golden_of(path, pattern) for pattern in used)]


def is_golden_of(path: Path, pattern: Path) -> bool:
    """Return whether `path` is what `golden_path` names, for a device class that may end in `*`."""
    stem, _, device_class = path.name.rpartition("[")
    wanted_stem, _, wanted_class = pattern.name.rpartition("[")
    same_class = device_class == wanted_class or (
        "*" in wanted_class and device_class.startswith(wanted_class.partition("*")[0])
    )
    return path.parent == pattern.parent and stem == wanted_stem and same_class


def delete_golden(path: Path) -> None:
    """Delete the tensors and the manifest of the golden at `path`."""
    for part in (path, manifest_path(path)):
        part.unlink(missing_ok=True)
