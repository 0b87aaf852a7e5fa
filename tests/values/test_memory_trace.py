"""Traces, and the facts of compiled modules."""

import numpy as np

from xla_equiv.values.graph import GraphFacts, ModuleFacts
from xla_equiv.values.trace import Entry, RunFacts, memory_trace
from xla_equiv.values.treatment import Treatment, accumulating


def test_a_trace_over_arrays_yields_them_in_order() -> None:
    arrays = {(1, "loss"): np.float32([2.0]), (1, "grad/a"): np.zeros((2, 3)), (2, "loss"): np.float32([1.0])}
    trace = memory_trace(RunFacts(test="a::b[c]", steps=2), arrays)
    assert trace.entries == (
        Entry(1, "loss", "float32", (1,)),
        Entry(1, "grad/a", "float64", (2, 3)),
        Entry(2, "loss", "float32", (1,)),
    )
    assert trace.keys == ["loss", "grad/a"]
    assert [array is arrays[entry.step, entry.key] for entry, array in trace.arrays()] == [True] * 3


def test_opcodes_are_counted_over_all_modules() -> None:
    graph = GraphFacts((ModuleFacts("a", {"dot": 2, "while": 1}, (4,)), ModuleFacts("b", {"dot": 3}, ())))
    assert [graph.count(opcode) for opcode in ("dot", "while", "sort")] == [5, 1, 0]
    assert graph.fingerprints == ("a", "b")


def test_the_last_treatment_that_accumulates_runs_the_micro_batches() -> None:
    class First(Treatment):
        def accumulate(self, model: object, inputs: object) -> None:  # type: ignore[override]
            """Do nothing."""

    class Second(First):
        pass

    one, two = First(), Second()
    assert accumulating([one, Treatment(), two, Treatment()]) is two
    assert accumulating([Treatment()]) is None
