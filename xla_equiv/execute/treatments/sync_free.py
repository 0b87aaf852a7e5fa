"""Optimizers that decide on the device whether a step is skipped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xla_equiv.values.treatment import Trained, Treatment

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer


@dataclass(frozen=True, kw_only=True)
class SyncFreeOptimizer(Treatment):
    """torch_xla's sync-free optimizer of the same name and options as the one that the case makes.

    Source:
        torch_xla.amp.syncfree.
    """

    def prepare_optimizer(
        self,
        model: nn.Module,
        create: Callable[[Sequence[nn.Parameter]], Optimizer],
        parameters: Sequence[nn.Parameter],
    ) -> Optimizer:
        import inspect

        from torch_xla.amp import syncfree

        made = create(parameters)
        kind = getattr(syncfree, type(made).__name__, None)
        if kind is None:
            raise TypeError(f"{self.name}: torch_xla has no sync-free {type(made).__name__}; it has SGD, Adam, AdamW")
        known = inspect.signature(kind).parameters
        options = {name: value for name, value in made.defaults.items() if name in known}
        optimizer: Optimizer = kind(parameters, **options)
        return optimizer

    def why_unproven(self, trained: Trained) -> str:
        if type(trained.optimizer).__module__.startswith("torch_xla.amp.syncfree"):
            return ""
        return f"{self.name}: the optimizer is {type(trained.optimizer).__module__}.{type(trained.optimizer).__name__}"
