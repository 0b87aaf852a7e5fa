"""Whether the compiled graphs show the loops and the shards that the treatments say they have."""

import pytest
import torch

from xla_equiv.execute.proof import why_unproven
from xla_equiv.execute.treatments.evidence import without_shards
from xla_equiv.treatments import ScanLayers, Trained, WhileAccumulation
from xla_equiv.values.graph import GraphFacts, ModuleFacts


class ScanOfThree(ScanLayers):
    """A scan of three layers, whatever the model."""

    def _scanned(self, trained: Trained) -> int:
        return 3


def module(*loops: int, parameters: dict[str, int] | None = None, products: int = 4) -> ModuleFacts:
    return ModuleFacts("a", {}, loops, traced_dots={"f32": products} if products else {}, parameters=parameters or {})


def reasons(*modules: ModuleFacts, micro_batches: int = 3, scans: bool = True) -> tuple[str, ...]:
    model = torch.nn.Linear(2, 2)
    trained = Trained(
        graph=GraphFacts(modules),
        model=model,
        modules={},
        optimizer=torch.optim.SGD(model.parameters()),
        micro_batches=micro_batches,
    )
    return why_unproven([WhileAccumulation(), *([ScanOfThree()] if scans else [])], trained, None)


def test_a_while_and_a_scan_of_one_length_need_three_loops() -> None:
    assert reasons(module(3, 3, 3)) == ()
    (reason,) = reasons(module(3, 3))
    assert reason == "WhileAccumulation, ScanOfThree: an optimised graph has while loops of 3, 3 iterations; needed are loops of 3, 3, 3"


def test_loops_of_another_length_do_not_count() -> None:
    assert reasons(module(2, 3, 3), micro_batches=2) == ()
    assert reasons(module(3, 3, 3), micro_batches=2)
    assert reasons(module(2, 2, 3), micro_batches=2)


def test_every_module_with_products_has_its_loops() -> None:
    assert reasons(module(3), module(3), module(products=0), scans=False) == ()
    assert reasons(module(3), module(), scans=False)


def test_a_loop_of_unknown_length_stands_for_one_that_another_module_shows() -> None:
    assert reasons(module(3), module(0), scans=False) == ()
    assert reasons(module(0), module(0), scans=False)
    assert reasons(module(3, 3, 3), module(3, 0)) != ()


def test_without_modules_no_loop_is_proved() -> None:
    assert "no while loop; needed are loops of 3" in reasons(scans=False)[0]


def test_a_loop_of_one_iteration_cannot_be_proved() -> None:
    assert "XLA removes a loop of one iteration" in reasons(module(), micro_batches=1, scans=False)[0]


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"f32[4,2]": 2, "bf16[3]": 1}, ""),
        ({"f32[4,2]": 3, "bf16[3]": 1, "f32[8]": 7}, ""),
        ({"f32[4,2]": 1, "bf16[3]": 1}, "an optimised graph takes 1 of 2 parameters f32[4,2] on each device"),
        ({"f32[4,2]": 2, "f32[3]": 1}, "an optimised graph takes 0 of 1 parameters bf16[3] on each device"),
    ],
)
def test_each_module_with_products_takes_every_shard(parameters: dict[str, int], reason: str) -> None:
    shards = [(torch.float32, (4, 2)), (torch.bfloat16, (3,)), (torch.float32, (4, 2))]
    graph = GraphFacts((module(products=0), module(parameters=parameters)))
    assert without_shards(ScanLayers(), graph, shards) == (f"ScanLayers: {reason}" if reason else "")
