"""Goldens on disk: reading them whole or not at all, and writing them in one step."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from xla_equiv.measure.inputs import golden_inputs
from xla_equiv.store.manifest import Manifest, read_manifest, write_manifest
from xla_equiv.store.runs import file_name
from xla_equiv.store.tensors import DamagedFile, read_tensors, write_tensors
from xla_equiv.store.traces import FACTS
from xla_equiv.values.errors import GoldenError
from xla_equiv.values.graph import GraphFacts, ModuleFacts
from xla_equiv.values.plan import Test
from xla_equiv.values.steps import is_key_selected
from xla_equiv.values.suite import label
from xla_equiv.values.trace import Array, Entry, RunFacts, Trace

TENSORS_SUFFIX = ".safetensors"
MANIFEST_SUFFIX = ".toml"


@dataclass(frozen=True)
class Golden:
    """An approved trace, its manifest, and where both lie.

    `is_sealed` is False for tensors that another tool has rewritten: they are compared, and reported.
    """

    trace: Trace
    manifest: Manifest
    tensors_path: Path
    is_sealed: bool


def golden_path(root: Path, test: Test, device_class: str) -> Path:
    """Return where the tensors of the golden of `test` on `device_class` lie under `root`."""
    stem = label(test.case_name, test.variant).rpartition("[")[0]
    return root / test.named.name / f"{file_name(stem)}[{device_class}]{TENSORS_SUFFIX}"


def manifest_path(tensors_path: Path) -> Path:
    """Return the manifest that belongs to the golden at `tensors_path`."""
    return tensors_path.with_name(tensors_path.name.removesuffix(TENSORS_SUFFIX) + MANIFEST_SUFFIX)


def golden_selection(test: Test) -> Callable[[Entry], bool]:
    """Return which entries of a trace of `test` its golden keeps."""
    selections, steps = test.golden_keys, test.case.steps
    return lambda entry: is_key_selected(entry.key, entry.step, selections, steps=steps)


def read_golden(path: Path, test_id: str) -> Golden | None:
    """Return the golden whose tensors lie at `path`, or None when there is neither tensors nor manifest.

    Raises:
        GoldenError: a part is missing, unreadable, truncated or changed, or belongs to another test.
    """
    manifest_file = manifest_path(path)
    if not path.exists() and not manifest_file.exists():
        return None
    manifest = read_manifest(manifest_file)
    restore = f"git checkout -- '{path}' '{manifest_file}'"
    try:
        content = read_tensors(path)
    except DamagedFile as error:
        raise GoldenError(f"the golden {path} is damaged", details=[("because", str(error))], next=restore) from error
    if not path.name.endswith(f"[{manifest.device_class}]{TENSORS_SUFFIX}"):
        raise GoldenError(
            f"the golden {path} belongs to another class of devices",
            details=[("found", f"{manifest.device_class!r} in the manifest")],
            next=restore,
        )
    if manifest.test != test_id or content.about.get("test", test_id) != test_id:
        raise GoldenError(
            f"the golden {path} belongs to another test",
            details=[("found", f"manifest {manifest.test!r}, tensors {content.about.get('test', 'without a name')!r}"), ("wanted", test_id)],
            next=restore,
        )
    try:
        facts = FACTS.validate_python(content.about["facts"]) if content.is_sealed else _facts_of(manifest)
        arrays = {_place(name): array for name, array in content.arrays.items()}
    except (ValidationError, KeyError, ValueError) as error:
        raise GoldenError(
            f"{path} is not a golden of this project",
            details=[("because", str(error).splitlines()[0])],
            next=restore,
        ) from error
    losses = loss_texts(arrays)
    if losses != manifest.losses:
        raise GoldenError(
            f"the golden {path} is damaged",
            details=[("because", f"its losses differ from those in its manifest, first {_first_difference(losses, manifest.losses)}")],
            next=restore,
        )
    entries = tuple(Entry(step, key, array.dtype.name, array.shape) for (step, key), array in arrays.items())
    trace = Trace(facts, entries, lambda entry: arrays[entry.step, entry.key])
    return Golden(trace, manifest, path, content.is_sealed)


def write_golden(path: Path, trace: Trace, manifest: Manifest, keep: Callable[[Entry], bool]) -> None:
    """Write the entries of `trace` that `keep` selects, and `manifest`, to `path` and beside it."""
    arrays = {f"{entry.step}/{entry.key}": array for entry, array in trace.arrays() if keep(entry)}
    facts = FACTS.dump_python(_golden_facts(trace.facts), mode="json")
    write_tensors(path, arrays, {"test": manifest.test, "facts": facts})
    write_manifest(manifest_path(path), manifest)


def golden_files(root: Path) -> Iterator[Path]:
    """Yield the path of the tensors of every golden under `root`, also where only its manifest is left."""
    found = set(root.glob(f"*/*{TENSORS_SUFFIX}"))
    for manifest in root.glob(f"*/*{MANIFEST_SUFFIX}"):
        found.add(manifest.with_name(manifest.name.removesuffix(MANIFEST_SUFFIX) + TENSORS_SUFFIX))
    yield from sorted(found)


def loss_texts(arrays: Mapping[tuple[int, str], Array]) -> list[str]:
    """Return the loss of every recorded step as text at full precision, in order of steps."""
    return [repr(float(array.reshape(-1)[0])) for (step, key), array in sorted(arrays.items()) if key == "loss"]


def _golden_facts(facts: RunFacts) -> RunFacts:
    """Return the facts worth keeping in git: of a module what tells it from another one, and its instructions."""
    modules = [ModuleFacts(one.fingerprint, one.opcodes, one.trip_counts) for one in facts.graph.modules]
    graph = GraphFacts(tuple(modules))
    return dataclasses.replace(facts, inputs=golden_inputs(facts), graph=graph, compile_s=0.0, run_s=0.0)


def _facts_of(manifest: Manifest) -> RunFacts:
    return RunFacts(
        test=manifest.test, steps=manifest.steps, provenance=manifest.provenance, settings=manifest.settings
    )


def _place(name: str) -> tuple[int, str]:
    step, _, key = name.partition("/")
    if not step.isdigit() or not key:
        raise ValueError(f"{name!r} is not of the form STEP/KEY")
    return int(step), key


def _first_difference(one: list[str], other: list[str]) -> str:
    pairs = [f"{a} against {b}" for a, b in zip(one, other, strict=False) if a != b]
    return pairs[0] if pairs else f"{len(one)} losses against {len(other)}"
