"""What each draw of a run recorded, in a folder of its own until the draws are put together."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np

from xla_equiv.store.tensors import DamagedFile, read_tensors
from xla_equiv.store.traces import read_facts, step_file, write_facts, write_step
from xla_equiv.values.errors import TraceError


def draw_folder(folder: Path, draw: int, draws: int) -> Path:
    """Return where draw number `draw` (from 0) of the run that records into `folder` records."""
    return folder / f"draw-{draw:04d}" if draws > 1 else folder


def join_draws(folder: Path, *, steps: int, draws: int) -> None:
    """Make one trace in `folder` of what the draws recorded there: each array gets them as its first dimension.

    Raises:
        TraceError: a file is missing or damaged, or the draws recorded different keys or shapes.
    """
    facts = [read_facts(draw_folder(folder, draw, draws)) for draw in range(draws)]
    for step in range(1, steps + 1):
        paths = [step_file(draw_folder(folder, draw, draws), step) for draw in range(draws)]
        try:
            recorded = [read_tensors(path).arrays for path in paths]
            joined = {key: np.stack([arrays[key] for arrays in recorded]) for key in recorded[0]}
        except (DamagedFile, KeyError, ValueError) as error:
            raise TraceError(
                f"the draws' records of step {step} do not fit together", details=[("because", str(error))]
            ) from error
        if any(arrays.keys() != joined.keys() for arrays in recorded):
            raise TraceError(f"the draws recorded different keys at step {step}")
        write_step(folder, step, joined)
    seconds = {name: sum(getattr(one, name) for one in facts) for name in ("compile_s", "run_s")}
    reasons = tuple(dict.fromkeys(reason for one in facts for reason in one.unproven))
    write_facts(folder, replace(facts[0], unproven=reasons, **seconds))
    for draw in range(draws):
        shutil.rmtree(draw_folder(folder, draw, draws))
