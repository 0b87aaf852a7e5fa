"""What a training step leaves in the Trace."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set

import torch
from torch import Tensor

from xla_equiv.execute.arrays import to_array
from xla_equiv.execute.wrapped import WrappedModel
from xla_equiv.values.steps import Steps, is_key_selected
from xla_equiv.values.trace import Array, computed_at

Write = Callable[[int, Mapping[str, Array], Set[str]], None]
"""Saves (step, key -> array, keys that hold a shard)."""


class Recorder:
    """Collects the tensors of one step and hands them out as arrays.

    What the step will still change (gradients before clipping) is copied with `keep` while the graph is
    traced; what it leaves behind (parameters, optimizer state) is read with `write_step` once the
    device has executed it. Neither executes anything by itself.

    Args:
        model: whose parameters are recorded.
        selections: key pattern -> steps that are kept.
        steps: how many the run has.
        write: saves what was recorded.
    """

    def __init__(self, model: WrappedModel, selections: Mapping[str, Steps], *, steps: int, write: Write) -> None:
        self._model = model
        self._selections = selections
        self._steps = steps
        self._write = write
        self._kept: dict[str, Tensor] = {}
        self._shards: set[str] = set()

    def wants(self, key: str, step: int) -> bool:
        """Return whether `key` is recorded at `step`."""
        return is_key_selected(key, step, self._selections, steps=self._steps)

    def keep(self, key: str, tensor: Tensor, step: int) -> None:
        """Copy `tensor` as it is at this point of the step."""
        if self.wants(key, step):
            self._kept[key] = tensor.detach().clone()

    def keep_gradients(self, step: int, *, kind: str = "grad") -> None:
        """Copy every gradient as it is at this point of the step, under the first part `kind` of a key.

        Of shards all are copied when their norm is wanted: only all of them together give it.
        """
        gives_norm = kind == "grad" and bool(self._model.sharded) and self.wants("grad_norm", step)
        for name, parameter in self._model.parameters():
            if parameter.grad is not None and (gives_norm or self._wants_state(kind, name, "", step)):
                self._kept[f"{kind}/{name}"] = parameter.grad.detach().clone()
                if name in self._model.sharded:
                    self._shards.add(f"{kind}/{name}")

    @property
    def kept(self) -> Sequence[Tensor]:
        """Return the copies that the step has made so far."""
        return list(self._kept.values())

    def write_initial(self, carried: Sequence[Tensor]) -> None:
        """Save what the model and the carried tensors are before the first step, as step 0."""
        found = [*self._parameters(), *self._buffers(), *_carried(carried)]
        shards = {f"param/{name}" for name in self._model.sharded}
        self._write(0, _arrays(dict(found), shards), shards)

    def write_step(self, step: int, optimizer: torch.optim.Optimizer, carried: Sequence[Tensor]) -> None:
        """Save everything wanted of `step`, in the order in which the step computes it."""
        found = dict(self._kept)
        found |= {key: tensor for key, tensor in (*_carried(carried), *self._buffers()) if self.wants(key, step)}
        for name, slot, tensor, is_shard in self._optimizer_state(optimizer):
            if self._wants_state("optim", name, slot, step):
                found[f"optim/{name}/{slot}"] = tensor
                if is_shard:
                    self._shards.add(f"optim/{name}/{slot}")
        for key, tensor in self._parameters():
            name = key.removeprefix("param/")
            if self._wants_state("param", name, "", step):
                found[key] = tensor
                if name in self._model.sharded:
                    self._shards.add(key)
        self._write(step, _arrays(found, self._shards), self._shards)
        self._kept, self._shards = {}, set()

    def _wants_state(self, kind: str, name: str, slot: str, step: int) -> bool:
        return self._model.is_wanted(kind, name, slot, lambda key: self.wants(key, step))

    def _buffers(self) -> Iterator[tuple[str, Tensor]]:
        yield from ((f"buffer/{name}", buffer) for name, buffer in self._model.buffers())

    def _parameters(self) -> Iterator[tuple[str, Tensor]]:
        yield from ((f"param/{name}", parameter) for name, parameter in self._model.parameters())

    def _optimizer_state(self, optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, str, Tensor, bool]]:
        """Yield (parameter's name, slot, value, whether it is a shard)."""
        parameters: dict[Tensor, str] = {parameter: name for name, parameter in self._model.parameters()}
        for parameter, slots in self._model.optimizer_state(optimizer).items():
            for slot, value in slots.items():
                if value is not None:
                    name = parameters[parameter]
                    tensor = value if isinstance(value, Tensor) else torch.tensor(value)
                    is_shard = name in self._model.layout and (tensor.ndim > 0 or parameter.ndim == 0)
                    yield name, slot, tensor, is_shard


def _arrays(tensors: Mapping[str, Tensor], shards: Set[str]) -> dict[str, Array]:
    """Return the values in the order in which a step computes them; a shard is flat, whatever it was cut along."""
    arrays = {key: to_array(tensors[key]) for key in sorted(tensors, key=computed_at)}
    return {key: array.reshape(-1) if key in shards else array for key, array in arrays.items()}


def _carried(carried: Sequence[Tensor]) -> Iterator[tuple[str, Tensor]]:
    yield from ((f"carried/{number}", tensor) for number, tensor in enumerate(carried))
