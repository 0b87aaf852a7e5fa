"""The registry of backends. Another package adds one through the entry point group `xla_equiv.backends`."""

from functools import lru_cache
from importlib.metadata import entry_points

from xla_equiv.execute.backends.backend import Absence as Absence
from xla_equiv.execute.backends.backend import Backend as Backend
from xla_equiv.execute.backends.native import NativeCpu
from xla_equiv.execute.backends.xla import XlaCpu, XlaTpu
from xla_equiv.values.errors import SelectionError, choices_text

ENTRY_POINT_GROUP = "xla_equiv.backends"


@lru_cache(maxsize=1)
def backends() -> dict[str, Backend]:
    """Return every known backend by name, the built-in ones first."""
    found: dict[str, Backend] = {backend.name: backend for backend in (NativeCpu(), XlaCpu(), XlaTpu())}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        backend = point.load()()
        found.setdefault(backend.name, backend)
    return found


def find_backend(name: str) -> Backend:
    """Return the backend called `name`.

    Raises:
        SelectionError: there is none; the closest match is named.
    """
    known = backends()
    if name not in known:
        raise SelectionError(f"no backend {name!r}", details=[("where", choices_text(name, list(known)))], next="xla-equiv doctor")
    return known[name]
