"""Gradient checkpointing: activations are computed again in the backward pass instead of being kept."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from xla_equiv.execute.treatments.evidence import why_merged
from xla_equiv.values.errors import SuiteError, choices_text
from xla_equiv.values.treatment import Trained, Treatment

if TYPE_CHECKING:
    from torch import Tensor, nn

KEEP_BARRIERS: Mapping[str, str] = {"XLA_FLAGS": "--xla_disable_hlo_passes=cse_barrier_expander"}
"""Environment of a variant whose checkpointing is to survive on XLA:CPU. That compiler removes optimization barriers,
and then merges what is computed again with the first computation; without the pass that removes them it does not."""

STATE = "_xla_equiv_checkpointed"


@dataclass(frozen=True, kw_only=True)
class Checkpointing(Treatment):
    """Each of the named submodules keeps its inputs only, and runs again in the backward pass.

    Where no input of a submodule requires a gradient, such as the tokens of a whole model, a scalar that does is
    passed beside them, without which a reentrant checkpoint gives no gradient at all.

    Args:
        modules: names of the submodules, each checkpointed by itself; `*` stands for one part of a name, "" for
            the whole model.
        preserve_rng_state: draw the same random numbers again.
        library: whose function does it.
        use_reentrant: which of torch's two ways; torch_xla has the reentrant one only.

    Source:
        torch_xla.utils.checkpoint.checkpoint, torch.utils.checkpoint.checkpoint.
    """

    modules: tuple[str, ...]
    preserve_rng_state: bool = True
    library: Literal["torch_xla", "torch"] = "torch_xla"
    use_reentrant: bool = True

    def prepare_model(self, model: nn.Module) -> nn.Module:
        for _, module in self._chosen(dict(model.named_modules())):
            vars(module)[STATE] = _Checkpointed(module.forward, self._function())
            module.forward = vars(module)[STATE]
        return model

    def _chosen(self, modules: Mapping[str, nn.Module]) -> Iterator[tuple[str, nn.Module]]:
        """Yield (name, submodule) for each of `modules` that is to be checkpointed.

        Raises:
            SuiteError: a pattern of `modules` names none.
        """
        for pattern in self.modules:
            found = [name for name in modules if _is_named(name, pattern)]
            if not found:
                raise SuiteError(f"Checkpointing: the model has no submodule {pattern!r}", next=choices_text(pattern, list(modules)))
            yield from ((name, modules[name]) for name in found)

    def _function(self) -> Callable[..., Any]:
        """Return (function, *arguments) -> what it returns, checkpointed."""
        options: dict[str, Any] = {"preserve_rng_state": self.preserve_rng_state, "use_reentrant": self.use_reentrant}
        if self.library == "torch":
            from torch.utils.checkpoint import checkpoint as by_torch

            return lambda function, *arguments: by_torch(function, *arguments, **options)
        from torch_xla.utils.checkpoint import checkpoint as by_torch_xla

        return lambda function, *arguments: by_torch_xla(function, *arguments, **options)

    def why_unproven(self, trained: Trained) -> str:
        for name, module in self._chosen(trained.modules):
            state = vars(module).get(STATE)
            if state is None or not state.calls:
                return f"{self.name}: {name or 'the model'} ran without its checkpoint"
            if state.recomputations < state.calls:
                again = f"{state.recomputations} of {state.calls} times"
                return f"{self.name}: {name or 'the model'} was run again in the backward pass {again}"
        return why_merged(self, trained.graph)


class _Checkpointed:
    """The forward method of a checkpointed module.

    Counts how often it was called, and how often it ran when no call was under way: in a backward pass.
    """

    def __init__(self, forward: Callable[..., Any], checkpoint: Callable[..., Any]) -> None:
        self._forward, self._checkpoint = forward, checkpoint
        self.calls = self.recomputations = 0
        self._is_called = False

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        import torch

        self.calls += 1
        tensors = [value for value in (*arguments, *named.values()) if isinstance(value, torch.Tensor)]
        extra = None if any(tensor.requires_grad for tensor in tensors) else _requiring_gradient(tensors)
        self._is_called = True
        try:
            return self._checkpoint(self._run, tuple(named), extra, *arguments, *named.values())
        finally:
            self._is_called = False

    def _run(self, names: tuple[str, ...], extra: Tensor | None, *values: Any) -> Any:
        self.recomputations += not self._is_called
        places = len(values) - len(names)
        return self._forward(*values[:places], **dict(zip(names, values[places:], strict=True)))


def _requiring_gradient(tensors: list[Tensor]) -> Tensor:
    import torch

    return torch.zeros((), device=cast(Any, tensors[0]).device, requires_grad=True)


def _is_named(name: str, pattern: str) -> bool:
    return name.count(".") == pattern.count(".") and fnmatch.fnmatchcase(name, pattern)
