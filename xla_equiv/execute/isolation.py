"""Making a job independent of what its process ran before."""

import random
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

THREADS = torch.get_num_threads()
"""How many threads the process began with."""


def stream_seed(seed: int, *place: int | str) -> int:
    """Return a seed for one draw: a 32-bit hash of the run's seed and the draw's place."""
    return zlib.crc32(repr((seed, *place)).encode())


@contextmanager
def drawing(seed: int, *place: int | str) -> Iterator[None]:
    """Seed torch's CPU generator for one draw; the generator is as before afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_seed(seed, *place))
        yield


GeneratorStates = tuple[Any, Any, torch.Tensor]


def generator_states() -> GeneratorStates:
    """Return the states of the generators of Python, numpy and torch's CPU."""
    return random.getstate(), np.random.get_state(), torch.get_rng_state()


def set_generator_states(states: GeneratorStates) -> None:
    """Continue every generator from `states`."""
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])


def reset_process(seed: int) -> None:
    """Set the global state that a suite could have changed back to its default, and seed every generator."""
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    torch.set_num_threads(THREADS)
    torch.set_flush_denormal(False)
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("highest")
    torch.autograd.set_detect_anomaly(False)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
