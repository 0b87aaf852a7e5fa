"""Which compiled modules a job executed, read from XLA's own dump."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xla_equiv.execute.hlo import module_facts
from xla_equiv.values.trace import GraphFacts, ModuleFacts

OPTIMISED = "*after_optimizations.txt"


class GraphLog:
    """Sees every module that XLA compiles in this process, and remembers which graph it came from.

    XLA compiles a graph once in a process. A later job that traces the same graph executes the cached
    module, which is not dumped again; it is found by the hash of the traced graph. Tensors that a suite
    keeps for itself add to what is compiled, not to the hash: of two modules the smaller is without them.
    """

    def __init__(self, dump_folder: Path) -> None:
        self._folder = dump_folder
        self._modules_of: dict[bytes, tuple[ModuleFacts, ...]] = {}
        self._seen: dict[str, ModuleFacts] = {}

    def start_job(self) -> None:
        """Forget which modules the job before executed."""
        self._seen = {}

    @contextmanager
    def executing(self, tensors: Sequence[Any]) -> Iterator[None]:
        """Attribute what is compiled inside to the graph that computes `tensors`, not yet executed."""
        graph = _graph_hash(tensors)
        self._take_modules()
        yield
        compiled = self._take_modules()
        known = self._modules_of.get(graph)
        if compiled and (known is None or _size(compiled) < _size(known)):
            self._modules_of[graph] = compiled
        for module in compiled or known or ():
            self._seen.setdefault(module.fingerprint, module)

    @property
    def facts(self) -> GraphFacts:
        """Return the modules that the job executed in its step graphs, each once, in order."""
        return GraphFacts(tuple(self._seen.values()))

    def _take_modules(self) -> tuple[ModuleFacts, ...]:
        """Return the facts of the modules in the dump folder, and empty it."""
        found = tuple(module_facts(path.read_text()) for path in sorted(self._folder.glob(OPTIMISED)))
        for path in self._folder.iterdir():
            path.unlink(missing_ok=True)
        return found


class UnreadGraphs(GraphLog):
    """Asks for the hash of every graph, as the GraphLog of rank 0 does, and nothing else.

    Asking applies what is pending on the tensors, and so changes the graph: replicas whose graphs must be
    one must all ask, or none.
    """

    def __init__(self) -> None:
        super().__init__(Path())

    @contextmanager
    def executing(self, tensors: Sequence[Any]) -> Iterator[None]:
        """Ask for the hash of the graph that computes `tensors`."""
        _graph_hash(tensors)
        yield


def _graph_hash(tensors: Sequence[Any]) -> bytes:
    import torch_xla

    found: bytes = torch_xla._XLAC._get_graph_hash(list(tensors))
    return found


def _size(modules: Sequence[ModuleFacts]) -> int:
    return sum(sum(module.opcodes.values()) for module in modules)


DUMP_FLAG = "--xla_dump_"


def dump_flags(folder: Path, flags: str) -> str:
    """Return XLA flags that add dumping to `folder` to `flags`."""
    return f"{flags} {DUMP_FLAG}to={folder} {DUMP_FLAG}hlo_as_text".strip()


def without_dump_flags(flags: str) -> str:
    """Return `flags` without those about dumping, which change no number and name a folder of this machine."""
    return " ".join(flag for flag in flags.split() if not flag.startswith(DUMP_FLAG))
