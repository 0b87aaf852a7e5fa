"""Lightning Fabric's XLAFSDPStrategy on 2 and 4 replicas: it must train as XlaFullyShardedDataParallel alone.

Compares, bit for bit, the same model without Fabric with what Fabric makes of it: `setup_module`,
`setup_optimizers`, `backward`, `clip_gradients`, `no_backward_sync`; and with a training that Fabric saves
and that goes on from what a new model and a new optimizer have loaded.

Catches: a wrapper that scales, drops or reduces a gradient twice, clipping by the norm of one shard, micro-batches
that are reduced or not reduced against the request, a checkpoint that loses a parameter, a slot of the optimizer
or a rank, shards that come back on another rank.

Not a matter of numbers, and so not here, in lightning-fabric 2.6.6: `clip_gradients` ignores error_if_nonfinite,
`save` and `load` fail with a `pathlib.Path` (tests/replicas/test_fabric.py).
"""

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from suites.models import MLP, LabelledBatches, classification_loss
from xla_equiv import ALL_STEPS, Case, ExpectedFailure, Skip, Status, Suite, Tolerance, Variant
from xla_equiv.treatments import FabricFSDP, FabricProgram, LoopedAccumulation, StepInputs, StepOutputs, XlaFSDP


def build() -> nn.Module:
    """Return a multilayer perceptron."""
    return MLP((32, 48, 8))


def adamw(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Return AdamW; eps is far above the noise of a gradient, so that noise does not become an update."""
    return torch.optim.AdamW(parameters, lr=1e-2, eps=1e-4, weight_decay=0.01)


def case(replicas: int, *, micro_batches: int, clip_norm: float | None) -> Case:
    """Return a training of five steps."""
    return Case(
        build=build,
        batch=LabelledBatches(8, 32, classes=8),
        loss=classification_loss,
        optimizer=adamw,
        steps=5,
        micro_batches=micro_batches,
        replicas=replicas,
        full=replicas > 2,
        clip_norm=clip_norm,
        seed=41,
    )


@dataclass(frozen=True, kw_only=True)
class Reloaded(FabricFSDP):
    """FabricFSDP that saves before a step, and goes on from what a new model and a new optimizer have loaded.

    Args:
        before_step: the step.
        saves_optimizer: save and load the optimizer, too; otherwise it goes on as it is.
    """

    before_step: int = 4
    saves_optimizer: bool = True

    def accumulate(self, model: nn.Module, inputs: StepInputs) -> StepOutputs:
        """Run all micro-batches of one step."""
        if inputs.step == self.before_step:
            inputs.sync()
            self._reload(model, self.program(model))
        return super().accumulate(model, inputs)

    def _reload(self, model: nn.Module, program: FabricProgram) -> None:
        fabric, optimizer = program.fabric, program.optimizer
        assert optimizer is not None
        built = build()
        with tempfile.TemporaryDirectory(prefix="fabric-") as own:
            path = f"{fabric.broadcast(own)}/checkpoint"
            fabric.save(path, {"model": model, **({"optimizer": optimizer} if self.saves_optimizer else {})})
            if self.state_dict_type == "full":  # Fabric loads it into a model that it has not set up
                fabric.load(path, {"model": built})
            loaded = fabric.setup_module(built)
            loaded_optimizer = fabric.setup_optimizers(adamw(loaded.parameters()))
            if self.state_dict_type == "sharded":
                fabric.load(path, {"model": loaded, "optimizer": loaded_optimizer})
            fabric.barrier()
        assert isinstance(loaded_optimizer, torch.optim.Optimizer)
        pairs = list(zip(model.parameters(), loaded.parameters(), strict=True))
        for parameter, new in pairs:
            parameter.data = new.data
        if self.saves_optimizer:
            optimizer.state.clear()
            optimizer.state.update({parameter: loaded_optimizer.state[new] for parameter, new in pairs})


FSDP = [LoopedAccumulation(no_sync=True), XlaFSDP(shard_size_multiple=128)]  # as Fabric leaves it
SAVED_ONCE = "saving depends on neither clipping nor accumulation; tested with clipping"

SUITE = Suite(
    case={
        f"{name}_{replicas}": case(replicas, micro_batches=micro_batches, clip_norm=clip_norm)
        for replicas in (2, 4)
        for name, micro_batches, clip_norm in (("plain", 1, None), ("clip", 1, 0.1), ("accumulate", 3, None))
    },
    reference=Variant("fsdp", backend="xla:cpu", treatments=FSDP),
    candidates=[
        Variant("fabric", backend="xla:cpu", treatments=[FabricFSDP(no_sync=True)]),
        Variant("fabric_saved_sharded", backend="xla:cpu", treatments=[Reloaded(no_sync=True)]),
        Variant(
            "fabric_saved_full",
            backend="xla:cpu",
            treatments=[Reloaded(no_sync=True, state_dict_type="full", saves_optimizer=False)],
        ),
        Variant(
            "fabric_saved_full_optimizer",
            backend="xla:cpu",
            treatments=[Reloaded(no_sync=True, state_dict_type="full", before_step=5)],
        ),
        Variant("fabric", backend="xla:tpu", treatments=[FabricFSDP(no_sync=True)]),
    ],
    tolerance={
        "*": Tolerance(
            rtol=0.0,
            atol=0.0,
            only=("equivalence",),
            why="Fabric calls XlaFullyShardedDataParallel and adds no arithmetic: the compiled graphs are the same",
        )
    },
    test_tolerance={
        "*[xla:tpu]": {
            "*": Tolerance(rtol=1e-4, atol=1e-5, why="another compiler adds in another order; not measured on a TPU yet")
        }
    },
    expected_failures=[
        ExpectedFailure(
            test="*.fabric_saved_full_optimizer[xla:cpu]",
            status=Status.OUTSIDE,
            keys="[op]*/*",  # optim and param; the loss and the gradients of the step that follows are right
            why="lightning-fabric 2.6.6 keeps only the model in a full checkpoint, though XLAFSDPStrategy documents "
            "full optimizer states; the optimizer begins anew",
        )
    ],
    skips=[
        Skip(test="plain_*.fabric_saved_*", why=SAVED_ONCE),
        Skip(test="accumulate_*.fabric_saved_*", why=SAVED_ONCE),
        Skip(test="clip_4.fabric_saved_full_optimizer*", why="the known fault is shown with 2 replicas"),
    ],
    golden={"*": (), "loss": ALL_STEPS, "grad_norm": ALL_STEPS, "grad/*": (1,)},
)
