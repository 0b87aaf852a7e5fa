"""Traces, tolerances and arrays made by hand, and hypothesis strategies for them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from xla_equiv.measure.compare import compare_traces
from xla_equiv.values.tolerance import Level, ResolvedTolerance, Tolerance, ToleranceTable
from xla_equiv.values.trace import Array, RunFacts, Trace, memory_trace
from xla_equiv.values.verdict import Comparison, ComparisonKind

FINITE = st.floats(-1e6, 1e6) | st.floats(-1e-3, 1e-3) | st.sampled_from([0.0, -0.0, 1.0, -1.0])
PARTS = st.sampled_from([0.0, 1e-12, 1e-6, 1e-3, 0.5, 2.0]) | st.floats(0, 2)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Array, Array]:
    """Draw two float64 arrays of one shape, some elements of which are equal or near."""
    shape = draw(array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    reference = draw(arrays(np.float64, shape, elements=FINITE))
    kind = draw(arrays(np.int8, shape, elements=st.integers(0, 2)))
    other = draw(arrays(np.float64, shape, elements=FINITE))
    near = reference * (1 + draw(st.sampled_from([1e-15, 1e-9, -1e-4, 1e-2])))
    return reference, np.where(kind == 0, reference, np.where(kind == 1, near, other))


def tolerance(rtol: float = 0.0, atol: float = 0.0, *, equal_nonfinite: bool = False) -> ResolvedTolerance:
    return ResolvedTolerance(rtol, atol, "suite [*]", "suite [*]", "a reason", equal_nonfinite=equal_nonfinite)


def trace(arrays: Mapping[tuple[int, str], Any], *, steps: int = 3, **facts: Any) -> Trace:
    """Return a trace over `arrays`; lists become float32."""
    made = {place: np.asarray(v, dtype=None if isinstance(v, np.ndarray) else np.float32) for place, v in arrays.items()}
    return memory_trace(RunFacts(test="mlp::loop[cpu]", steps=steps, **facts), made)


def compare(
    reference: Mapping[tuple[int, str], Any],
    candidate: Mapping[tuple[int, str], Any],
    *,
    kind: ComparisonKind = ComparisonKind.EQUIVALENCE,
    rtol: float = 1e-3,
    **options: Any,
) -> Comparison:
    """Return the comparison of two traces over arrays, under one rtol for all keys."""
    table = ToleranceTable([(Level.SUITE, {"*": Tolerance(rtol=rtol, atol=0.0, why="a reason")})])
    return compare_traces(trace(reference), trace(candidate), table, kind=kind, against="reference", **options)
