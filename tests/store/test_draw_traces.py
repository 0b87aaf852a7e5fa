"""The draws of a run, put together into one trace."""

from pathlib import Path

import numpy as np
import pytest

from xla_equiv.store.draw_traces import draw_folder, join_draws
from xla_equiv.store.traces import read_trace, write_facts, write_step
from xla_equiv.values.errors import TraceError
from xla_equiv.values.trace import Array, RunFacts


def write(folder: Path, draw: int, arrays: dict[str, Array], *, unproven: tuple[str, ...] = ()) -> None:
    into = draw_folder(folder, draw, 2)
    write_step(into, 1, arrays)
    write_facts(into, RunFacts(test="a::b[cpu]", steps=1, run_s=1.5, unproven=unproven))


def test_a_single_draw_records_into_the_folder_of_the_run(tmp_path: Path) -> None:
    assert draw_folder(tmp_path, 0, 1) == tmp_path


def test_draws_become_the_first_dimension(tmp_path: Path) -> None:
    write(tmp_path, 0, {"loss": np.float32(1.0).reshape(()), "grad/a": np.ones(3, np.float32)})
    write(tmp_path, 1, {"loss": np.float32(2.0).reshape(()), "grad/a": np.zeros(3, np.float32)}, unproven=("no dot",))
    join_draws(tmp_path, steps=1, draws=2)
    trace = read_trace(tmp_path)
    found = {entry.key: array for entry, array in trace.arrays()}
    assert found["loss"].tolist() == [1.0, 2.0]
    assert found["grad/a"].shape == (2, 3)
    assert (trace.facts.run_s, trace.facts.unproven) == (3.0, ("no dot",))
    assert not list(tmp_path.glob("draw-*"))


@pytest.mark.parametrize(
    "other",
    [{"loss": np.ones(2, np.float32)}, {"grad/a": np.ones(1, np.float32)}, {"loss": np.ones(1, np.float32), "more": np.ones(1)}],
    ids=["another shape", "another key", "one key more"],
)
def test_draws_that_do_not_fit_together_are_an_error(tmp_path: Path, other: dict[str, Array]) -> None:
    write(tmp_path, 0, {"loss": np.ones(1, np.float32)})
    write(tmp_path, 1, other)
    with pytest.raises(TraceError, match="draws"):
        join_draws(tmp_path, steps=1, draws=2)


def test_a_draw_without_its_records_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, 0, {"loss": np.ones(1, np.float32)})
    with pytest.raises(TraceError):
        join_draws(tmp_path, steps=1, draws=2)
