"""torch_xla's own collectives, as replicas that run in lockstep need them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch_xla
import torch_xla.core.xla_model as xm
from torch import Tensor


@contextmanager
def lockstep_collectives() -> Iterator[None]:
    """Let `xm.rendezvous`, `xm.mesh_reduce` and `xm.collective_broadcast` work in lockstep while the context is open.

    Both defaults below suit replicas that are processes. In lockstep they never end:

    - A pinned all-gather is an all-reduce of padding that depends on the rank, so that replicas compile
      different modules. `xm.all_gather`, which a rendezvous uses, pins only where that is asked for.
    - Who reads the result of a broadcast executes one replica alone, which waits for the others.
      `xm.collective_broadcast` executes all replicas before it returns.
    """
    all_gather, collective_broadcast = xm.all_gather, xm.collective_broadcast

    @functools.wraps(all_gather)
    def unpinned_all_gather(
        value: Tensor, dim: int = 0, groups: Any = None, output: Any = None, pin_layout: bool = False, **options: Any
    ) -> Any:
        return all_gather(value, dim, groups, output, pin_layout, **options)

    @functools.wraps(collective_broadcast)
    def executed_broadcast(*args: Any, **options: Any) -> None:
        collective_broadcast(*args, **options)
        torch_xla.sync()

    xm.all_gather, xm.collective_broadcast = unpinned_all_gather, executed_broadcast
    try:
        yield
    finally:
        xm.all_gather, xm.collective_broadcast = all_gather, collective_broadcast
