"""What Fabric does on two replicas in lockstep, as JSON on standard output: rank -> check -> value or exception."""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from lightning_fabric import Fabric
from lightning_fabric.utilities.rank_zero import rank_zero_only
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from xla_equiv.execute.replicas.fabric import replica_fabric
from xla_equiv.execute.replicas.lockstep import Lockstep

RANKS = 2
FOLDER = Path(tempfile.mkdtemp(prefix="fabric-"))


def place(fabric: Fabric) -> list[int]:
    return [fabric.global_rank, fabric.local_rank, fabric.node_rank, fabric.world_size]


def device(fabric: Fabric) -> str:
    return str(fabric.device)


def rank_zero_after_a_sync(fabric: Fabric) -> int:
    torch_xla.sync()
    return rank_zero_only.rank


def rendezvous(fabric: Fabric) -> list[str]:
    return [payload.decode() for payload in xm.rendezvous("meeting", f"of {fabric.global_rank}".encode())]


def mesh_reduce(fabric: Fabric) -> int:
    return xm.mesh_reduce("sum", fabric.global_rank + 1, sum)


def broadcast_object(fabric: Fabric) -> str:
    return fabric.broadcast(f"of {fabric.global_rank}", src=1)


def broadcast_tensor(fabric: Fabric) -> list[float]:
    return fabric.broadcast(torch.tensor([fabric.global_rank + 1.0, 5.0]), src=1).tolist()


def all_reduce_sum(fabric: Fabric) -> list[float]:
    return fabric.all_reduce(on_device(fabric, fabric.global_rank + 1.0, 2.0), reduce_op="sum").tolist()


def all_reduce_mean(fabric: Fabric) -> float:
    return fabric.all_reduce(float(fabric.global_rank), reduce_op="mean").item()


def all_reduce_with_a_step_pending(fabric: Fabric) -> list[float]:
    model = fabric.setup_module(network())
    loss = model(torch.full((2, 4), fabric.global_rank + 1.0).to(fabric.device)).square().mean()
    fabric.backward(loss)
    return [fabric.all_reduce(loss.detach(), reduce_op="mean").item(), loss.item()]


def all_gather(fabric: Fabric) -> list[float]:
    return fabric.all_gather(torch.full((2, 3), fabric.global_rank + 1.0)).flatten().tolist()


def shape_of_all_gather(fabric: Fabric) -> list[int]:
    return list(fabric.all_gather(torch.ones(2, 3)).shape)


def gradient_of_all_gather(fabric: Fabric) -> list[float]:
    x = on_device(fabric, fabric.global_rank + 1.0).requires_grad_()
    fabric.all_gather(x, sync_grads=True).square().sum().backward()
    torch_xla.sync()
    assert x.grad is not None
    return x.grad.tolist()


def argument_of_all_reduce(fabric: Fabric) -> list[float]:
    tensor = on_device(fabric, fabric.global_rank + 1.0)
    fabric.all_reduce(tensor, reduce_op="sum")
    return tensor.tolist()


def decisions(fabric: Fabric) -> list[bool]:
    is_first = fabric.global_rank == 0
    reduce = fabric.strategy.reduce_boolean_decision
    return [reduce(is_first, all=True), reduce(is_first, all=False), reduce(True, all=True), reduce(False, all=False)]


def barrier(fabric: Fabric) -> None:
    fabric.barrier("named")
    fabric.barrier()


def data_loader(fabric: Fabric) -> list[Any]:
    loader = fabric.setup_dataloaders(DataLoader(TensorDataset(torch.arange(8.0)), batch_size=2))
    batches = [batch for (batch,) in loader]
    return [sorted({str(batch.device) for batch in batches}), [batch.tolist() for batch in batches]]


def devices_that_are_not_all(fabric: Fabric) -> int:
    return fabric.accelerator.parse_devices(1)


def clip_infinite_gradients(fabric: Fabric) -> float:
    model = fabric.setup_module(network())
    optimizer = fabric.setup_optimizers(torch.optim.SGD(model.parameters(), lr=0.1))
    fabric.backward((model(torch.ones(2, 4).to(fabric.device)) * float("inf")).sum())
    norm = fabric.clip_gradients(model, optimizer, max_norm=1.0, error_if_nonfinite=True)
    torch_xla.sync()
    return norm.item()


def save_to_a_path(fabric: Fabric) -> list[str]:
    model = fabric.setup_module(network())
    fabric.save(FOLDER / "checkpoint", {"model": model})
    return sorted(path.name for path in (FOLDER / "checkpoint").iterdir())


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(4, 4)


def on_device(fabric: Fabric, *values: float) -> Tensor:
    tensor = torch.tensor(values).to(fabric.device)
    torch_xla.sync()
    return tensor


CHECKS: list[Callable[[Fabric], Any]] = [
    place,
    device,
    rank_zero_after_a_sync,
    rendezvous,
    mesh_reduce,
    broadcast_object,
    broadcast_tensor,
    all_reduce_sum,
    all_reduce_mean,
    all_reduce_with_a_step_pending,
    all_gather,
    shape_of_all_gather,
    gradient_of_all_gather,
    argument_of_all_reduce,
    decisions,
    barrier,
    data_loader,
    devices_that_are_not_all,
    clip_infinite_gradients,
    save_to_a_path,
]
found: dict[int, dict[str, Any]] = {}


def replica(rank: int) -> None:
    fabric = replica_fabric()
    found[rank] = {}
    for check in CHECKS:
        try:
            found[rank][check.__name__] = check(fabric)
        except Exception as error:  # noqa: BLE001 (what is raised is a finding)
            found[rank][check.__name__] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        torch_xla.sync()


stock = xm.all_gather, xm.collective_broadcast
Lockstep(RANKS).run(replica)
after = {"is_stock": (xm.all_gather, xm.collective_broadcast) == stock, "rank_zero": rank_zero_only.rank}
shutil.rmtree(FOLDER)
json.dump({**found, "after": after}, sys.stdout)
