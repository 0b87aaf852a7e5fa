"""The one training loop that every variant runs."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from xla_equiv.execute.arrays import digest
from xla_equiv.execute.backends import Backend
from xla_equiv.execute.graphs import GraphLog
from xla_equiv.execute.isolation import drawing, reset_process
from xla_equiv.execute.placement import move_to
from xla_equiv.execute.recording import Recorder
from xla_equiv.store.traces import write_facts, write_step
from xla_equiv.values.case import Case
from xla_equiv.values.plan import Test
from xla_equiv.values.trace import GraphFacts, InputDigest, RunFacts
from xla_equiv.values.treatment import StepInputs, StepOutputs, accumulating

OnStep = Callable[[int, float, float], None]
"""Called after each step with its number, and the seconds spent compiling and in all so far."""


class Training:
    """One variant of one case, trained from its first step to its last, recorded into a folder.

    Args:
        test: what to train.
        backend: where; it must be usable.
        graphs: sees the compiled modules; None on a backend that compiles nothing.
        folder: where the trace goes.
        provenance: what explains the numbers of this process.
        on_step: told about every step.
    """

    def __init__(
        self,
        test: Test,
        backend: Backend,
        graphs: GraphLog | None,
        folder: Path,
        *,
        provenance: Mapping[str, str],
        on_step: OnStep = lambda step, compile_s, run_s: None,
    ) -> None:
        self.test, self.case, self.backend, self.graphs, self.folder = test, test.case, backend, graphs, folder
        self.provenance, self.on_step = provenance, on_step
        self.inputs: dict[str, InputDigest] = {}
        self.recorder = Recorder(
            test.recorded_keys, steps=self.case.steps, write=lambda step, arrays: write_step(folder, step, arrays)
        )

    def run(self) -> RunFacts:
        """Train, save the trace, and return its facts."""
        started, compiled_before = time.perf_counter(), self.backend.compile_s()
        device = self.backend.device()
        reset_process(self.case.seed)
        self.backend.seed(self.case.seed)
        if self.graphs:
            self.graphs.start_job()
        with drawing(self.case.seed, "build"):
            model = self.case.build()
        notes = move_to(model, device)
        for treatment in self.test.variant.treatments:
            model = treatment.prepare_model(model)
        carried = self._first_carried(device)
        self.backend.sync()
        self._digest_initial(model, carried)
        optimizer = self.case.optimizer([p for p in model.parameters() if p.requires_grad])
        for step in range(1, self.case.steps + 1):
            carried = self._train_step(step, model, optimizer, carried, device)
            self.on_step(step, self.backend.compile_s() - compiled_before, time.perf_counter() - started)
        graph = self.graphs.facts if self.graphs else GraphFacts()
        facts = RunFacts(
            test=self.test.id,
            steps=self.case.steps,
            provenance=self.provenance,
            inputs=self.inputs,
            settings=_settings(self.case, optimizer),
            graph=graph,
            unproven=self._unproven(graph),
            notes=tuple(notes),
            compile_s=self.backend.compile_s() - compiled_before,
            run_s=time.perf_counter() - started,
        )
        write_facts(self.folder, facts)
        return facts

    def _first_carried(self, device: torch.device) -> tuple[Tensor, ...]:
        if self.case.carried is None:
            return ()
        with drawing(self.case.seed, "carried"):
            tensors = self.case.carried()
        return tuple(tensor.to(device) for tensor in tensors)

    def _digest_initial(self, model: nn.Module, carried: Sequence[Tensor]) -> None:
        named: list[tuple[str, Tensor]] = [(f"param/{name}", tensor) for name, tensor in model.named_parameters()]
        named += [(f"buffer/{name}", tensor) for name, tensor in model.named_buffers()]
        named += [(f"carried/{number}", tensor) for number, tensor in enumerate(carried)]
        self.inputs.update((name, digest(tensor)) for name, tensor in named)

    def _batches(self, step: int, device: torch.device) -> list[tuple[Tensor, ...]]:
        batches = []
        for micro_batch in range(self.case.micro_batches):
            with drawing(self.case.seed, "batch", step, micro_batch, 0):
                batch = self.case.batch(step, micro_batch, 0)
            for number, tensor in enumerate(batch):
                self.inputs[f"batch/{step}/{micro_batch}/{number}"] = digest(tensor)
            batches.append(tuple(tensor.to(device) for tensor in batch))
        return batches

    def _train_step(
        self,
        step: int,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        carried: tuple[Tensor, ...],
        device: torch.device,
    ) -> tuple[Tensor, ...]:
        def sync() -> None:
            held = [*self.recorder.kept, *_held(model, optimizer), *carried]
            self._sync([tensor for tensor in held if tensor.device == device])

        optimizer.zero_grad(set_to_none=True)
        if self.case.before_accumulation:
            self.case.before_accumulation(model, step)
        batches = self._batches(step, device)
        treatment = accumulating(self.test.variant.treatments)
        assert treatment is not None
        inputs = StepInputs(step=step, loss=self.case.loss, batches=batches, carried=carried, sync=sync)
        outputs = treatment.accumulate(model, inputs)
        if not isinstance(outputs, StepOutputs):
            raise TypeError(f"{treatment.name}.accumulate returned {type(outputs).__name__}, not StepOutputs")
        self._keep(step, model, outputs)
        optimizer.step()
        carried = tuple(tensor.detach() for tensor in outputs.carried)
        sync()
        self.recorder.write_step(step, model, optimizer, carried)
        return carried

    def _keep(self, step: int, model: nn.Module, outputs: StepOutputs) -> None:
        """Copy losses and gradients, and clip the gradients if the case says so."""
        for number, loss in enumerate(outputs.micro_losses):
            self.recorder.keep(f"loss/{number}", loss, step)
        self.recorder.keep("loss", outputs.loss, step)
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        for name, gradient in gradients.items():
            self.recorder.keep(f"grad/{name}", gradient, step)
        if self.case.clip_norm is not None:
            norm = nn.utils.clip_grad_norm_(list(model.parameters()), self.case.clip_norm)
            self.recorder.keep("grad_norm", norm, step)
        elif self.recorder.wants("grad_norm", step):
            self.recorder.keep("grad_norm", nn.utils.get_total_norm(list(gradients.values())), step)

    def _sync(self, tensors: Sequence[Tensor]) -> None:
        if self.graphs and tensors:
            with self.graphs.executing(tensors):
                self.backend.sync()
        else:
            self.backend.sync()

    def _unproven(self, graph: GraphFacts) -> tuple[str, ...]:
        reasons = [
            treatment.why_unproven(graph, micro_batches=self.case.micro_batches)
            for treatment in self.test.variant.treatments
        ]
        return tuple(reason for reason in reasons if reason)


def _held(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    """Yield everything that a step changes: what the device still has to compute of it tells its graph from others."""
    for parameter in model.parameters():
        yield parameter
        if parameter.grad is not None:
            yield parameter.grad
        yield from (value for value in optimizer.state.get(parameter, {}).values() if isinstance(value, Tensor))
    yield from model.buffers()


def _settings(case: Case, optimizer: torch.optim.Optimizer) -> dict[str, str]:
    """Return as text what a case fixes besides its inputs; a golden of other settings is stale.

    Options that are off are left out, for every release of torch adds some; so is what the class says already.
    """
    given = {name: value for name, value in sorted(optimizer.defaults.items()) if value}
    given.pop("decoupled_weight_decay", None)
    options = ", ".join(f"{name}={value!r}" for name, value in given.items())
    return {
        "optimizer": f"{type(optimizer).__name__}({options})",
        "steps": str(case.steps),
        "micro_batches": str(case.micro_batches),
        "seed": str(case.seed),
        "clip_norm": str(case.clip_norm),
    }
