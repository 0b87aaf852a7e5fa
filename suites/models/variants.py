"""Variants on XLA:CPU, where most suites of treatments run."""

from collections.abc import Mapping

from xla_equiv import Variant
from xla_equiv.treatments import Treatment


def on_xla(name: str, *treatments: Treatment, env: Mapping[str, str] | None = None) -> Variant:
    """Return a way to train on XLA:CPU under `treatments`, in a process with the variables `env`."""
    return Variant(name, backend="xla:cpu", treatments=treatments, env=env or {})
