"""The one training loop that every variant runs."""

import time
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path

import torch
from torch import Tensor, nn

from xla_equiv.execute.backends import Backend
from xla_equiv.execute.batches import step_batches
from xla_equiv.execute.checkpoints import Handover
from xla_equiv.execute.graphs import GraphLog
from xla_equiv.execute.isolation import drawing, reset_process, stream_seed
from xla_equiv.execute.placement import move_to
from xla_equiv.execute.proof import why_unproven
from xla_equiv.execute.provenance import provenance
from xla_equiv.execute.recording import Recorder, Write
from xla_equiv.execute.replicas.replica import Replica
from xla_equiv.execute.wrapped import WrappedModel
from xla_equiv.measure.inputs import digest
from xla_equiv.store.rank_traces import rank_folder, write_rank_step
from xla_equiv.store.stage_traces import stage_folder
from xla_equiv.store.traces import write_facts, write_step
from xla_equiv.values.case import Case
from xla_equiv.values.graph import GraphFacts
from xla_equiv.values.plan import Test
from xla_equiv.values.spread import Spread
from xla_equiv.values.stages import Stage
from xla_equiv.values.trace import Array, InputDigest, RunFacts
from xla_equiv.values.treatment import Reduces, StepInputs, StepOutputs, Trained, accumulating

GRAPHS_FOLDER = "graphs"
"""Folder, in that of a trace, of the text of the modules that executed the steps."""

OnStep = Callable[[int, float, float], None]
"""Called after each step with its number, and the seconds spent compiling and in all so far."""


