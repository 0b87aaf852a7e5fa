"""torch_xla's fully sharded data parallelism, one program for each replica."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from xla_equiv.execute.treatments.evidence import why_not_narrow
from xla_equiv.execute.treatments.fsdp_layout import fsdp_shards, name_before_fsdp, why_not_sharded
from xla_equiv.values.shards import Member
from xla_equiv.values.spread import Spread
from xla_equiv.values.treatment import Trained, Treatment

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

COUNTED = "_xla_equiv_counted"


@dataclass(frozen=True, kw_only=True)
class XlaFSDP(Treatment):
    """Each replica holds a shard of every parameter, of its gradient and of the optimizer's state.

    Layouts are never pinned: a pinned all-gather is an all-reduce of padding that depends on the rank, so that
    replicas compile different modules.

    Args:
        flatten_parameters: put all parameters of a unit into one tensor before it is sharded.
        reshard_after_forward: free the whole parameters between forward and backward pass.
        wrap_first: names of submodules that become units of their own, innermost first.
        auto_wrap_policy: decides which submodules do, as torch_xla's argument of that name.
        compute_dtype: name of the dtype that parameters are computed in, such as "bfloat16".
        fp32_reduce_scatter: reduce gradients in float32 whatever the compute_dtype.
        shard_size_multiple: a shard is padded to a multiple of this number of elements. torch_xla's own default,
            128, leaves all of a small parameter to rank 0, where nothing that the other ranks do could show.
        checkpoint: recompute each unit's activations in the backward pass (`checkpoint_module`).
        options: further arguments of XlaFullyShardedDataParallel.

    Source:
        torch_xla.distributed.fsdp.XlaFullyShardedDataParallel.
    """

    flatten_parameters: bool = False
    reshard_after_forward: bool = True
    wrap_first: tuple[str, ...] = ()
    auto_wrap_policy: Callable[..., bool] | None = None
    compute_dtype: str = "float32"
    fp32_reduce_scatter: bool = False
    shard_size_multiple: int = 1
    checkpoint: bool = False
    options: Mapping[str, Any] | None = None

    spread: ClassVar[Spread] = Spread.REPLICAS
    unobserved: ClassVar[tuple[str, ...]] = ("local_grad/*",)

    def prepare_model(self, model: nn.Module) -> nn.Module:
        for name in self.wrap_first:
            owner, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(owner), leaf, self._wrap(model.get_submodule(name)))
        return self._wrap(model, auto_wrap_policy=self.auto_wrap_policy, auto_wrapper_callable=self._wrap)

    def _wrap(self, module: nn.Module, **arguments: Any) -> nn.Module:
        import torch
        from torch_xla.distributed.fsdp import XlaFullyShardedDataParallel, checkpoint_module

        arguments = {
            "flatten_parameters": self.flatten_parameters,
            "reshard_after_forward": self.reshard_after_forward,
            "compute_dtype": getattr(torch, self.compute_dtype),
            "fp32_reduce_scatter": self.fp32_reduce_scatter,
            "pin_layout_in_collective_ops": False,
            "_shard_size_multiple": self.shard_size_multiple,
            **(self.options or {}),
            **arguments,
        }
        if self.checkpoint:
            vars(module)[COUNTED] = _Counted(module.forward)
            module.forward = vars(module)[COUNTED]
            module = checkpoint_module(module)
        wrapped: nn.Module = XlaFullyShardedDataParallel(module, **arguments)
        return wrapped

    def clip(self, model: nn.Module, optimizer: Optimizer, max_norm: float) -> Tensor | None:
        norm: Tensor = cast(Any, model).clip_grad_norm_(max_norm)
        return norm

    def parameter_name(self, name: str) -> str:
        return name_before_fsdp(name)

    def shards(self, model: nn.Module) -> Mapping[str, tuple[Member, ...]]:
        return fsdp_shards(model)

    def why_unproven(self, trained: Trained) -> str:
        return (
            why_not_sharded(self, trained)
            or (why_not_narrow(self, trained.graph, self.compute_dtype) if self.compute_dtype != "float32" else "")
            or (self._why_kept(trained) if self.checkpoint else "")
        )

    def _why_kept(self, trained: Trained) -> str:
        """Return why the activations of the units are not computed again."""
        counts = [vars(module)[COUNTED] for module in trained.model.modules() if COUNTED in vars(module)]
        if not any(one.calls for one in counts):
            return f"{self.name}: no unit has an input that requires a gradient; checkpoint_module leaves such a unit as it is"
        for one in counts:
            if one.recomputations < one.calls:
                return f"{self.name}: a unit was run again in the backward pass {one.recomputations} of {one.calls} times"
        merged = trained.graph.merged
        return f"{self.name}: XLA merged {merged} matrix products and loops that were to be computed again" if merged else ""


class _Counted:
    """The forward method of a unit: counts calls with an input that requires a gradient, and those in a backward pass."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        self._forward = forward
        self.calls = self.recomputations = 0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        import torch

        if torch._C._current_graph_task_id() != -1:
            self.recomputations += 1
        else:
            self.calls += any(getattr(one, "requires_grad", False) for one in (*arguments, *named.values()))
        return self._forward(*arguments, **named)
