"""Computing in a narrower dtype than the case's, and how precisely float32 is multiplied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from xla_equiv.execute.treatments.evidence import why_not_narrow
from xla_equiv.values.treatment import Trained, Treatment

if TYPE_CHECKING:
    from torch import Tensor, nn

NARROWED = "_xla_equiv_autocast"


@dataclass(frozen=True, kw_only=True)
class Autocast(Treatment):
    """The forward pass under torch.autocast: parameters keep their dtype, matrix products have a narrower one.

    Args:
        dtype: of the matrix products.

    Source:
        torch.autocast.
    """

    dtype: str = "bfloat16"

    def prepare_model(self, model: nn.Module) -> nn.Module:
        import torch

        forward, dtype = model.forward, getattr(torch, self.dtype)
        device = next(model.parameters()).device.type

        def under_autocast(*arguments: Any, **named: Any) -> Any:
            with torch.autocast(device, dtype=dtype):
                return forward(*arguments, **named)

        model.forward = under_autocast
        vars(model)[NARROWED] = device
        return model

    def why_unproven(self, trained: Trained) -> str:
        if NARROWED not in vars(trained.modules[""]):
            return f"{self.name}: no matrix product was traced in {self.dtype}: the model does not run under autocast"
        return why_not_narrow(self, trained.graph, self.dtype)


@dataclass(frozen=True, kw_only=True)
class CastTo(Treatment):
    """Parameters, buffers and inputs of floating point in another dtype.

    Args:
        dtype: that they are cast to.
    """

    dtype: str = "bfloat16"

    def prepare_model(self, model: nn.Module) -> nn.Module:
        import torch

        return model.to(getattr(torch, self.dtype))

    def prepare_batch(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        import torch

        dtype = getattr(torch, self.dtype)
        return tuple(tensor.to(dtype) if tensor.is_floating_point() and tensor.ndim else tensor for tensor in batch)

    def why_unproven(self, trained: Trained) -> str:
        floating = {str(p.dtype).removeprefix("torch.") for p in trained.model.parameters() if p.is_floating_point()}
        if floating != {self.dtype}:
            return f"{self.name}: the parameters are of {', '.join(sorted(floating))}, not {self.dtype}"
        return why_not_narrow(self, trained.graph, self.dtype)


@dataclass(frozen=True, kw_only=True)
class MatmulPrecision(Treatment):
    """How many passes a unit of narrower multiplication makes for a product of float32.

    Args:
        precision: as torch_xla names it.

    Source:
        torch_xla.backends.set_mat_mul_precision.
    """

    precision: Literal["default", "high", "highest"]

    @property
    def has_own_process(self) -> bool:
        return True

    def prepare_model(self, model: nn.Module) -> nn.Module:
        import torch_xla.backends

        torch_xla.backends.set_mat_mul_precision(self.precision)
        return model

    def why_unproven(self, trained: Trained) -> str:
        found = trained.graph.total("precisions")
        if set(found) == {self.precision}:
            return ""
        return f"{self.name}: the matrix products have precision {', '.join(sorted(found)) or 'unknown'}, not {self.precision}"
