"""Ways of sharding that shard less than they say, or checkpoint nothing, beside one that does all.

Catches: nothing itself.
"""

from torch import nn
from torch.optim import Optimizer

from suites.models.alike_layers import decoder_case
from xla_equiv import Suite, Tolerance, Variant
from xla_equiv.treatments import DataParallel, LoopedAccumulation, SpmdTensorParallel, Treatment, XlaFSDP

ROWS = {f"layers.{layer}.attention.out.weight": (True, False) for layer in range(2)}


class WrapsNothing(XlaFSDP):
    """Leaves the model whole, and reduces its gradients as data parallel does."""

    def prepare_model(self, model: nn.Module) -> nn.Module:
        return model

    def reduce(self, model: nn.Module, optimizer: Optimizer) -> None:
        DataParallel().reduce(model, optimizer)

    def clip(self, model: nn.Module, optimizer: Optimizer, max_norm: float):  # type: ignore[no-untyped-def]
        return nn.utils.clip_grad_norm_(list(model.parameters()), max_norm)


class FirstOnly(SpmdTensorParallel):
    """Divides the first of its parameters."""

    def prepare_model(self, model: nn.Module) -> nn.Module:
        first = dict([next(iter(self.partitions.items()))])
        return SpmdTensorParallel(partitions=first).prepare_model(model)


def variant(name: str, treatment: Treatment) -> Variant:
    return Variant(name, backend="xla:cpu", treatments=[LoopedAccumulation(), treatment])


SUITE = Suite(
    case=decoder_case(seed=22, replicas=2),
    reference=variant("data_parallel", DataParallel()),
    candidates=[
        variant("wraps_nothing", WrapsNothing()),
        variant("checkpoints_nothing", XlaFSDP(checkpoint=True)),
        variant("divides_the_first", FirstOnly(partitions=ROWS)),
        variant("fsdp", XlaFSDP()),
    ],
    test_tolerance={"divides_the_first*": {"*": Tolerance(rtol=1e-2, atol=1e-4, why="only the proof can tell")}},
)
