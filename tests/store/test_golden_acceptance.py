"""Which traces become goldens, with which journal, and which do not."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_goldens import accepted, arrays, made_test, made_trace, made_verdict, proposal

from xla_equiv.measure.compare import group_measurements
from xla_equiv.store.golden import manifest_path, read_golden
from xla_equiv.store.golden_life import accept
from xla_equiv.store.manifest import JournalEntry, read_manifest
from xla_equiv.values.errors import GoldenError, OutputError
from xla_equiv.values.verdict import Comparison, ComparisonKind, Expectation, Measurement, Status

TEST = made_test()
EQUIVALENCE = {"kind": ComparisonKind.EQUIVALENCE, "against": "loop[cpu]"}


def journal(path: Path) -> list[JournalEntry]:
    return read_manifest(manifest_path(path)).journal


def objections(root: Path, status: Status, **options: Any) -> tuple[str, ...]:
    return proposal(root, verdict=made_verdict(TEST, status, **options)).objections


def test_the_first_golden_is_new(tmp_path: Path) -> None:
    (entry,) = journal(accepted(tmp_path, why="a first look"))
    assert (entry.why, entry.run, entry.change, entry.forced) == ("a first look", "20260102T030405Z-1", "new", "")
    assert (entry.torch, entry.torch_xla) == ("2.9.0", "2.9.0")


def test_the_journal_grows_and_keeps_what_stood_in_it(tmp_path: Path) -> None:
    for why in ("one", "two", "three"):
        path = accepted(tmp_path, why=why)
    assert [entry.why for entry in journal(path)] == ["one", "two", "three"]


@pytest.mark.parametrize("why", ['"quoted"', "[[journal]]", "a\nb", "größer ‰ \\ '''", "x" * 5000])
def test_any_reason_can_be_written(tmp_path: Path, why: str) -> None:
    assert journal(accepted(tmp_path, why=why))[0].why == why


def test_accepting_replaces_the_values(tmp_path: Path) -> None:
    accepted(tmp_path)
    changed = arrays(loss=np.float32(0.75))
    path = accepted(tmp_path, TEST, made_trace(TEST, changed))
    golden = read_golden(path, TEST.id)
    assert golden is not None
    assert golden.manifest.losses[-1] == "0.75"


@pytest.mark.parametrize("margin", [0.0, 0.25, np.inf])
def test_the_margin_of_equivalence_is_kept(tmp_path: Path, margin: float) -> None:
    found = Measurement(key="loss", step=1, dtype="float32", shape=(), status=Status.WITHIN, margin=margin)
    verdict = made_verdict(TEST, Status.WITHIN, **EQUIVALENCE)
    (comparison,) = verdict.comparisons
    comparison = replace(comparison, groups=group_measurements([found]))
    one = proposal(tmp_path, verdict=replace(verdict, comparisons=(comparison,)))
    accept(one, why="first", run="r")
    assert read_manifest(manifest_path(one.path)).margin == margin


def test_a_golden_of_a_reference_keeps_no_margin(tmp_path: Path) -> None:
    assert read_manifest(manifest_path(accepted(tmp_path))).margin is None


def test_the_losses_in_the_manifest_are_those_that_the_golden_keeps(tmp_path: Path) -> None:
    test = made_test(golden={"*": (), "loss": (1, 3)})
    path = accepted(tmp_path, test)
    golden = read_golden(path, test.id)
    assert golden is not None
    assert [(entry.step, entry.key) for entry in golden.trace.entries] == [(1, "loss"), (3, "loss")]
    assert len(golden.manifest.losses) == 2


@pytest.mark.parametrize(
    ("status", "margin", "change"),
    [
        (Status.OUTSIDE, 2.5, "250 % of the tolerance"),
        (Status.WITHIN, 0.125, "12.5 % of the tolerance"),
        (Status.NONFINITE, np.inf, "inf % of the tolerance"),
        (Status.STALE, 0.0, "the case has changed"),
        (Status.NOGOLDEN, 0.0, "unknown: the run was not compared with it"),
    ],
)
def test_the_journal_says_by_how_much_the_values_left_the_golden_before(
    tmp_path: Path, status: Status, margin: float, change: str
) -> None:
    accepted(tmp_path)

    def compared(margin: float, **options: Any) -> Comparison:
        found = Measurement(key="loss", step=1, dtype="float32", shape=(), status=Status.WITHIN, margin=margin)
        (comparison,) = made_verdict(TEST, **options).comparisons
        return replace(comparison, groups=group_measurements([found]))

    own = compared(margin, status=status)
    smaller = compared(margin / 2, status=Status.WITHIN) if status not in (Status.STALE, Status.NOGOLDEN) else own
    others = (compared(99.0, status=Status.WITHIN, **EQUIVALENCE), smaller, own)
    one = proposal(tmp_path, verdict=replace(made_verdict(TEST), comparisons=others))
    accept(one, why="second", run="r")
    assert [entry.change for entry in journal(one.path)] == ["new", change]


def test_proposing_writes_nothing(tmp_path: Path) -> None:
    proposal(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("status", [Status.UNPROVEN, Status.UNSTABLE, Status.CRASHED, Status.TIMEOUT])
def test_a_run_that_proves_nothing_is_objected_to(tmp_path: Path, status: Status) -> None:
    assert f"the run was {status.value}: the reason" in objections(tmp_path, status, what="the reason")


@pytest.mark.parametrize("status", [one for one in Status if not one.is_green])
def test_a_failed_equivalence_is_objected_to(tmp_path: Path, status: Status) -> None:
    assert f"equivalence against loop[cpu] was {status.value}" in objections(tmp_path, status, **EQUIVALENCE)


def test_a_reference_whose_name_starts_like_a_golden_is_no_golden(tmp_path: Path) -> None:
    options = {"kind": ComparisonKind.EQUIVALENCE, "against": "golden_loop[cpu]"}
    assert objections(tmp_path, Status.OUTSIDE, **options) == ("equivalence against golden_loop[cpu] was OUTSIDE",)


def test_values_that_are_not_the_published_ones_are_objected_to(tmp_path: Path) -> None:
    options = {"kind": ComparisonKind.ANCHOR, "against": "published: a paper"}
    assert objections(tmp_path, Status.OUTSIDE, **options) == ("anchor against published: a paper was OUTSIDE",)


@pytest.mark.parametrize("kind", [ComparisonKind.REGRESSION, ComparisonKind.ANCHOR])
@pytest.mark.parametrize("status", [Status.OUTSIDE, Status.MISSING, Status.STALE, Status.NOGOLDEN, Status.WITHIN])
def test_leaving_its_own_golden_is_what_accepting_is_for(tmp_path: Path, status: Status, kind: ComparisonKind) -> None:
    assert objections(tmp_path, status, kind=kind) == ()


@pytest.mark.parametrize("expectation", [Expectation.MET, Expectation.NOT_MET])
def test_a_known_failure_is_objected_to(tmp_path: Path, expectation: Expectation) -> None:
    assert objections(tmp_path, Status.OUTSIDE, expectation=expectation) == ("it is a known failure (known)",)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_objected_to(tmp_path: Path, value: float) -> None:
    recorded = arrays()
    recorded[3, "grad/z"][1, 2] = value
    recorded[2, "grad/z"][0, 0] = value  # of step 2 a golden keeps no gradients
    one = proposal(tmp_path, TEST, made_trace(TEST, recorded))
    assert one.objections == ("grad/z at step 3 is not finite",)
    everywhere = {place: np.full_like(array, value) for place, array in arrays().items()}
    assert len(proposal(tmp_path, TEST, made_trace(TEST, everywhere)).objections) == 3


def test_objections_need_a_reason_of_their_own(tmp_path: Path) -> None:
    one = proposal(tmp_path, verdict=made_verdict(TEST, Status.OUTSIDE, **EQUIVALENCE))
    with pytest.raises(GoldenError, match="is not accepted") as caught:
        accept(one, why="it looks fine", run="r")
    assert caught.value.problems == one.objections
    assert list(tmp_path.iterdir()) == []
    accept(one, why="it looks fine", run="r", forced="the reference is wrong")
    assert journal(one.path)[0].forced == "the reference is wrong"
    accepted(tmp_path)
    assert [entry.forced for entry in journal(one.path)] == ["the reference is wrong", ""]


@pytest.mark.parametrize("part", ["tensors", "losses"])
def test_the_journal_of_a_damaged_golden_is_kept(tmp_path: Path, part: str) -> None:
    path = accepted(tmp_path, why="one")
    if part == "tensors":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        manifest_path(path).write_text(manifest_path(path).read_text().replace('"0.5"', '"0.6"'))
    accepted(tmp_path, why="two")
    assert [entry.why for entry in journal(path)] == ["one", "two"]


def test_the_journal_of_another_test_is_not_taken_over(tmp_path: Path) -> None:
    path = accepted(tmp_path, why="one")
    manifest_path(path).write_text(manifest_path(path).read_text().replace(TEST.id, "other::while[xla:cpu]"))
    accepted(tmp_path, why="two")
    assert [(entry.why, entry.change) for entry in journal(path)] == [("two", "new")]


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_full_disk_leaves_the_golden_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    path = accepted(tmp_path)
    before = {one.name: one.read_bytes() for one in path.parent.iterdir()}

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OutputError):
            accepted(tmp_path, TEST, made_trace(TEST, arrays(loss=np.float32(0.75))))
    assert {one.name: one.read_bytes() for one in path.parent.iterdir()} == before


def test_a_golden_of_which_only_one_part_was_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, replace, calls = accepted(tmp_path), os.replace, []

    def fail_the_second(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        replace(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail_the_second)
        with pytest.raises(OutputError):
            accepted(tmp_path, TEST, made_trace(TEST, arrays(loss=np.float32(0.75))))
    with pytest.raises(GoldenError, match="is damaged") as caught:
        read_golden(path, TEST.id)
    assert caught.value.next.startswith("git checkout")
