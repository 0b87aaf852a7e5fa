"""What each stage of a training recorded, in a folder of its own inside that of the whole run."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from xla_equiv.store.traces import read_facts, step_file, write_facts
from xla_equiv.values.graph import GraphFacts
from xla_equiv.values.stages import Stage
from xla_equiv.values.trace import RunFacts


def stage_folder(folder: Path, stage: Stage, stages: Sequence[Stage]) -> Path:
    """Return where `stage` of the run that records into `folder` records; a single stage is the whole run."""
    return folder / f"stage-{stage.number}" if len(stages) > 1 else folder


def checkpoint_folder(folder: Path, step: int) -> Path:
    """Return where the run that records into `folder` keeps the checkpoint of after `step`."""
    return folder / f"checkpoint-{step:05d}"


def join_stages(folder: Path, stages: Sequence[Stage]) -> RunFacts:
    """Make the trace of the whole run in `folder` of what its stages recorded there, and return its facts.

    Raises:
        TraceError: the facts of a stage are missing or damaged.
    """
    facts = [read_facts(stage_folder(folder, stage, stages)) for stage in stages]
    for stage in stages:
        for step in range(stage.first, stage.last + 1):
            os.replace(step_file(stage_folder(folder, stage, stages), step), step_file(folder, step))
    inputs = {name: found for one in facts for name, found in one.inputs.items()}
    modules = {module.fingerprint: module for one in facts for module in one.graph.modules}
    joined = replace(
        facts[-1],
        inputs=inputs,
        graph=GraphFacts(tuple(modules.values())),
        unproven=tuple(dict.fromkeys(reason for one in facts for reason in one.unproven)),
        notes=tuple(dict.fromkeys(note for one in facts for note in one.notes)),
        compile_s=sum(one.compile_s for one in facts),
        run_s=sum(one.run_s for one in facts),
    )
    write_facts(folder, joined)
    return joined
