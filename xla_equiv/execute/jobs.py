"""One job of a worker: a training by one program, or by several replicas whose records are joined."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from xla_equiv.execute.backends import Backend, find_backend
from xla_equiv.execute.checkpoints import check_checkpoint, consolidate
from xla_equiv.execute.graphs import GraphLog, UnreadGraphs
from xla_equiv.execute.protocol import HLO_FOLDER, Job
from xla_equiv.execute.replicas.replica import Replica, current_replica
from xla_equiv.execute.suite_files import load_suite
from xla_equiv.execute.training import OnStep, Training
from xla_equiv.store.draw_traces import draw_folder, join_draws
from xla_equiv.store.rank_traces import join_rank_traces
from xla_equiv.store.stage_traces import checkpoint_folder, join_stages, stage_folder
from xla_equiv.values.plan import Test, expand
from xla_equiv.values.spread import Spread
from xla_equiv.values.stages import Form


def run_job(job: Job, backend: Backend, graphs: GraphLog | None, on_step: OnStep) -> None:
    """Train the stage that `job` asks for; after the last one its folder holds the trace of the whole run."""
    test = _find_test(job)
    folder = Path(job.folder)
    stages = test.stages
    stage = stages[job.stage - 1]
    if stage.takes is not None:
        check_checkpoint(checkpoint_folder(folder, stage.first - 1), stage)
    if stage.spread is Spread.REPLICAS:
        backend.run_replicas(stage.replicas, _Body(job, backend, test, graphs, on_step))
        recorded = stage_folder(folder, stage, stages)
        steps = range(stage.first, stage.last + 1)
        join_rank_traces(recorded, steps=steps, ranks=stage.replicas, wants=test.records)
    else:
        draws = test.case.draws
        for draw in range(draws):
            into = draw_folder(folder, draw, draws)
            Training(test, stage, backend, graphs, into, run=job.run, replica=Replica(), draw=draw, on_step=on_step).run()
        if draws > 1:
            join_draws(folder, steps=test.case.steps, draws=draws)
    if stage.leaves is Form.CONSOLIDATED:
        consolidate(checkpoint_folder(folder, stage.last))
    if len(stages) > 1 and stage is stages[-1]:
        join_stages(folder, stages)


def _find_test(job: Job) -> Test:
    named = load_suite(Path(job.suite))
    return next(test for test in expand([named]) if test.label == job.label)


class _Body:
    """What one replica does, in a thread of the worker or, pickled as the bare job, in a process of its own."""

    def __init__(self, job: Job, backend: Backend, test: Test, graphs: GraphLog | None, on_step: OnStep) -> None:
        self._job, self._backend, self._test, self._graphs, self._on_step = job, backend, test, graphs, on_step

    def __reduce__(self) -> tuple[Any, ...]:
        return (_body_of_process, (self._job, self._backend.name))

    def __call__(self, rank: int) -> None:
        graphs, on_step = self._graphs, self._on_step
        if rank > 0:
            graphs, on_step = UnreadGraphs() if graphs else None, _tell_nobody
        Training(
            self._test,
            self._test.stages[self._job.stage - 1],
            self._backend,
            graphs,
            Path(self._job.folder),
            run=self._job.run,
            replica=current_replica(),
            on_step=on_step,
        ).run()


def _body_of_process(job: Job, backend_name: str) -> _Body:
    hlo_folder = os.environ.get(HLO_FOLDER)
    graphs = GraphLog(Path(hlo_folder)) if hlo_folder else None
    return _Body(job, find_backend(backend_name), _find_test(job), graphs, _tell_nobody)


def _tell_nobody(step: int, compile_s: float, run_s: float) -> None:
    pass
