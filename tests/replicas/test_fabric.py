"""Fabric on replicas in lockstep: its collectives, what it is known to get wrong, and trainings that it breaks."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from xla_equiv.execute.replicas import Replica, at_each_turn
from xla_equiv.execute.replicas.lockstep_env import lockstep_env
from xla_equiv.execute.replicas.replica import set_current_replica
from xla_equiv.store.report import Report, read_report
from xla_equiv.treatments import FabricFSDP
from xla_equiv.values.ranks import split_rank
from xla_equiv.values.verdict import Status, Verdict

FOLDER = Path(__file__).parent
Found = dict[str, Any]


@pytest.fixture(scope="module")
def found() -> Found:
    """Return what `fabric_program.py` prints."""
    env = {**os.environ, "PJRT_DEVICE": "CPU", **lockstep_env(2)}
    command = [sys.executable, str(FOLDER / "fabric_program.py")]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


AGREED = {
    "rendezvous": ["of 0", "of 1"],
    "mesh_reduce": 3,
    "broadcast_object": "of 1",
    "broadcast_tensor": [2.0, 5.0],
    "all_reduce_sum": [3.0, 4.0],
    "all_reduce_mean": 0.5,
    "all_gather": [1.0] * 6 + [2.0] * 6,
    "decisions": [False, True, True, False],
    "barrier": None,
}


@pytest.mark.parametrize("check", AGREED)
def test_a_collective_gives_every_rank_the_same(found: Found, check: str) -> None:
    assert [found[rank][check] for rank in "01"] == [AGREED[check]] * 2


def test_each_rank_knows_its_place(found: Found) -> None:
    assert [found[rank]["place"] for rank in "01"] == [[0, 0, 0, 2], [1, 1, 0, 2]]
    assert [found[rank]["device"] for rank in "01"] == ["xla:0", "xla:1"]


def test_the_rank_that_fabric_keeps_for_the_process_is_handed_on(found: Found) -> None:
    assert [found[rank]["rank_zero_after_a_sync"] for rank in "01"] == [0, 1]


def test_a_loss_is_reduced_while_the_graph_of_its_step_is_pending(found: Found) -> None:
    (mean, first), (same, second) = (found[rank]["all_reduce_with_a_step_pending"] for rank in "01")
    assert first != second
    assert mean == same == pytest.approx((first + second) / 2)


def test_each_rank_gets_its_share_of_the_data_on_its_device(found: Found) -> None:
    assert found["0"]["data_loader"] == [["xla:0"], [[0.0, 2.0], [4.0, 6.0]]]
    assert found["1"]["data_loader"] == [["xla:1"], [[1.0, 3.0], [5.0, 7.0]]]


def test_a_number_of_devices_other_than_the_replicas_is_refused(found: Found) -> None:
    text = "ValueError: devices must be 'auto' or 2, one for each replica; got 1"
    assert [found[rank]["devices_that_are_not_all"] for rank in "01"] == [text] * 2


def test_nothing_stays_patched(found: Found) -> None:
    assert found["after"] == {"is_stock": True, "rank_zero": 0}


@pytest.mark.xfail(strict=True, reason="lightning-fabric 2.6.6: XLAFSDPStrategy ignores error_if_nonfinite")
def test_clipping_infinite_gradients_is_an_error(found: Found) -> None:
    assert not isinstance(found["0"]["clip_infinite_gradients"], float)


@pytest.mark.xfail(strict=True, reason="lightning-fabric 2.6.6: the path is broadcast by torch.load, which takes no Path")
def test_a_checkpoint_can_be_saved_to_a_path(found: Found) -> None:
    assert isinstance(found["0"]["save_to_a_path"], list), found["0"]["save_to_a_path"]


@pytest.mark.xfail(strict=True, reason="lightning-fabric 2.6.6: gathers along the first dimension, documented is a new one")
def test_all_gather_adds_a_dimension(found: Found) -> None:
    assert found["0"]["shape_of_all_gather"] == [2, 2, 3]


@pytest.mark.xfail(strict=True, reason="lightning-fabric 2.6.6: torch_xla's gradient of an all-gather only narrows")
def test_the_gradient_of_all_gather_is_added_over_the_ranks(found: Found) -> None:
    assert [found[rank]["gradient_of_all_gather"] for rank in "01"] == [[4.0], [8.0]]


@pytest.mark.xfail(strict=True, reason="lightning-fabric 2.6.6: the result is a new tensor, documented is the argument")
def test_all_reduce_changes_its_argument(found: Found) -> None:
    assert [found[rank]["argument_of_all_reduce"] for rank in "01"] == [[3.0], [3.0]]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return the report of a run of `suites/broken_fabric.py`."""
    folder = tmp_path_factory.mktemp("broken")
    command = [sys.executable, "-m", "xla_equiv", "run", "--workers", "1", "--suites", FOLDER / "suites"]
    subprocess.run(
        [*command, "--out", folder / "run", "--golden", folder / "golden"], stdout=subprocess.DEVNULL, check=False
    )
    return read_report(folder / "run" / "report.json")


def equivalence(report: Report, variant: str) -> tuple[Verdict, Any]:
    verdict = next(one for one in report.verdicts if one.test == f"broken_fabric::{variant}[xla:cpu]")
    return verdict, verdict.comparisons[0]


def test_reducing_with_each_micro_batch_trains_as_fsdp_alone_bit_for_bit(broken: Report) -> None:
    _, comparison = equivalence(broken, "unbroken")
    assert comparison.status is Status.EXACT
    assert comparison.compared > 50


@pytest.mark.parametrize(
    ("variant", "status", "key"),
    [
        ("scaled_backward", Status.OUTSIDE, "grad/0.weight"),
        ("clipped_by_shard", Status.OUTSIDE, "grad_norm"),
        ("optimizer_not_loaded", Status.OUTSIDE, "optim/0.weight/step"),
    ],
)
def test_a_broken_fabric_is_caught(broken: Report, variant: str, status: Status, key: str) -> None:
    verdict, comparison = equivalence(broken, variant)
    assert comparison.status is status, verdict.what
    assert split_rank(comparison.findings[0].key)[0] == key


def test_without_fabric_its_treatment_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    assert FabricFSDP().absence() is None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    absence = FabricFSDP().absence()
    assert absence is not None
    assert absence.remedy == "pip install '.[lightning]'"


WITHOUT_FABRIC = """
import importlib.util

find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "lightning_fabric" else find_spec(name, *rest)
from xla_equiv.faces.cli import main

main()
"""


def test_without_fabric_its_variants_are_unverified(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_FABRIC, "run", "--workers", "1", "--suites", FOLDER / "suites"]
    options = ["-k", "unbroken", "--out", tmp_path / "run", "--golden", tmp_path / "golden"]
    subprocess.run([*command, *options], stdout=subprocess.DEVNULL, check=False)
    (verdict,) = read_report(tmp_path / "run" / "report.json").verdicts
    assert verdict.status is Status.UNVERIFIED
    assert verdict.what == "lightning-fabric is not installed"
    assert verdict.remedy == "pip install '.[lightning]'"


def test_hooks_are_told_of_every_turn_once() -> None:
    turns: list[int] = []

    def hook(replica: Replica) -> None:
        turns.append(replica.rank)

    at_each_turn(hook)
    at_each_turn(hook)
    for rank in (1, 0):
        set_current_replica(Replica(rank, 2))
    set_current_replica(Replica())
    assert turns == [0, 0, 1, 0, 0]


