"""From saved traces and goldens to verdicts."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from xla_equiv import ALL_STEPS, NO_STEPS, Case, ExpectedFailure, Suite, Tolerance, Variant
from xla_equiv.execute.judge import EDITED_GOLDEN, Evidence, judge
from xla_equiv.execute.outcome import Ending, Outcome
from xla_equiv.store.golden import Golden, read_golden
from xla_equiv.store.golden_life import accept, propose
from xla_equiv.treatments import LoopedAccumulation
from xla_equiv.values.equivalence import Equivalence
from xla_equiv.values.graph import GraphFacts, ModuleFacts
from xla_equiv.values.plan import NamedSuite, Test, expand
from xla_equiv.values.tolerance import Level
from xla_equiv.values.trace import Array, InputDigest, RunFacts, Trace, memory_trace
from xla_equiv.values.verdict import ComparisonKind, Expectation, Status, Verdict

DONE = Outcome(ending=Ending.DONE, log="0.txt")


def nothing(*arguments: Any) -> Any:
    return None


def made_tests(**changes: Any) -> tuple[Test, Test]:
    """Return the reference and the one candidate of a suite."""
    case = Case(build=nothing, batch=nothing, loss=nothing, optimizer=nothing, steps=3, micro_batches=4)
    variants = [Variant("loop", backend=backend, treatments=[LoopedAccumulation()]) for backend in ("cpu", "xla:cpu")]
    suite = Suite(case=case, reference=variants[0], candidates=variants[1:], **changes)
    reference, candidate = expand([NamedSuite("mlp", "suites/mlp.py", "everything", "A suite.", suite)])
    return reference, candidate


def arrays() -> dict[tuple[int, str], Array]:
    generator = np.random.default_rng(0)
    keys = ("loss", "grad/a", "param/a")
    return {(step, key): generator.normal(size=(2, 3)).astype(np.float32) for step in (1, 2, 3) for key in keys}


def trace(test: Test, recorded: dict[tuple[int, str], Array] | None = None, **facts: Any) -> Trace:
    parts: dict[str, Any] = {
        "provenance": {"backend": test.variant.backend, "device_class": test.variant.backend.replace(":", "-")},
        "settings": {"seed": "0"},
        "inputs": {f"batch/{step}/0/0": InputDigest("float32", (2,), str(step), (1.0, 1.0, 0.5)) for step in (1, 2, 3)},
    }
    return memory_trace(RunFacts(test=test.id, steps=3, **{**parts, **facts}), recorded or arrays())


def golden(root: Path, test: Test, *, reruns: int = 1) -> tuple[Golden, Path]:
    verdict = Verdict(test=test.id, status=Status.NOGOLDEN)
    one = propose(test, verdict, trace(test), root, reruns=reruns)
    accept(one, why="first", run="r")
    return reread(one.path, test), one.path


def reread(path: Path, test: Test) -> Golden:
    found = read_golden(path, test.id)
    assert found is not None
    return found


def evidence(test: Test, recorded: Trace | None, **parts: Any) -> Evidence:
    return Evidence(test=test, outcome=parts.pop("outcome", DONE), trace=recorded, **parts)


def judged(root: Path, recorded: Trace, overrides: Any = (), edit: float = 0.0) -> Verdict:
    """Judge a run of the reference against its golden, one gradient element of which another tool has scaled."""
    test = made_tests()[0]
    found, path = golden(root, test)
    if edit:
        tensors = load_file(path)
        tensors["3/grad/a"][1, 2] *= 1 + edit
        save_file(tensors, path)
        found = reread(path, test)
    one = evidence(test, recorded, golden=found, golden_path=path)
    return judge(one, one, overrides)


def test_a_run_meets_the_golden_that_it_was_accepted_as(tmp_path: Path) -> None:
    verdict = judged(tmp_path, trace(made_tests()[0]))
    (comparison,) = verdict.comparisons
    assert (verdict.status, comparison.kind, comparison.compared) == (Status.EXACT, ComparisonKind.ANCHOR, 6)


def test_one_element_of_a_golden_edited_by_another_tool_is_named(tmp_path: Path) -> None:
    verdict = judged(tmp_path, trace(made_tests()[0]), edit=1e-3)
    (comparison,) = verdict.comparisons
    (finding,) = comparison.findings
    assert (verdict.status, finding.key, finding.step) == (Status.OUTSIDE, "grad/a", 3)
    assert finding.measurement is not None
    assert (finding.measurement.index, finding.measurement.outside) == ((1, 2), 1)
    assert EDITED_GOLDEN in verdict.notes


def test_the_command_line_can_let_it_pass_and_is_named(tmp_path: Path) -> None:
    overrides = ((Level.COMMAND_LINE, {"*": Tolerance(rtol=1e-2, why="given on the command line")}),)
    verdict = judged(tmp_path, trace(made_tests()[0]), overrides, edit=1e-3)
    group = next(group for group in verdict.comparisons[0].groups if group.group == "grad/*")
    assert (verdict.status, group.status) == (Status.WITHIN, Status.WITHIN)
    assert group.decided_by == ("rtol command line [*]; atol project default [float32]",)


def test_a_changed_case_makes_the_golden_stale(tmp_path: Path) -> None:
    test = made_tests()[0]
    batch = {"batch/1/0/0": InputDigest("float32", (2,), "x", (9.0, 9.0, 0.5))}
    assert judged(tmp_path / "a", trace(test, settings={"seed": "1"})).status is Status.STALE
    assert judged(tmp_path / "b", trace(test, inputs=batch)).status is Status.STALE


def test_a_missing_golden_is_no_agreement() -> None:
    reference = made_tests()[0]
    one = evidence(reference, trace(reference))
    assert judge(one, one, ()).status is Status.NOGOLDEN


def against_reference(
    recorded: Trace, *, repeats: Sequence[Trace] = (), reference: Evidence | None = None, **suite: Any
) -> Verdict:
    """Judge a run of the candidate against one of the reference; neither has a golden."""
    trusted, candidate = made_tests(**suite)
    return judge(evidence(candidate, recorded, repeats=repeats), reference or evidence(trusted, trace(trusted)), ())


def test_a_candidate_is_compared_with_its_reference_first() -> None:
    verdict = against_reference(trace(made_tests()[1]))
    assert [(one.kind, one.status) for one in verdict.comparisons] == [
        (ComparisonKind.EQUIVALENCE, Status.EXACT),
        (ComparisonKind.REGRESSION, Status.NOGOLDEN),
    ]


def test_other_inputs_are_found_before_other_numbers() -> None:
    inputs = {**trace(made_tests()[1]).facts.inputs, "batch/2/0/0": InputDigest("float32", (2,), "x", (1.0, 1.0, 0.5))}
    verdict = against_reference(trace(made_tests()[1], inputs=inputs))
    assert verdict.status is Status.OUTSIDE
    assert verdict.comparisons[0].findings[0].key == "input/batch/2/0/0"


def test_a_treatment_without_proof_is_never_green() -> None:
    verdict = against_reference(trace(made_tests()[1], unproven=("no while in the graph",)))
    assert (verdict.status, verdict.what) == (Status.UNPROVEN, "no while in the graph")


def test_a_repeat_that_differs_in_one_bit_is_unstable() -> None:
    test, other = made_tests()[1], arrays()
    other[2, "grad/a"][0, 1] = np.nextafter(other[2, "grad/a"][0, 1], np.float32(9))
    same = trace(test, arrays())
    assert against_reference(trace(test), repeats=[same]).status is Status.NOGOLDEN
    verdict = against_reference(trace(test), repeats=[same, trace(test, other)])
    assert (verdict.status, verdict.what) == (Status.UNSTABLE, "grad/a at step 2 differs between the first run and repeat 3")
    fewer = {place: array for place, array in arrays().items() if place[0] < 3}
    assert against_reference(trace(test), repeats=[trace(test, fewer)]).status is Status.UNSTABLE


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        (Ending.ABSENT, Status.UNVERIFIED),
        (Ending.RAISED, Status.CRASHED),
        (Ending.DIED, Status.CRASHED),
        (Ending.NO_OUTPUT, Status.CRASHED),
        (Ending.HUNG, Status.TIMEOUT),
    ],
)
def test_a_run_that_did_not_end_has_the_status_of_its_ending(ending: Ending, status: Status) -> None:
    reference, candidate = made_tests()
    ended = Outcome(ending=ending, what="the reason", remedy="the remedy", attempts=2, first_failure="before")
    verdict = judge(evidence(candidate, None, outcome=ended), evidence(reference, trace(reference)), ())
    assert (verdict.status, verdict.what, verdict.remedy) == (status, "the reason", "the remedy")
    assert (verdict.attempts, verdict.first_failure, verdict.comparisons) == (2, "before", ())


def test_a_candidate_without_a_reference_is_not_judged() -> None:
    reference, candidate = made_tests()
    hung = evidence(reference, None, outcome=Outcome(ending=Ending.HUNG, what="stopped after 300 s"))
    verdict = judge(evidence(candidate, trace(candidate)), hung, ())
    assert verdict.status is Status.TIMEOUT
    assert "its reference loop[cpu] ended as TIMEOUT: stopped after 300 s" in verdict.what


FAULT = ExpectedFailure(test="loop[xla:cpu]", status=Status.OUTSIDE, keys="param/*", why="known")


@pytest.mark.parametrize(
    ("bad", "expectation"),
    [
        ({"param/a"}, Expectation.MET),
        (set(), Expectation.NOT_MET),
        ({"param/a", "grad/a"}, Expectation.NONE),
        ({"grad/a"}, Expectation.NONE),
    ],
)
def test_a_known_failure_excuses_its_own_keys_only(bad: set[str], expectation: Expectation) -> None:
    changed = {(step, key): 2 * array if key in bad else array for (step, key), array in arrays().items()}
    verdict = against_reference(trace(made_tests()[1], changed), expected_failures=[FAULT])
    assert verdict.expectation is expectation
    assert verdict.is_green is (expectation is Expectation.MET)


def test_a_known_crash_is_known_by_its_text() -> None:
    fault = dataclasses.replace(FAULT, status=Status.CRASHED, keys="*", raises="TypeError")
    reference, candidate = made_tests(expected_failures=[fault])
    for what, expectation in (("TypeError: no", Expectation.MET), ("ValueError: no", Expectation.NONE)):
        ended = Outcome(ending=Ending.RAISED, what=what)
        verdict = judge(evidence(candidate, None, outcome=ended), evidence(reference, trace(reference)), ())
        assert verdict.expectation is expectation


def test_the_reference_of_a_known_crash_must_not_crash() -> None:
    fault = dataclasses.replace(FAULT, status=Status.CRASHED, keys="*", raises="TypeError")
    reference, candidate = made_tests(expected_failures=[fault])
    crashed = evidence(reference, None, outcome=Outcome(ending=Ending.RAISED, what="TypeError: no"))
    verdict = judge(evidence(candidate, trace(candidate)), crashed, ())
    assert (verdict.status, verdict.expectation, verdict.is_green) == (Status.CRASHED, Expectation.NONE, False)


CANDIDATE = made_tests()[1]
DOUBLED = {place: 2 * array if place[1] == "param/a" else array for place, array in arrays().items()}
WITHOUT_LOSS = {place: array for place, array in arrays().items() if place[1] != "loss"}
OTHER_BATCH = {"batch/2/0/0": InputDigest("float32", (2,), "x", (1.0, 1.0, 0.5))}
MISSING_AND_OUTSIDE = {place: array for place, array in DOUBLED.items() if place[1] != "loss"}


@pytest.mark.parametrize(
    ("status", "recorded", "repeats"),
    [
        (Status.UNPROVEN, trace(CANDIDATE, unproven=("no while in the graph",)), []),
        (Status.UNSTABLE, trace(CANDIDATE), [trace(CANDIDATE, DOUBLED)]),
        (Status.OUTSIDE, trace(CANDIDATE, DOUBLED, unproven=("no while in the graph",)), []),
        (Status.OUTSIDE, trace(CANDIDATE, DOUBLED), [trace(CANDIDATE)]),
        (Status.OUTSIDE, trace(CANDIDATE, inputs={**trace(CANDIDATE).facts.inputs, **OTHER_BATCH}), []),
        (Status.OUTSIDE, trace(CANDIDATE, DOUBLED, inputs={**trace(CANDIDATE).facts.inputs, **OTHER_BATCH}), []),
        (Status.MISSING, trace(CANDIDATE, MISSING_AND_OUTSIDE), []),
        (Status.MISSING, trace(CANDIDATE, {(9, "loss"): np.zeros(1, np.float32)}), []),
    ],
    ids=["unproven", "unstable", "outside unproven", "outside unstable", "inputs", "inputs too", "other status", "no key"],
)
def test_a_known_failure_of_every_key_excuses_nothing_but_its_own_status(
    status: Status, recorded: Trace, repeats: list[Trace]
) -> None:
    fault = dataclasses.replace(FAULT, status=status, keys="*", raises="no dot in the graph" * (status is Status.UNPROVEN))
    verdict = against_reference(recorded, repeats=repeats, expected_failures=[fault])
    assert (verdict.status, verdict.expectation, verdict.is_green) == (status, Expectation.NONE, False)


@pytest.mark.parametrize(("status", "recorded"), [(Status.OUTSIDE, DOUBLED), (Status.MISSING, WITHOUT_LOSS)])
def test_a_known_failure_of_every_key_is_met_by_its_own_status(status: Status, recorded: dict[tuple[int, str], Array]) -> None:
    fault = dataclasses.replace(FAULT, status=status, keys="*")
    verdict = against_reference(trace(CANDIDATE, recorded), expected_failures=[fault])
    assert (verdict.status, verdict.expectation) == (status, Expectation.MET)


def graph(reshapes: int) -> GraphFacts:
    return GraphFacts((ModuleFacts(str(reshapes), {"dot": 2}, (), traced={"dot": 2, "reshape": reshapes}),))


@pytest.mark.parametrize(
    ("declared", "factor", "status"),
    [
        (Equivalence.BITWISE, 1.0, Status.EXACT),
        (Equivalence.BITWISE, 1.0 + 2.0**-22, Status.DRIFT),
        (Equivalence.BITWISE, 2.0, Status.OUTSIDE),
        (Equivalence.REASSOCIATION, 1.0 + 2.0**-22, Status.WITHIN),
    ],
)
def test_what_falls_short_of_its_class_drifts_and_the_graphs_are_told_apart(
    declared: Equivalence, factor: float, status: Status
) -> None:
    values = {place: (array * factor).astype(np.float32) for place, array in arrays().items()}
    reference, candidate = made_tests(equivalence={"*": declared})
    trusted = evidence(reference, trace(reference, graph=graph(1)))
    verdict = judge(evidence(candidate, trace(candidate, values, graph=graph(5))), trusted, ())
    comparison = verdict.equivalence
    assert comparison is not None
    assert (comparison.status, comparison.declared) == (status, declared)
    assert comparison.graph == "candidate has 4 more reshape (traced)"
    assert ("graphs differ: candidate has 4 more reshape (traced)" in comparison.likely) is (status is Status.OUTSIDE)


def test_a_missing_proof_that_is_known_is_met_by_its_own_reason_while_all_values_agree() -> None:
    fault = dataclasses.replace(FAULT, status=Status.UNPROVEN, keys="*", raises="no while")
    for recorded, met in (({}, True), (DOUBLED, False)):
        run = trace(CANDIDATE, recorded, unproven=("no while in the graph",))
        verdict = against_reference(run, expected_failures=[fault])
        assert (verdict.expectation is Expectation.MET, verdict.is_green) == (met, met)


@pytest.mark.parametrize(
    ("raises", "unproven", "met"),
    [("no while", True, True), ("", True, False), ("no dot", True, False), ("no while", False, False)],
    ids=["named", "not named", "another one named", "named and not missing"],
)
def test_a_missing_proof_beside_wrong_values_is_known_when_it_is_named(raises: str, unproven: bool, met: bool) -> None:
    fault = dataclasses.replace(FAULT, keys="*", raises=raises)
    run = trace(CANDIDATE, DOUBLED, unproven=("no while in the graph",) * unproven)
    verdict = against_reference(run, expected_failures=[fault])
    assert (verdict.status, verdict.expectation is Expectation.MET) == (Status.OUTSIDE, met)


def test_the_missing_proof_of_a_reference_is_never_known() -> None:
    test = made_tests()[0]
    unproven = evidence(test, trace(test, unproven=("no while in the graph",)))
    fault = dataclasses.replace(FAULT, status=Status.UNPROVEN, keys="*", raises="no while")
    verdict = against_reference(trace(CANDIDATE), reference=unproven, expected_failures=[fault])
    assert (verdict.status, verdict.expectation, verdict.is_green) == (Status.UNPROVEN, Expectation.NONE, False)


def test_what_is_wrong_with_the_reference_is_wrong_with_what_it_judges() -> None:
    test = made_tests()[0]
    unproven = evidence(test, trace(test, unproven=("no while in the graph",)))
    verdict = against_reference(trace(CANDIDATE), reference=unproven)
    assert (verdict.status, verdict.what) == (Status.UNPROVEN, "its reference: no while in the graph")
    unstable = evidence(test, trace(test), repeats=[trace(test, DOUBLED)])
    verdict = against_reference(trace(CANDIDATE), reference=unstable)
    assert verdict.status is Status.UNSTABLE
    assert verdict.what == "its reference: param/a at step 1 differs between the first run and repeat 2"
    for one in (unproven, unstable):
        fault = dataclasses.replace(FAULT, status=Status.OUTSIDE, keys="*")
        verdict = against_reference(trace(CANDIDATE, DOUBLED), reference=one, expected_failures=[fault])
        assert (verdict.expectation, verdict.is_green) == (Expectation.NONE, False)
        assert judge(one, one, ()).what == against_reference(trace(CANDIDATE), reference=one).what.removeprefix("its reference: ")


WITHOUT_GRADIENTS = {place: array for place, array in arrays().items() if place[1] != "grad/a"}
ZERO_GRADIENTS = {place: 0 * array if place[1] == "grad/a" else array for place, array in arrays().items()}


@pytest.mark.parametrize("recorded", [WITHOUT_GRADIENTS, ZERO_GRADIENTS])
def test_a_training_that_trains_nothing_is_blind_and_no_known_failure(recorded: dict[tuple[int, str], Array]) -> None:
    reference = evidence(made_tests()[0], trace(made_tests()[0], recorded))
    verdict = against_reference(trace(CANDIDATE, recorded), reference=reference)
    assert verdict.status is Status.BLIND
    assert "gradient" in verdict.what
    fault = dataclasses.replace(FAULT, status=Status.BLIND, keys="*")
    verdict = against_reference(trace(CANDIDATE, recorded), reference=reference, expected_failures=[fault])
    assert (verdict.expectation, verdict.is_green) == (Expectation.NONE, False)


def test_a_suite_that_leaves_gradients_out_is_not_blind_for_it() -> None:
    reference = evidence(made_tests()[0], trace(made_tests()[0], WITHOUT_GRADIENTS))
    record = {"*": ALL_STEPS, "grad/*": NO_STEPS}
    verdict = against_reference(trace(CANDIDATE, WITHOUT_GRADIENTS), reference=reference, record=record)
    assert verdict.comparisons[0].status is Status.EXACT