class Training:
    """One stage of one variant of one case, trained by one program and recorded into a folder.

    Args:
        test: what to train.
        stage: which part of it.
        backend: where; it must be usable.
        graphs: sees the compiled modules; None on a backend that compiles nothing.
        folder: where the trace of the whole run goes. A replica's goes into a folder of its own inside, and so
            does that of one of several stages.
        run: identifies the run that the stage belongs to.
        replica: which of the programs that train together this one is.
        draw: which of the case's draws it is, from 0.
        on_step: told about every step.
    """

    def __init__(
        self,
        test: Test,
        stage: Stage,
        backend: Backend,
        graphs: GraphLog | None,
        folder: Path,
        *,
        run: str,
        replica: Replica,
        draw: int = 0,
        on_step: OnStep = lambda step, compile_s, run_s: None,
    ) -> None:
        self.test, self.case, self.backend, self.graphs = test, test.case, backend, graphs
        self.stage, self.folder = stage, stage_folder(folder, stage, test.stages)
        self.handover = Handover(stage, folder, replica=replica, run=run)
        self.replica, self.draw, self.on_step = replica, draw, on_step
        self.is_replica = stage.spread is Spread.REPLICAS
        self.inputs: dict[str, InputDigest] = {}

    def run(self) -> RunFacts:
        """Train, save the trace, and return its facts."""
        started, compiled_before = time.perf_counter(), self.backend.compile_s()
        device = self.backend.device()
        reset_process(self._seed(of_device=False))
        self.backend.seed(self._seed(of_device=True))
        if self.graphs:
            self.graphs.start_job()
        with drawing(self.case.seed, "build"):
            model = self.case.build()
        self.handover.fill(model)
        notes = move_to(model, device)
        self.backend.sync()
        self.model = WrappedModel(model, self.stage.treatments)
        self.handover.fill_shards(self.model)
        carried = self._first_carried(device)
        self.backend.sync()
        self.recorder = Recorder(self.model, self.test.recorded_keys, steps=self.case.steps, write=self._writer())
        if self.stage.takes is None:
            self.recorder.write_initial(carried)
        trainable = [p for p in self.model.module.parameters() if p.requires_grad]
        self.optimizer = self.model.deciding("prepare_optimizer").prepare_optimizer(
            self.model.module, self.case.optimizer, trainable
        )
        carried, unproven = self.handover.take_up(self.model, self.optimizer, carried, self.backend)
        for step in range(self.stage.first, self.stage.last + 1):
            carried = self._train_step(step, carried, device)
            self.on_step(step, self.backend.compile_s() - compiled_before, time.perf_counter() - started)
        self.handover.leave(self.model, self.optimizer, carried, self.backend)
        graph = self.graphs.facts if self.graphs else GraphFacts()
        facts = RunFacts(
            test=self.test.id,
            steps=self.case.steps,
            provenance=provenance(self.backend),
            inputs=self.inputs,
            settings=_settings(self.case, self.optimizer),
            graph=graph,
            unproven=(*why_unproven(self.stage.treatments, self._trained(graph), self.graphs), *([unproven] if unproven else [])),
            notes=tuple(notes),
            compile_s=self.backend.compile_s() - compiled_before,
            run_s=time.perf_counter() - started,
        )
        if self.graphs:
            self.graphs.save(self.folder / GRAPHS_FOLDER)
        write_facts(rank_folder(self.folder, self.replica.rank) if self.is_replica else self.folder, facts)
        return facts

    def _seed(self, *, of_device: bool) -> int:
        """Return what seeds the device's generator, or those of the host: each draw has its own, each device too."""
        if self.is_replica and of_device:
            return stream_seed(self.case.seed, "replica", self.replica.rank)
        return stream_seed(self.case.seed, "draw", self.draw) if self.draw else self.case.seed

    def _writer(self) -> Write:
        """Return what saves a step: of a replica beside the others', otherwise as a step of the trace."""
        replica, layout = self.replica, self.model.layout
        if self.is_replica:
            return lambda step, arrays, shards: write_rank_step(
                self.folder, step, arrays, rank=replica.rank, ranks=replica.ranks, layout=layout, sharded=shards
            )

        def write(step: int, arrays: Mapping[str, Array], shards: Set[str]) -> None:  # noqa: ARG001 (nothing is sharded)
            if step:
                write_step(self.folder, step, arrays)
            else:
                self.inputs |= {key: digest(array) for key, array in arrays.items()}

        return write

    def _first_carried(self, device: torch.device) -> tuple[Tensor, ...]:
        if self.case.carried is None:
            return ()
        with drawing(self.case.seed, "carried"):
            tensors = self.case.carried()
        return tuple(tensor.to(device) for tensor in tensors)

    def _batches(self, step: int, device: torch.device) -> list[tuple[Tensor, ...]]:
        batches, digests = step_batches(self.case, step, self.stage.covers(self.replica.rank, self.case), device)
        self.inputs |= digests
        for treatment in self.stage.treatments:
            batches = [treatment.prepare_batch(batch) for batch in batches]
        return batches

    def _train_step(self, step: int, carried: tuple[Tensor, ...], device: torch.device) -> tuple[Tensor, ...]:
        module = self.model.module
        if self.graphs:
            self.graphs.start_step()

        def sync() -> None:
            held = [*self.recorder.kept, *self.model.held(self.optimizer), *carried]
            self._sync([tensor for tensor in held if tensor.device == device])

        self.optimizer.zero_grad(set_to_none=True)
        if self.case.before_accumulation:
            self.case.before_accumulation(module, step)
        batches = self._batches(step, device)
        treatment = accumulating(self.stage.treatments)
        assert treatment is not None  # a Variant without one cannot be made
        inputs = StepInputs(step=step, loss=self.case.loss, batches=batches, carried=carried, sync=sync)
        outputs = treatment.accumulate(module, inputs)
        if not isinstance(outputs, StepOutputs):
            raise TypeError(f"{type(treatment).__name__}.accumulate returned {type(outputs).__name__}, not StepOutputs")
        self._keep(step, outputs)
        self.optimizer.step()
        carried = tuple(tensor.detach() for tensor in outputs.carried)
        sync()
        self.recorder.write_step(step, self.optimizer, carried)
        return carried

    def _keep(self, step: int, outputs: StepOutputs) -> None:
        """Copy losses and gradients, reduce the gradients over the replicas and clip them if the case says so."""
        for number, loss in enumerate(outputs.micro_losses):
            self.recorder.keep(f"loss/{number}", loss, step)
        self.recorder.keep("loss", outputs.loss, step)
        reducing = [treatment for treatment in self.stage.treatments if isinstance(treatment, Reduces)]
        if reducing and self.is_replica:
            self.recorder.keep_gradients(step, kind="local_grad")
        for treatment in reducing:
            treatment.reduce(self.model.module, self.optimizer)
        self.recorder.keep_gradients(step)
        if self.case.clip_norm is not None:
            norm = self._clip(self.case.clip_norm)
            if norm is not None:
                self.recorder.keep("grad_norm", norm, step)
        elif self.recorder.wants("grad_norm", step) and not self.model.sharded:
            gradients = [p.grad for p in self.model.module.parameters() if p.grad is not None]
            self.recorder.keep("grad_norm", nn.utils.get_total_norm(gradients), step)

    def _clip(self, max_norm: float) -> Tensor | None:
        treatment = self.model.clipping
        if treatment:
            return treatment.clip(self.model.module, self.optimizer, max_norm)
        return nn.utils.clip_grad_norm_(list(self.model.module.parameters()), max_norm)

    def _sync(self, tensors: Sequence[Tensor]) -> None:
        if self.graphs and tensors:
            with self.graphs.executing(tensors):
                self.backend.sync()
        else:
            self.backend.sync()

    def _trained(self, graph: GraphFacts) -> Trained:
        return Trained(
            graph=graph,
            model=self.model.module,
            modules=self.model.modules,
            optimizer=self.optimizer,
            micro_batches=self.case.micro_batches,
        )


def _settings(case: Case, optimizer: torch.optim.Optimizer) -> dict[str, str]:
    """Return as text what a case fixes besides its inputs; a golden of other settings is stale.

    Options that are off are left out, for every release of torch adds some; so is what the class says already.
    """
    given = {name: value for name, value in sorted(optimizer.defaults.items()) if value}
    given.pop("decoupled_weight_decay", None)
    options = ", ".join(f"{name}={value!r}" for name, value in given.items())
    settings = {
        "optimizer": f"{type(optimizer).__name__}({options})",
        "steps": str(case.steps),
        "micro_batches": str(case.micro_batches),
        "seed": str(case.seed),
        "clip_norm": str(case.clip_norm),
    }
    several = {name: getattr(case, name) for name in ("replicas", "draws")}
    return settings | {name: str(number) for name, number in several.items() if number > 1}
