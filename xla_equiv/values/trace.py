"""A Trace: what one run observed, as an index of (step, key) entries and the facts of the run."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from xla_equiv.values.graph import GraphFacts
from xla_equiv.values.ranks import split_rank
from xla_equiv.values.shards import HeldBy

Array = NDArray[np.generic]


@dataclass(frozen=True)
class Entry:
    """One recorded array: its optimizer step (from 1), key, dtype name and shape."""

    step: int
    key: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class InputDigest:
    """What identifies one input of a run (an initial parameter, a batch tensor).

    `sha256` proves two arms of one run identical. `moments`, (sum x, sum |x|, sum w x) with fixed
    weights w in [0, 1), recognise it on another processor, whose generator may differ in the last bits.
    """

    dtype: str
    shape: tuple[int, ...]
    sha256: str
    moments: tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """Everything about a run but its arrays.

    Args:
        test: full name of the test that was run.
        steps: optimizer steps trained.
        provenance: name -> value of everything that explains numbers.
        inputs: name -> digest of the initial parameters, buffers, carried tensors and batches.
        settings: name -> text of what the case fixes (optimizer and its options, clipping, seed).
        graph: the compiled modules.
        unproven: why treatments are not proved to have taken effect; empty when all are.
        notes: what a reader should know, such as parameters tied again after a move.
        compile_s: seconds spent compiling.
        run_s: seconds spent on all steps, compiling included.
        ranks: replicas that trained, each on a device of its own.
        placement: sharded parameter -> which of its elements lay on which replica.
    """

    test: str
    steps: int
    provenance: Mapping[str, str] = field(default_factory=dict)
    inputs: Mapping[str, InputDigest] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    graph: GraphFacts = field(default_factory=GraphFacts)
    unproven: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    compile_s: float = 0.0
    run_s: float = 0.0
    ranks: int = 1
    placement: Mapping[str, tuple[HeldBy, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Trace:
    """Recorded arrays of one run, in the order in which they were recorded, read when asked for."""

    facts: RunFacts
    entries: tuple[Entry, ...]
    read: Callable[[Entry], Array]

    def arrays(self) -> Iterator[tuple[Entry, Array]]:
        """Yield every entry with its array."""
        for entry in self.entries:
            yield entry, self.read(entry)

    @property
    def keys(self) -> list[str]:
        """Return the keys, each once, in recorded order."""
        return list(dict.fromkeys(entry.key for entry in self.entries))


COMPUTING_ORDER = ("loss", "carried", "buffer", "local_grad", "grad", "grad_norm", "optim", "param")


def computed_at(key: str) -> tuple[int, bool, bool]:
    """Return when a step computes `key`; a stable sort keeps the model's order among equals."""
    base, rank = split_rank(key)
    first, _, rest = base.partition("/")
    return COMPUTING_ORDER.index(first), first == "loss" and not rest, first == "loss" and rank is None


def memory_trace(facts: RunFacts, arrays: Mapping[tuple[int, str], Array]) -> Trace:
    """Return a Trace over arrays that are already in memory, keyed by (step, key)."""
    entries = tuple(Entry(step, key, array.dtype.name, array.shape) for (step, key), array in arrays.items())
    return Trace(facts, entries, lambda entry: arrays[entry.step, entry.key])
