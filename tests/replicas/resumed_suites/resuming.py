"""Trainings on 2 replicas that are resumed after the first of 3 steps, some of them broken in between.

Catches: nothing; what becomes of them is what the tests look at.
"""

from pathlib import Path

import torch
from torch import Tensor, nn

from xla_equiv import Case, Skip, Suite, Tolerance, Variant
from xla_equiv.treatments import LoopedAccumulation, Resumed, XlaFSDP

TRACES = Path("run", "traces", "resuming")
OPTIONS = {"lr": 1e-2, "eps": 1e-4}


def break_checkpoints() -> None:
    """Damage the checkpoints of some variants, as soon as they are there: before they are taken up."""
    for checkpoint in TRACES.glob("plain.lost_*/checkpoint-00001"):
        (checkpoint / "checkpoint_rank-00000001-of-00000002.pth").unlink(missing_ok=True)
    for checkpoint in TRACES.glob("plain.torn*/checkpoint-00001"):
        with (checkpoint / "consolidated.pth").open("r+b") as stream:
            stream.truncate(1000)


break_checkpoints()


class ForgetsState(torch.optim.AdamW):
    """AdamW that loads no state."""

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Do nothing."""


class TurnsShards(nn.Linear):
    """A layer whose weight is turned around when it is loaded, as by shards in the wrong order."""

    def load_state_dict(self, state_dict: dict[str, Tensor], *arguments: object, **options: object) -> object:  # type: ignore[override]
        """Load `state_dict`, its weight upside down."""
        turned = {name: tensor.flip(0) if name == "weight" else tensor for name, tensor in state_dict.items()}
        return super().load_state_dict(turned)


def case(build: type = nn.Linear, optimizer: type = torch.optim.AdamW) -> Case:
    """Return the training of one linear layer."""
    return Case(
        build=lambda: build(10, 5),
        batch=lambda step, micro_batch, replica: (torch.rand(4, 10), torch.randint(0, 5, (4,))),
        loss=lambda model, inputs, labels: nn.functional.cross_entropy(model(inputs), labels),
        optimizer=lambda parameters: optimizer(parameters, **OPTIONS),
        steps=3,
        micro_batches=1,
        replicas=2,
    )


def variant(name: str, resumed: Resumed) -> Variant:
    """Return FSDP that is resumed."""
    return Variant(name, backend="xla:cpu", treatments=[LoopedAccumulation(), FSDP, resumed])


FSDP = XlaFSDP()

SUITE = Suite(
    case={"plain": case(), "forgets_state": case(optimizer=ForgetsState), "turns_shards": case(build=TurnsShards)},
    reference=Variant("unbroken", backend="xla:cpu", treatments=[LoopedAccumulation(), FSDP]),
    candidates=[
        variant("sharded", Resumed(after=1)),
        variant("consolidated", Resumed(after=1, form="consolidated")),
        variant("lost_shard", Resumed(after=1)),
        variant("torn", Resumed(after=1, form="consolidated")),
        Variant(
            "twice",
            backend="xla:cpu",
            treatments=[LoopedAccumulation(), FSDP, Resumed(after=1, form="consolidated", replicas=1), Resumed(after=2)],
        ),
    ],
    tolerance={"*": Tolerance(rtol=1e-5, atol=1e-6, why="a test")},
    test_tolerance={
        "*.sharded[*": {"*": Tolerance(rtol=0.0, atol=0.0, why="a test")},
        "*.consolidated[*": {"*": Tolerance(rtol=0.0, atol=0.0, why="a test")},
    },
    skips=[
        Skip(test=f"{broken}.{name}[*", why="only `plain` is damaged")
        for broken in ("forgets_state", "turns_shards")
        for name in ("lost_shard", "torn", "twice")
    ]
    + [Skip(test="forgets_state.consolidated[*", why="as sharded"), Skip(test="turns_shards.sharded[*", why="as consolidated")],
)
