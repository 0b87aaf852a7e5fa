"""The forward pass traced once and taken for pure, instead of traced anew at every step."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xla_equiv.values.absence import Absence
from xla_equiv.values.treatment import Trained, Treatment

if TYPE_CHECKING:
    from torch import nn

NEEDED = ("jax", "torchax")
WRAPPER = "_module."


@dataclass(frozen=True, kw_only=True)
class AssumePure(Treatment):
    """The model is traced by JAX at its first call, forward and backward; later calls use what was traced.

    Source:
        torch_xla.experimental.assume_pure.PureModule.
    """

    @property
    def has_own_process(self) -> bool:
        return True

    def absence(self) -> Absence | None:
        missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            return Absence(f"{' and '.join(missing)} not installed", "pip install '.[pure]'")
        return None

    def prepare_model(self, model: nn.Module) -> nn.Module:
        from torch_xla.experimental.assume_pure import PureModule

        pure: nn.Module = PureModule(model)
        return pure

    def parameter_name(self, name: str) -> str:
        return name.removeprefix(WRAPPER)

    def why_unproven(self, trained: Trained) -> str:
        calls = [module.traced.get("call", 0) for module in trained.graph.modules if module.traced_dots]
        if min(calls, default=0) >= 2:
            return ""
        return f"{self.name}: a traced graph has {min(calls, default=0)} calls of a computation, not one forward and one backward"
