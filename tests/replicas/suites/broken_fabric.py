"""Fabric's XLAFSDPStrategy, used rightly in one variant and wrongly in the others.

Catches: nothing; it is what must be caught.
"""

import tempfile

import torch
from torch import nn

from xla_equiv import Case, Suite, Tolerance, Variant
from xla_equiv.treatments import FabricFSDP, LoopedAccumulation, XlaFSDP


class ScaledBackward(FabricFSDP):
    """The loss is scaled before the backward pass."""

    def backward(self, model, loss):
        super().backward(model, loss * 1.001)


class ClippedByShard(FabricFSDP):
    """Each replica clips by the norm of its own shard."""

    def clip(self, model, optimizer, max_norm):
        return nn.utils.clip_grad_norm_(list(model.parameters()), max_norm)


class OptimizerNotLoaded(FabricFSDP):
    """Model and optimizer are saved before the last step, and only the model is loaded."""

    def accumulate(self, model, inputs):
        if inputs.step == STEPS:
            fabric, optimizer = self.program(model).fabric, self.program(model).optimizer
            inputs.sync()
            with tempfile.TemporaryDirectory(prefix="fabric-") as own:
                path = fabric.broadcast(own)
                fabric.save(path, {"model": model, "optimizer": optimizer})
                optimizer.state.clear()
                fabric.load(path, {"model": model})
                fabric.barrier()
        return super().accumulate(model, inputs)


def batch(step, micro_batch, replica):
    return torch.rand(4, 16) * 2 - 1, torch.randint(0, 4, (4,))


STEPS = 3

SUITE = Suite(
    case=Case(
        build=lambda: nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 4)),
        batch=batch,
        loss=lambda model, inputs, labels: nn.functional.cross_entropy(model(inputs), labels),
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-2, eps=1e-4),
        steps=STEPS,
        micro_batches=2,
        replicas=2,
        clip_norm=0.1,
        seed=3,
    ),
    reference=Variant("fsdp", backend="xla:cpu", treatments=[LoopedAccumulation(), XlaFSDP(shard_size_multiple=128)]),
    candidates=[
        Variant(name, backend="xla:cpu", treatments=[treatment()])
        for name, treatment in {
            "unbroken": FabricFSDP,
            "scaled_backward": ScaledBackward,
            "clipped_by_shard": ClippedByShard,
            "optimizer_not_loaded": OptimizerNotLoaded,
        }.items()
    ],
    tolerance={"*": Tolerance(rtol=0.0, atol=0.0, why="the same graphs")},
)
