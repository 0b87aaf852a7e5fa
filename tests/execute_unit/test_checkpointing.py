"""Checkpointing by torch on native PyTorch, and what its proof makes of compiled graphs."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from xla_equiv.treatments import Checkpointing, Trained
from xla_equiv.values.errors import SuiteError
from xla_equiv.values.graph import BARRIER, GraphFacts, ModuleFacts

LAYERS = Checkpointing(modules=("layers.*",), library="torch")
AGAIN = {"dot": 2}
MODULE = ModuleFacts(
    "a",
    {"dot": 5, BARRIER: 1},
    (),
    dots={"f32": 5},
    traced={"dot": 5, BARRIER: 1},
    traced_dots={"f32": 5},
    recomputed=AGAIN,
)


class Scaled(nn.Module):
    """A linear layer that also takes a named factor."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, *, factor: float = 1.0) -> torch.Tensor:
        return torch.tanh(self.fc(x)) * factor


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Scaled() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, factor=2.0)
        return x


def net() -> nn.Module:
    torch.manual_seed(0)
    return Net()


def trained(model: nn.Module, graph: GraphFacts | None = None) -> Trained:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    modules = dict(model.named_modules())
    return Trained(graph=graph or GraphFacts(), model=model, modules=modules, optimizer=optimizer, micro_batches=1)


def gradients(model: nn.Module) -> list[torch.Tensor]:
    model(torch.ones(4, 3)).square().mean().backward()
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def proof(*modules: ModuleFacts) -> str:
    model = LAYERS.prepare_model(net())
    gradients(model)
    return LAYERS.why_unproven(trained(model, GraphFacts(modules)))


@pytest.mark.parametrize("modules", [("layers.*",), ("",), ("layers.0", "layers.1")])
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_gradients_are_those_without_checkpointing(modules: tuple[str, ...], use_reentrant: bool) -> None:
    treatment = replace(LAYERS, modules=modules, use_reentrant=use_reentrant)
    model = treatment.prepare_model(net())
    with_, without = gradients(model), gradients(net())
    assert len(with_) == len(without) == 4
    assert all(torch.equal(one, other) for one, other in zip(with_, without, strict=True))
    assert treatment.why_unproven(trained(model)) == ""


def test_a_module_that_is_not_there_is_an_error_that_lists_those_that_are() -> None:
    with pytest.raises(SuiteError, match=r"no submodule 'layer\.\*'") as raised:
        replace(LAYERS, modules=("layer.*",)).prepare_model(net())
    assert "layers.0" in str(raised.value)


def test_a_star_stands_for_one_part_of_a_name() -> None:
    model = LAYERS.prepare_model(net())
    names = [name for name, module in model.named_modules() if "forward" in vars(module)]
    assert names == ["layers.0", "layers.1"]


def test_a_module_that_never_ran_is_unproven() -> None:
    assert "layers.0 ran without its checkpoint" in LAYERS.why_unproven(trained(LAYERS.prepare_model(net())))


def test_a_module_without_a_backward_pass_is_unproven() -> None:
    model = LAYERS.prepare_model(net())
    model(torch.ones(4, 3))
    assert "layers.0 was run again in the backward pass 0 of 1 times" in LAYERS.why_unproven(trained(model))


def test_a_module_that_runs_twice_before_the_backward_pass_is_unproven() -> None:
    class Twice(Checkpointing):
        def _function(self) -> Any:
            return lambda function, *arguments: (function(*arguments), function(*arguments))[1]

    treatment = Twice(modules=("layers.*",))
    model = treatment.prepare_model(net())
    gradients(model)
    assert "layers.0 was run again in the backward pass 0 of 1 times" in treatment.why_unproven(trained(model))


def test_a_module_that_is_recomputed_once_of_two_times_is_unproven() -> None:
    model = LAYERS.prepare_model(net())
    gradients(model)
    model(torch.ones(4, 3))
    assert "1 of 2 times" in LAYERS.why_unproven(trained(model))


GONE = "XLA removed 1 of 1 optimization barriers"
LOST = "matrix products and loops that were to be computed again"
HINT = "; on XLA:CPU, env=KEEP_BARRIERS keeps them"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""),
        ({"opcodes": {"dot": 3}, "merged": 2}, f"{GONE}, and merged 2 of 2 {LOST}{HINT}"),
        ({"opcodes": {"dot": 4}, "merged": 1}, f"{GONE}, and merged 1 of 2 {LOST}{HINT}"),
        (
            {"opcodes": {"dot": 4, BARRIER: 1}, "merged": 1},
            f"XLA removed 0 of 1 optimization barriers, and merged 1 of 2 {LOST}",
        ),
        ({"opcodes": {"dot": 5}}, ""),
        ({"traced": {"dot": 5}}, "the traced graphs compute nothing again behind an optimization barrier"),
        ({"recomputed": {}}, "the traced graphs compute nothing again behind an optimization barrier"),
        ({"recomputed": {"tanh": 1}}, ""),
        ({"recomputed": {"tanh": 1}, "opcodes": {"dot": 5}}, f"{GONE}{HINT}"),
    ],
    ids=[
        "kept",
        "merged",
        "one left",
        "one left behind a barrier",
        "no barrier left",
        "no barrier traced",
        "nothing again",
        "no product",
        "no product and no barrier",
    ],
)
def test_what_the_optimiser_left_is_the_proof(changes: dict[str, Any], reason: str) -> None:
    found = proof(replace(MODULE, **changes))
    assert found == (f"Checkpointing: {reason}" if reason else "")


def test_a_forward_pass_in_a_module_of_its_own_leaves_nothing_to_merge() -> None:
    forward = ModuleFacts("f", {"dot": 2}, (), dots={"f32": 2}, traced={"dot": 2}, traced_dots={"f32": 2})
    backward = replace(MODULE, opcodes={"dot": 5}, recomputed={})
    assert proof(forward, backward) == ""
    assert f"merged 1 {LOST}" in proof(forward, replace(backward, merged=1))
