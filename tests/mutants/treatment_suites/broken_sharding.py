"""XLA FSDP that shards nothing, beside the one that does.

Catches: nothing itself.
"""

from torch import nn
from torch.optim import Optimizer

from suites.models.alike_layers import decoder_case
from xla_equiv import Suite, Variant
from xla_equiv.treatments import DataParallel, LoopedAccumulation, Treatment, XlaFSDP


class WrapsNothing(XlaFSDP):
    """Leaves the model whole, and reduces its gradients as data parallel does."""

    def prepare_model(self, model: nn.Module) -> nn.Module:
        return model

    def reduce(self, model: nn.Module, optimizer: Optimizer) -> None:
        DataParallel().reduce(model, optimizer)

    def clip(self, model: nn.Module, optimizer: Optimizer, max_norm: float):  # type: ignore[no-untyped-def]
        return nn.utils.clip_grad_norm_(list(model.parameters()), max_norm)


def variant(name: str, treatment: Treatment) -> Variant:
    return Variant(name, backend="xla:cpu", treatments=[LoopedAccumulation(), treatment])


SUITE = Suite(
    case=decoder_case(seed=22, replicas=2),
    reference=variant("data_parallel", DataParallel()),
    candidates=[variant("wraps_nothing", WrapsNothing()), variant("fsdp", XlaFSDP())],
)
