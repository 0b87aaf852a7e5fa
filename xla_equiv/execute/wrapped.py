"""A model under its treatments, seen by the names that it had before they wrapped it."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from xla_equiv.values.shards import Layout, Member
from xla_equiv.values.treatment import Treatment


class WrappedModel:
    """The model that is trained, and what its parameters and buffers are called in a Trace.

    Args:
        model: what the case builds, on its device.
        treatments: prepare it one after the other.
    """

    def __init__(self, model: nn.Module, treatments: Sequence[Treatment]) -> None:
        self._treatments = treatments
        self.layout: Layout = {}
        layout: dict[str, tuple[Member, ...]] = {}
        for treatment in treatments:
            model = treatment.prepare_model(model)
            layout |= treatment.shards(model)
        self.module = model
        self.layout = {
            self._name(name): tuple(Member(self._name(member.name), member.shape) for member in members)
            for name, members in layout.items()
        }

    def _name(self, name: str) -> str:
        for treatment in reversed(self._treatments):
            name = treatment.parameter_name(name)
        return name

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

    def held(self, optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
        """Yield everything that a step changes: what is to be computed of it tells one traced graph from others."""
        for parameter in self.module.parameters():
            yield parameter
            if parameter.grad is not None:
                yield parameter.grad
            yield from (value for value in optimizer.state.get(parameter, {}).values() if isinstance(value, Tensor))
        yield from self.module.buffers()
