"""Two replicas, most of which come to grief: each variant in one way, which its environment says.

Catches: a replica whose failure is not named, or that the others wait for without end.
"""

import os

import torch

from xla_equiv import NO_STEPS, Case, Suite, Tolerance, Variant
from xla_equiv.treatments import DDP, DataParallel, LoopedAccumulation, XlaFSDP

RAISING, SYNCING = "RAISE_ON_REPLICA", "SYNC_ON_REPLICA"


def batch(step, micro_batch, replica):
    if step == 2 and os.environ.get(RAISING) == str(replica):
        raise ArithmeticError(f"the batch of replica {replica}\nis too much")
    return (torch.rand(4, 3),)


def batch_with_scalar(step, micro_batch, replica):
    return torch.rand(4, 3), torch.tensor(float(replica))


def loss(model, inputs, shift=1.0):
    """Return the loss; on one replica, if so asked, executing what was traced so far."""
    value = (model(inputs) + shift).square().mean()
    if os.environ.get(SYNCING) == str(inputs.device.index):
        import torch_xla

        torch_xla.sync()
    return value


def case(draw):
    return Case(
        build=lambda: torch.nn.Linear(3, 2),
        batch=draw,
        loss=loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        steps=2,
        micro_batches=2,
        replicas=2,
        time_limit_s=120.0,
    )


LOOP = LoopedAccumulation()

SUITE = Suite(
    case={"plain": case(batch), "scalar": case(batch_with_scalar)},
    reference=Variant("data_parallel", backend="xla:cpu", treatments=[LOOP, DataParallel()]),
    candidates=[
        Variant("ddp", backend="cpu", treatments=[LOOP, DDP()]),
        Variant("fsdp", backend="xla:cpu", treatments=[LOOP, XlaFSDP()]),
        Variant("big_batch", backend="cpu", treatments=[LOOP]),
        Variant("raising", backend="cpu", treatments=[LOOP, DDP()], env={RAISING: "1"}),
        Variant("raising", backend="xla:cpu", treatments=[LOOP, DataParallel()], env={RAISING: "1"}),
        Variant("syncing", backend="xla:cpu", treatments=[LOOP, DataParallel()], env={SYNCING: "1"}),
    ],
    case_record={"scalar": {"grad/weight": (2,), "grad/bias": NO_STEPS}},
    tolerance={"*": Tolerance(rtol=1e-5, atol=1e-7, why="sums in another order")},
)
