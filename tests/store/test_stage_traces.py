"""The trace of a training in stages, joined of what each of them recorded."""

from pathlib import Path

import numpy as np
import pytest

from xla_equiv.store.stage_traces import join_stages, stage_folder
from xla_equiv.store.traces import is_complete, read_trace, write_facts, write_step
from xla_equiv.values.errors import TraceError
from xla_equiv.values.graph import GraphFacts, ModuleFacts
from xla_equiv.values.spread import Spread
from xla_equiv.values.stages import Stage
from xla_equiv.values.trace import InputDigest, RunFacts

STAGES = tuple(
    Stage(number=number, first=first, last=last, spread=Spread.ONE, replicas=1, treatments=())
    for number, first, last in ((1, 1, 2), (2, 3, 3))
)
MODULES = [ModuleFacts(fingerprint, {}, ()) for fingerprint in "abc"]


def digest(text: str) -> InputDigest:
    return InputDigest("float32", (), text, (0.0, 0.0, 0.0))


def record(folder: Path, stage: Stage, **facts: object) -> None:
    own = stage_folder(folder, stage, STAGES)
    for step in range(stage.first, stage.last + 1):
        write_step(own, step, {"loss": np.float32(step).reshape(())})
    write_facts(own, RunFacts(test="a::b[cpu]", steps=3, **facts))  # type: ignore[arg-type]


def test_a_single_stage_records_into_the_folder_of_the_run(tmp_path: Path) -> None:
    assert stage_folder(tmp_path, STAGES[0], STAGES[:1]) == tmp_path
    assert len({stage_folder(tmp_path, stage, STAGES) for stage in STAGES} - {tmp_path}) == 2


def test_what_the_stages_recorded_becomes_one_trace(tmp_path: Path) -> None:
    record(
        tmp_path,
        STAGES[0],
        inputs={"param/w": digest("first"), "batch/1/0/0": digest("1")},
        graph=GraphFacts((MODULES[0], MODULES[1])),
        notes=("both", "first"),
        run_s=2.0,
        compile_s=1.5,
        ranks=4,
    )
    record(
        tmp_path,
        STAGES[1],
        inputs={"batch/3/0/0": digest("3")},
        graph=GraphFacts((MODULES[1], MODULES[2])),
        notes=("both",),
        unproven=("second",),
        run_s=1.0,
        compile_s=0.5,
        ranks=2,
    )
    assert not is_complete(tmp_path)
    facts = join_stages(tmp_path, STAGES)
    trace = read_trace(tmp_path)
    assert trace.facts == facts
    assert [float(array) for _, array in trace.arrays()] == [1.0, 2.0, 3.0]
    assert facts.graph.fingerprints == ("a", "b", "c")
    assert facts.inputs == {"param/w": digest("first"), "batch/1/0/0": digest("1"), "batch/3/0/0": digest("3")}
    assert (facts.notes, facts.unproven, facts.ranks) == (("both", "first"), ("second",), 2)
    assert (facts.run_s, facts.compile_s) == (3.0, 2.0)


def test_a_stage_that_did_not_end_leaves_no_trace(tmp_path: Path) -> None:
    record(tmp_path, STAGES[0])
    with pytest.raises(TraceError, match="stage-2"):
        join_stages(tmp_path, STAGES)
    assert not is_complete(tmp_path)
    assert is_complete(stage_folder(tmp_path, STAGES[0], STAGES))
