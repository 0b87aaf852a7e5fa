"""Trainers of four replicas, each broken in one way.

Catches: nothing itself; every candidate is a fault that xla_equiv must catch, with the rank and the parameter.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from xla_equiv import Case, Suite, Tolerance, Variant
from xla_equiv.replicas import current_replica
from xla_equiv.treatments import DataParallel, LoopedAccumulation, Resumed, Treatment, XlaFSDP

REPLICAS, STEPS, FEATURES, WIDTH, CLASSES = 4, 4, 24, 32, 6
BROKEN_RANK, BROKEN_STEP = 2, 3
SWAPPED = (0, 2, 1, 3)


class Net(nn.Module):
    """Four linear layers, of which the middle two have the same shape."""

    def __init__(self) -> None:
        super().__init__()
        self.entry = nn.Linear(FEATURES, WIDTH)
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)
        self.exit = nn.Linear(WIDTH, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(torch.tanh(self.entry(inputs))))
        return self.exit(torch.tanh(self.second(hidden)))


def batch(step: int, micro_batch: int, replica: int) -> tuple[Tensor, Tensor]:
    return torch.rand(16, FEATURES) * 2 - 1, torch.randint(0, CLASSES, (16,))


class MixesUpRanks(torch.optim.SGD):
    """On resuming, two ranks take up each other's state."""

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        super().load_state_dict(state_dict)
        for slots in self.state.values():
            slots["momentum_buffer"] = of_another_rank(slots["momentum_buffer"], SWAPPED)


CASE = Case(
    build=Net,
    batch=batch,
    loss=lambda model, inputs, labels: functional.cross_entropy(model(inputs), labels),
    optimizer=lambda parameters: MixesUpRanks(parameters, lr=0.1, momentum=0.9),
    steps=STEPS,
    micro_batches=1,
    replicas=REPLICAS,
    seed=7,
    clip_norm=0.2,
)


@dataclass(frozen=True, kw_only=True)
class Scaled(DataParallel):
    """The reduced gradients are multiplied by a number."""

    by: float

    def reduce(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        super().reduce(model, optimizer)
        for parameter in model.parameters():
            parameter.grad = parameter.grad * self.by


class OneRankMissing(DataParallel):
    """One rank's gradients are not added."""

    def reduce(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        takes_part = torch.tensor([float(current_replica().rank != BROKEN_RANK)]).to("xla")  # data: one graph for all
        for parameter in model.parameters():
            parameter.grad = parameter.grad * takes_part
        super().reduce(model, optimizer)


class OneParameterNotReduced(DataParallel):
    """One parameter is left out of the reduction."""

    def reduce(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        left_out = model.get_parameter("first.weight")
        own, left_out.grad = left_out.grad, None
        super().reduce(model, optimizer)
        left_out.grad = own


class WrongBucketOrder(DataParallel):
    """Two gradients of a bucket are handed back in the other order."""

    def reduce(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        super().reduce(model, optimizer)
        one, other = model.get_parameter("first.weight"), model.get_parameter("second.weight")
        one.grad, other.grad = other.grad, one.grad


class ReducedInBfloat16(DataParallel):
    """The gradients are reduced in bfloat16."""

    def reduce(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        import torch_xla.core.xla_model as xm

        for parameter in model.parameters():
            total = xm.all_reduce("sum", parameter.grad.bfloat16(), scale=1.0 / REPLICAS, pin_layout=False)
            parameter.grad = total.float()


class StaleWeights(DataParallel):
    """One rank does not take one step of the optimizer."""

    def prepare_optimizer(
        self, model: nn.Module, create: Callable[[Sequence[nn.Parameter]], torch.optim.Optimizer], parameters: Sequence[nn.Parameter]
    ) -> torch.optim.Optimizer:
        optimizer = create(parameters)
        whole, taken = optimizer.step, []

        def step() -> None:
            taken.append(None)
            is_stale = len(taken) == BROKEN_STEP and current_replica().rank == BROKEN_RANK
            stale = torch.tensor([is_stale]).to("xla")
            before = [parameter.detach().clone() for parameter in parameters]
            whole()
            with torch.no_grad():
                for old, parameter in zip(before, parameters, strict=True):
                    parameter.copy_(torch.where(stale, old, parameter))

        optimizer.step = step
        return optimizer


def of_another_rank(shard: Tensor, order: Sequence[int]) -> Tensor:
    """Return the shard of rank `order[rank]`; the rank is data, so that all replicas trace one graph."""
    import torch_xla.core.xla_model as xm

    gathered = xm.all_gather(shard, dim=0, pin_layout=False).view(REPLICAS, *shard.shape)
    return gathered.index_select(0, torch.tensor([order[current_replica().rank]]).to("xla"))[0]


class ShardsSwapped(XlaFSDP):
    """Two ranks have each other's shard of one gradient."""

    def reduce(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        names = {self.parameter_name(name): parameter for name, parameter in model.named_parameters()}
        shard = next(parameter for name, parameter in names.items() if "first" in name and "weight" in name)
        shard.grad = of_another_rank(shard.grad, SWAPPED)


class LocalNorm(XlaFSDP):
    """Each rank clips by the norm of its own shards."""

    def clip(self, model: nn.Module, optimizer: torch.optim.Optimizer, max_norm: float) -> Tensor:
        return nn.utils.clip_grad_norm_(list(model.parameters()), max_norm)


LOOP = LoopedAccumulation()


def broken(name: str, *treatments: Treatment) -> Variant:
    return Variant(name, backend="xla:cpu", treatments=[LOOP, *treatments])


SUITE = Suite(
    case=CASE,
    reference=broken("data_parallel", DataParallel()),
    candidates=[
        broken("averaged_twice", Scaled(by=1.0 / REPLICAS)),
        broken("summed", Scaled(by=float(REPLICAS))),
        broken("one_rank_missing", OneRankMissing()),
        broken("one_parameter_not_reduced", OneParameterNotReduced()),
        broken("wrong_bucket_order", WrongBucketOrder()),
        broken("reduced_in_bfloat16", ReducedInBfloat16()),
        broken("stale_weights", StaleWeights()),
        broken("shards_swapped", ShardsSwapped()),
        broken("local_norm", LocalNorm()),
        broken("optimizer_of_another_rank", XlaFSDP(), Resumed(after=2)),
        broken("healthy_fsdp", XlaFSDP()),
    ],
    tolerance={"*": Tolerance(rtol=1e-5, atol=1e-7, why="rounding of gradients of order 0.1 to 0.01 in another order of sums")},
)
