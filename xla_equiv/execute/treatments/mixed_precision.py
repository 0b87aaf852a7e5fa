"""Computing in a narrower dtype than the case's, and how precisely float32 is multiplied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from xla_equiv.values.graph import GraphFacts
from xla_equiv.values.treatment import Trained, Treatment

if TYPE_CHECKING:
    from torch import Tensor, nn

NARROWED = "_xla_equiv_autocast"
HLO_TYPES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}


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
        return _why_not_narrow(self, trained.graph, self.dtype)


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
        return _why_not_narrow(self, trained.graph, self.dtype)


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


def _why_not_narrow(treatment: Treatment, graph: GraphFacts, dtype: str) -> str:
    """Return why the matrix products were not computed in `dtype`.

    XLA:CPU has no products of bfloat16: it rounds the operands to bfloat16, and multiplies as float32.
    """
    if not graph.modules:
        return ""
    wanted = HLO_TYPES[dtype]
    traced, optimised = graph.total("traced_dots"), graph.total("dots")
    if not traced[wanted]:
        return f"{treatment.name}: no matrix product was traced in {dtype}, {traced.total()} in other types"
    if traced.total() > traced[wanted]:
        return f"{treatment.name}: of {traced.total()} matrix products {traced[wanted]} were traced in {dtype}"
    if optimised[wanted] + graph.total("casts")[wanted] < traced[wanted]:
        return f"{treatment.name}: the optimised graphs have fewer matrix products in {dtype}, or conversions to it, than were traced"
    return ""
