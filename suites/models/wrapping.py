"""torch_xla's own policies, which decide which submodules FSDP wraps on their own. Naming one does not import torch_xla."""

from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class WrapEach:
    """Wraps every module of one class: `transformer_auto_wrap_policy`."""

    layer: type[nn.Module]

    def __call__(self, module: nn.Module, recurse: bool, unwrapped_params: int) -> bool:
        """Return whether `module` is wrapped, or with `recurse` whether its children are looked at."""
        from torch_xla.distributed.fsdp.wrap import transformer_auto_wrap_policy

        return bool(
            transformer_auto_wrap_policy(module, recurse, unwrapped_params, transformer_layer_cls={self.layer})
        )


@dataclass(frozen=True)
class WrapFrom:
    """Wraps what has at least `parameters` parameters: `size_based_auto_wrap_policy`."""

    parameters: int

    def __call__(self, module: nn.Module, recurse: bool, unwrapped_params: int) -> bool:
        """Return whether `module` is wrapped, or with `recurse` whether its children are looked at."""
        from torch_xla.distributed.fsdp.wrap import size_based_auto_wrap_policy

        return bool(size_based_auto_wrap_policy(module, recurse, unwrapped_params, min_num_params=self.parameters))
