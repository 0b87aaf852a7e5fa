"""A model under its treatments, seen by the names that it had before they wrapped it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from xla_equiv.values.shards import Member
from xla_equiv.values.treatment import Checkpoints, Clips, Treatment


class WrappedModel:
    """The model that is trained, and what its parameters and buffers are called in a Trace.

    Args:
        model: what the case builds, on its device.
        treatments: prepare it one after the other.

    Attributes:
        module: the model as the treatments have prepared it.
        sharded: names of the parameters that hold only this replica's shard.
        layout: name of each tensor that is shared out, a parameter or its optimizer's state -> what is in it.
    """

    def __init__(self, model: nn.Module, treatments: Sequence[Treatment]) -> None:
        self._treatments = treatments
        layout: dict[str, tuple[Member, ...]] = {}
        for treatment in treatments:
            model = treatment.prepare_model(model)
            layout |= treatment.shards(model)
        self.module = model
        self.layout = {
            self._name(name): tuple(Member(self._name(member.name), member.shape) for member in members)
            for name, members in layout.items()
        }
        self.sharded = frozenset(self.layout)
        if any(treatment.holds_shards_of_state for treatment in treatments):
            self.layout |= {name: (Member(name, tuple(parameter.shape)),) for name, parameter in self.parameters()}

    def _name(self, name: str) -> str:
        for treatment in reversed(self._treatments):
            name = treatment.parameter_name(name)
        return name

    @property
    def modules(self) -> dict[str, nn.Module]:
        """Return the submodules by the names that they had before they were wrapped; of several, the innermost."""
        return {self._name(f"{name}.").rstrip("."): module for name, module in self.module.named_modules()}

    def deciding(self, method: str) -> Treatment:
        """Return the last treatment that overrides `method` of Treatment, a plain one where none does."""
        able = [t for t in self._treatments if getattr(type(t), method) is not getattr(Treatment, method)]
        return able[-1] if able else Treatment()

    @property
    def clipping(self) -> Clips | None:
        """Return the treatment that clips gradients, None where torch does."""
        return next((one for one in reversed(self._treatments) if isinstance(one, Clips)), None)

    @property
    def checkpointing(self) -> Checkpoints | None:
        """Return the treatment that saves and loads, None where the state of model and optimizer is saved."""
        return next((one for one in reversed(self._treatments) if isinstance(one, Checkpoints)), None)

    def parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield (name, parameter); a sharded one is this replica's shard, and its name one of the layout's."""
        for name, parameter in self.module.named_parameters():
            yield self._name(name), parameter

    def buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Yield (name, buffer)."""
        for name, buffer in self.module.named_buffers():
            yield self._name(name), buffer

    def is_wanted(self, kind: str, name: str, slot: str, wants: Callable[[str], bool]) -> bool:
        """Return whether `kind/name/slot` is wanted, or that of any parameter that a sharded tensor holds."""
        rest = f"/{slot}" if slot else ""
        members = [member.name for member in self.layout.get(name, ())] or [name]
        return any(wants(f"{kind}/{member}{rest}") for member in members)

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> Mapping[Tensor, Mapping[str, Any]]:
        """Return the optimizer's state: parameter -> slot -> value."""
        return self.deciding("optimizer_state").optimizer_state(optimizer)

    def held(self, optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
        """Yield everything that a step changes: what is to be computed of it tells one traced graph from others."""
        for parameter in self.module.parameters():
            yield parameter
            if parameter.grad is not None:
                yield parameter.grad
        for slots in self.optimizer_state(optimizer).values():
            yield from (value for value in slots.values() if isinstance(value, Tensor))
        yield from self.module.buffers()
