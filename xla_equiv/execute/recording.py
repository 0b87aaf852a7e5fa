"""What a training step leaves in the Trace."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import nn

from xla_equiv.execute.arrays import to_array
from xla_equiv.values.steps import Steps, is_key_selected
from xla_equiv.values.trace import Array


class Recorder:
    """Collects the tensors of one step and hands them out as arrays.

    What the step will still change (gradients before clipping) is copied with `keep` while the graph is
    traced; what it leaves behind (parameters, optimizer state) is read with `read_state` once the
    device has executed it. Neither executes anything by itself.
    """

    def __init__(self, selections: Mapping[str, Steps], *, steps: int, write: Callable[[int, Mapping[str, Array]], None]):
        self._selections = selections
        self._steps = steps
        self._write = write
        self._kept: dict[str, torch.Tensor] = {}

    def wants(self, key: str, step: int) -> bool:
        """Return whether `key` is recorded at `step`."""
        return is_key_selected(key, step, self._selections, steps=self._steps)

    def keep(self, key: str, tensor: torch.Tensor, step: int) -> None:
        """Copy `tensor` as it is at this point of the step."""
        if self.wants(key, step):
            self._kept[key] = tensor.detach().clone()

    @property
    def kept(self) -> Sequence[torch.Tensor]:
        """Return the copies that the step has made so far."""
        return list(self._kept.values())

    def write_step(
        self, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, carried: Sequence[torch.Tensor]
    ) -> None:
        """Save everything wanted of `step`, in the order in which the step computes it."""
        state = {key: tensor for key, tensor in _state(model, optimizer, carried) if self.wants(key, step)}
        found = {**self._kept, **state}
        self._write(step, {key: to_array(found[key]) for key in sorted(found, key=_computed_at)})
        self._kept = {}


COMPUTING_ORDER = ("loss", "carried", "buffer", "grad", "grad_norm", "optim", "param")


def _computed_at(key: str) -> tuple[int, bool]:
    """Return when a step computes `key`; a stable sort keeps the model's order among equals."""
    first, _, rest = key.partition("/")
    return COMPUTING_ORDER.index(first), first == "loss" and not rest


def _state(
    model: nn.Module, optimizer: torch.optim.Optimizer, carried: Sequence[torch.Tensor]
) -> Iterator[tuple[str, torch.Tensor]]:
    names: dict[torch.Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    yield from ((f"carried/{number}", tensor) for number, tensor in enumerate(carried))
    yield from ((f"buffer/{name}", buffer) for name, buffer in model.named_buffers())
    for parameter, slots in optimizer.state.items():
        for slot, value in slots.items():
            if value is not None:
                tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
                yield f"optim/{names[parameter]}/{slot}", tensor
    yield from ((f"param/{name}", parameter) for name, parameter in model.named_parameters())
