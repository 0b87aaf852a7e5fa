"""The batches of a step, drawn on the CPU and moved to the device."""

from collections.abc import Sequence

import torch
from torch import Tensor

from xla_equiv.execute.arrays import to_array
from xla_equiv.execute.isolation import drawing
from xla_equiv.measure.inputs import digest
from xla_equiv.values.case import Case
from xla_equiv.values.ranks import rank_key
from xla_equiv.values.trace import InputDigest

Batch = tuple[Tensor, ...]


def step_batches(
    case: Case, step: int, replicas: Sequence[int], device: torch.device
) -> tuple[list[Batch], dict[str, InputDigest]]:
    """Return the micro-batches of `step` on `device`, and the digest of every tensor that was drawn for them.

    Args:
        case: what draws them.
        step: from 1.
        replicas: whose batches; those of several are joined to one.
        device: where they go.

    Raises:
        ValueError: the batches cannot be joined.
    """
    batches, digests = [], {}
    for micro_batch in range(case.micro_batches):
        drawn = []
        for replica in replicas:
            with drawing(case.seed, "batch", step, micro_batch, replica):
                batch = case.batch(step, micro_batch, replica)
            for number, tensor in enumerate(batch):
                name = f"batch/{step}/{micro_batch}/{number}"
                digests[rank_key(name, replica) if case.replicas > 1 else name] = digest(to_array(tensor))
            drawn.append(batch)
        joined = drawn[0] if len(drawn) == 1 else (case.join or concatenate)(drawn)
        batches.append(tuple(_moved(tensor, device) for tensor in joined))
    return batches, digests


def concatenate(batches: Sequence[Batch]) -> Batch:
    """Return the tensors of `batches` put together along their first dimension.

    Raises:
        ValueError: one is a scalar: only the case knows what the scalar of all replicas is.
    """
    if any(tensor.ndim == 0 for tensor in batches[0]):
        raise ValueError(
            "a batch has a scalar tensor: give the Case a `join` that says what it is for all replicas together"
        )
    if any(len({tensor.shape[0] for tensor in tensors}) > 1 for tensors in zip(*batches, strict=True)):
        raise ValueError("the replicas' batches differ in size: give the Case a `join` whose loss is the mean of theirs")
    return tuple(torch.cat(tensors) for tensors in zip(*batches, strict=True))


def _moved(tensor: Tensor, device: torch.device) -> Tensor:
    """Return `tensor` on `device`, a scalar as the only element of an array.

    torch_xla makes a scalar that is 0 or 1 a constant of the graph, and two equal scalars one input: replicas whose
    scalars differ would compile different modules.
    """
    return tensor.to(device) if tensor.ndim else tensor.reshape(1).to(device).reshape(())
