"""A training that trains nothing agrees with everything: it is found before it is believed."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_traces import trace

from xla_equiv.measure.inputs import moments, sha256
from xla_equiv.measure.vacuity import blind_findings, draw_findings, padding_findings
from xla_equiv.values.shards import HeldBy
from xla_equiv.values.trace import InputDigest, RunFacts, Trace
from xla_equiv.values.verdict import Status

BASE: dict[tuple[int, str], Any] = {
    (step, key): [float(step), 2.0] for step in (1, 2, 3) for key in ("loss", "grad/a", "grad/b", "param/a", "param/b")
}
ZERO = {place: [0.0, -0.0] if place[1].startswith("grad/") else values for place, values in BASE.items()}


def digest(values: list[float]) -> InputDigest:
    array = np.asarray(values, np.float32)
    return InputDigest("float32", array.shape, sha256(array), moments(array))


def initial(**values: list[float]) -> dict[str, InputDigest]:
    """Return the digests of the initial parameters `values`, by their last names."""
    return {f"param/{name}": digest(one) for name, one in values.items()}


def blind(reference: Trace, *, wants_gradients: bool = True) -> list[str]:
    found = blind_findings(reference, wants_gradients=wants_gradients)
    assert all((one.status, one.key, one.step) == (Status.BLIND, "", 0) for one in found)
    return [one.what for one in found]


def test_a_training_that_trains_is_not_blind() -> None:
    assert blind(trace(BASE, inputs=initial(a=[0.0, 0.0], b=[0.0, 0.0]))) == []


def test_gradients_that_are_wanted_and_not_there_are_blind() -> None:
    losses = {place: values for place, values in BASE.items() if place[1] == "loss"}
    assert blind(trace(losses)) == ["the reference has no gradient: nothing could fail"]
    assert blind(trace(losses), wants_gradients=False) == []


def test_gradients_that_are_all_zero_are_blind() -> None:
    assert blind(trace(ZERO)) == ["every gradient of the reference is zero: nothing could fail"]
    assert blind(trace(ZERO), wants_gradients=False) == blind(trace(ZERO))


@pytest.mark.parametrize("value", [1e-30, np.nan, -1.0])
def test_one_gradient_that_is_not_zero_sees(value: float) -> None:
    assert blind(trace({**ZERO, (3, "grad/b"): [0.0, value]})) == []


def test_parameters_of_which_none_has_moved_are_blind() -> None:
    still = {(step, key): [1.0, 2.0] if key.startswith("param/") else values for (step, key), values in BASE.items()}
    unmoved = initial(a=[1.0, 2.0], b=[1.0, 2.0])
    assert blind(trace(still, inputs=unmoved)) == ["no parameter of the reference has moved from its initial value: nothing could fail"]
    assert blind(trace({**still, (2, "param/b"): [1.0, 2.0000002]}, inputs=unmoved)) == []
    assert blind(trace(still, inputs=initial(a=[1.0, 2.0], b=[1.0, 3.0]))) == []


def test_parameters_that_are_not_recorded_are_not_blind() -> None:
    part = {place: values for place, values in BASE.items() if not place[1].startswith("param/")}
    assert blind(trace(part, inputs=initial(a=[1.0, 2.0]))) == []


def test_all_that_is_blind_is_named() -> None:
    still = {place: [0.0, 0.0] for place in BASE}
    assert len(blind(trace(still, inputs=initial(a=[0.0, 0.0], b=[0.0, 0.0])))) == 2


def test_replicas_that_all_train_on_the_same_batches_are_blind() -> None:
    unlike = {"batch/1/0/0@rank0": digest([1.0]), "batch/1/0/0@rank1": digest([2.0])}
    alike = {"batch/1/0/0@rank0": digest([1.0]), "batch/1/0/0@rank1": digest([1.0])}
    labels = {"batch/1/0/1@rank0": digest([3.0]), "batch/1/0/1@rank1": digest([3.0])}
    started = initial(a=[0.0, 0.0], b=[0.0, 0.0])
    assert blind(trace(BASE, inputs=started | unlike | labels)) == []
    assert blind(trace(BASE, inputs=started | {"batch/1/0/0": digest([1.0])})) == []
    (what,) = blind(trace(BASE, inputs=started | alike | labels))
    assert "replicas 0, 1 train on the same batches" in what


def test_a_reference_whose_own_replicas_drift_is_blind() -> None:
    drifting = {**BASE, (2, "param/a@rank1"): [9.0, 2.0]}
    (what,) = blind(trace(drifting, inputs=initial(a=[0.0, 0.0], b=[0.0, 0.0])))
    assert "drifted apart: param/a@rank1 at step 2" in what


def test_a_record_that_no_gradient_reaches_is_blind() -> None:
    (what,) = blind(trace({(1, "loss"): [1.0], (1, "buffer/n"): [2.0]}), wants_gradients=False)
    assert "nothing that is recorded depends on a gradient" in what


def test_a_rank_that_holds_padding_only_is_blind() -> None:
    held = {"w": (HeldBy(0, 0, 3),), "v": (HeldBy(0, 0, 2), HeldBy(2, 2, 4))}
    facts = RunFacts(test="s::v[xla:cpu]", steps=1, ranks=3, placement=held)
    (found,) = padding_findings(facts)
    assert found.status is Status.BLIND
    assert "rank 1 of 3 holds padding only" in found.what
    assert padding_findings(replace(facts, ranks=1)) == []
    assert padding_findings(replace(facts, placement={})) == []


def test_draws_that_are_all_alike_are_blind() -> None:
    losses = {(1, "loss"): [1.0, 1.0, 1.0], (2, "loss"): [0.5, 0.5, 0.5]}
    (found,) = draw_findings(trace(losses))
    assert (found.status, "nothing random is drawn" in found.what) == (Status.BLIND, True)
    assert draw_findings(trace({**losses, (2, "loss"): [0.5, 0.5, 0.25]})) == []


def test_draws_of_parameters_that_have_not_moved_are_blind() -> None:
    begun = initial(a=[1.0, 2.0])
    still = {(1, "loss"): [1.0, 2.0], (1, "grad/a"): [[1.0, 2.0]] * 2, (1, "param/a"): [[1.0, 2.0]] * 2}
    assert "no parameter of the reference has moved" in blind(trace(still, inputs=begun))[0]
    assert blind(trace({**still, (1, "param/a"): [[1.5, 2.0]] * 2}, inputs=begun)) == []
