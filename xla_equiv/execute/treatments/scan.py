"""Alike layers as one loop of the compiled graph, instead of one copy of the layer after the other."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xla_equiv.values.treatment import Trained, Treatment

if TYPE_CHECKING:
    from torch import Tensor, nn

SCANNED = "_xla_equiv_scanned"


@dataclass(frozen=True, kw_only=True)
class ScanLayers(Treatment):
    """The layers of one container run in a `while`, forward and backward.

    A layer may take more than its features, such as a mask: every layer then gets the same. A scan carries
    floating point only, so that a tensor of another dtype is carried as float32.

    Args:
        layers: name of the `ModuleList` or `Sequential` whose members are alike.
        is_pure: let torch_xla trace a layer once, as one without side effects. It finds the layer again by its
            address: such a variant has a process of its own.
        recompute: let the partitioner of AOTAutograd decide which activations are computed again in the
            backward pass, instead of keeping all.

    Source:
        torch_xla.experimental.scan_layers.scan_layers, functorch.compile.min_cut_rematerialization_partition.
    """

    layers: str = "layers"
    is_pure: bool = False
    recompute: bool = False

    @property
    def has_own_process(self) -> bool:
        return self.is_pure

    def prepare_model(self, model: nn.Module) -> nn.Module:
        from torch import nn

        owner, _, leaf = self.layers.rpartition(".")
        container = model.get_submodule(self.layers)
        if not isinstance(container, nn.ModuleList | nn.Sequential):
            raise TypeError(f"{self.name}: {self.layers!r} is a {type(container).__name__}, not a ModuleList or Sequential")
        scanned = _scanned(list(container), is_pure=self.is_pure, recompute=self.recompute)
        joined = nn.ModuleList([scanned]) if isinstance(container, nn.ModuleList) else nn.Sequential(scanned)
        setattr(model.get_submodule(owner), leaf, joined)
        return model

    def parameter_name(self, name: str) -> str:
        return re.sub(rf"\b0\.{SCANNED}\.(\d+)\.layer\.", r"\1.", name)

    def why_unproven(self, trained: Trained) -> str:
        if self._scanned(trained):
            return ""
        return f"{self.name}: the members of {self.layers!r} are not scanned"

    def loops(self, trained: Trained) -> tuple[int, ...]:
        """Return the number of layers twice: one loop forward and one backward."""
        layers = self._scanned(trained)
        return (layers, layers) if layers else ()

    def _scanned(self, trained: Trained) -> int:
        """Return how many layers run in the scan."""
        modules = dict(trained.model.get_submodule(self.layers).named_modules())
        scanned = modules.get(f"0.{SCANNED}")
        return len(list(scanned.children())) if scanned else 0


def _scanned(layers: list[nn.Module], *, is_pure: bool, recompute: bool) -> nn.Module:
    """Return a module that runs `layers` one after the other, in a scan."""
    import torch
    from functorch.compile import (  # type: ignore[import-untyped]
        default_partition,
        min_cut_rematerialization_partition,
    )
    from torch import nn
    from torch_xla.experimental.scan_layers import scan_layers

    partition = min_cut_rematerialization_partition if recompute else default_partition

    class Carrying(nn.Module):
        """A layer that takes and returns all that it is given: the features, and the rest as it was."""

        def __init__(self, layer: nn.Module) -> None:
            super().__init__()
            self.layer = layer
            self.dtypes: tuple[torch.dtype, ...] = ()

        def forward(self, features: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
            given = (tensor.to(dtype) for tensor, dtype in zip(rest, self.dtypes, strict=True))
            return (self.layer(features, *given), *rest)

    class Scanned(nn.Module):
        def forward(self, features: Tensor, *rest: Tensor) -> Tensor:
            carrying = self.get_submodule(SCANNED)
            for one in carrying.children():
                one.dtypes = tuple(tensor.dtype for tensor in rest)  # type: ignore[assignment]
            carried = (features, *(t if t.is_floating_point() else t.to(torch.float32) for t in rest))
            result: tuple[Tensor, ...] = scan_layers(list(carrying.children()), carried, partition, is_pure)
            return result[0]

    scanned = Scanned()
    scanned.add_module(SCANNED, nn.ModuleList(Carrying(layer) for layer in layers))
    return scanned
