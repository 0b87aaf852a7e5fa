"""Every operation compiled and executed by itself, as torch does without XLA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xla_equiv.values.treatment import Trained, Treatment

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, kw_only=True)
class EagerMode(Treatment):
    """Each operation is executed when it is called.

    Source:
        torch_xla.experimental.eager_mode.
    """

    @property
    def has_own_process(self) -> bool:
        return True

    def prepare_model(self, model: nn.Module) -> nn.Module:
        import torch_xla.experimental

        torch_xla.experimental.eager_mode(True)
        return model

    def why_unproven(self, trained: Trained) -> str:
        largest = max((sum(module.traced_dots.values()) for module in trained.graph.modules), default=0)
        if largest == 1:
            return ""
        if not largest:
            return f"{self.name}: no compiled graph has a matrix product, by which eager mode is told"
        return f"{self.name}: a compiled graph has {largest} matrix products, where each stands alone in eager mode"
