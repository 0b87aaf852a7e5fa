"""Which compiled modules a job executed, read from XLA's own dump."""

import gzip
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xla_equiv.execute.hlo import module_facts
from xla_equiv.store.atomic import write_bytes
from xla_equiv.values.graph import GraphFacts, ModuleFacts

OPTIMISED, TRACED, MEMORY = "after_optimizations.txt", "before_optimizations.txt", "memory-usage-report.txt"
MODULE = re.compile(r"(module_\d+)\..*?(" + "|".join(map(re.escape, (OPTIMISED, TRACED, MEMORY))) + ")")
""" "module_0007.NAME.KIND", as XLA names the texts that it dumps of one module."""


@dataclass(frozen=True)
class _Module:
    """A compiled module: its facts, and its text before and after optimisation, compressed."""

    facts: ModuleFacts
    traced: bytes
    optimised: bytes


class GraphLog:
    """Sees every module that XLA compiles in this process, and remembers which graph it came from.

    XLA compiles a graph once in a process. A later job that traces the same graph executes the cached
    module, which is not dumped again; it is found by the hash of the traced graph. Tensors that a suite
    keeps for itself add to what is compiled, not to the hash: of two modules the smaller is without them.
    """

    is_blind = False
    """Whether it never sees a module, by intention."""

    def __init__(self, dump_folder: Path) -> None:
        self._folder = dump_folder
        self._modules_of: dict[bytes, tuple[_Module, ...]] = {}
        self._seen: dict[str, _Module] = {}

    def start_job(self) -> None:
        """Forget which modules the job before executed."""
        self._seen = {}

    def start_step(self) -> None:
        """Leave aside what was compiled so far: it belongs to no step."""
        self._take_modules()

    @contextmanager
    def executing(self, tensors: Sequence[Any]) -> Iterator[None]:
        """Attribute what is compiled inside to the graph that computes `tensors`, not yet executed.

        What was compiled since the step started, while it was traced, belongs to the step as well.
        """
        graph = _graph_hash(tensors)
        self._see(self._take_modules())
        yield
        compiled = self._take_modules()
        known = self._modules_of.get(graph)
        if compiled and (known is None or _size(compiled) < _size(known)):
            self._modules_of[graph] = compiled
        self._see(compiled or known or ())

    @property
    def facts(self) -> GraphFacts:
        """Return the modules that the job executed in its steps, each once, in order."""
        return GraphFacts(tuple(module.facts for module in self._seen.values()))

    def save(self, folder: Path) -> None:
        """Write the text of each module that the job executed into `folder`, compressed."""
        for fingerprint, module in self._seen.items():
            write_bytes(folder / f"{fingerprint[:16]}.traced.hlo.gz", module.traced)
            write_bytes(folder / f"{fingerprint[:16]}.optimised.hlo.gz", module.optimised)

    def _see(self, modules: Sequence[_Module]) -> None:
        for module in modules:
            self._seen.setdefault(module.facts.fingerprint, module)

    def _take_modules(self) -> tuple[_Module, ...]:
        """Return the modules in the dump folder, and empty it."""
        texts: dict[str, dict[str, str]] = defaultdict(dict)
        for path in sorted(self._folder.iterdir()):
            if found := MODULE.fullmatch(path.name):
                texts[found.group(1)][found.group(2)] = path.read_text()
        for path in self._folder.iterdir():
            path.unlink(missing_ok=True)
        return tuple(_module(one) for one in texts.values() if OPTIMISED in one)


def _module(texts: dict[str, str]) -> _Module:
    traced, optimised = texts.get(TRACED, ""), texts[OPTIMISED]
    facts = module_facts(optimised, traced, texts.get(MEMORY, ""))
    return _Module(facts, gzip.compress(traced.encode(), mtime=0), gzip.compress(optimised.encode(), mtime=0))


class UnreadGraphs(GraphLog):
    """Asks for the hash of every graph, as the GraphLog of rank 0 does, and nothing else.

    Asking applies what is pending on the tensors, and so changes the graph: replicas whose graphs must be
    one must all ask, or none.
    """

    is_blind = True

    def __init__(self) -> None:
        super().__init__(Path())

    def start_step(self) -> None:
        """Do nothing: the GraphLog of rank 0 reads the dump."""

    def save(self, folder: Path) -> None:
        """Do nothing: the GraphLog of rank 0 saves the modules of all ranks."""

    @contextmanager
    def executing(self, tensors: Sequence[Any]) -> Iterator[None]:
        """Ask for the hash of the graph that computes `tensors`."""
        _graph_hash(tensors)
        yield


def _graph_hash(tensors: Sequence[Any]) -> bytes:
    import torch_xla

    found: bytes = torch_xla._XLAC._get_graph_hash(list(tensors))
    return found


def _size(modules: Sequence[_Module]) -> int:
    return sum(sum(module.facts.opcodes.values()) for module in modules)


DUMP_FLAG = "--xla_dump_"


def dump_flags(folder: Path, flags: str) -> str:
    """Return XLA flags that add dumping to `folder` to `flags`."""
    return f"{flags} {DUMP_FLAG}to={folder} {DUMP_FLAG}hlo_as_text".strip()


def without_dump_flags(flags: str) -> str:
    """Return `flags` without those about dumping, which change no number and name a folder of this machine."""
    return " ".join(flag for flag in flags.split() if not flag.startswith(DUMP_FLAG))
