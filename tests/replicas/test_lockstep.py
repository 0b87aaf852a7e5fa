"""Replicas in lockstep: they agree, they repeat, and when one fails all end, by themselves, and soon."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts import Ended, Script, run_lockstep, start_lockstep

SOON_S = 10.0
"""Time to end for a process without hurry; what waits for a lost replica takes longer."""

LEAVING = """
def body(rank):
    for round in range(2):
        if rank == 1 and round == 1:
            return
        tell(what="round", rank=rank, value=summed(rank))

Lockstep(3).run(body)
tell(what="went on")
"""


@pytest.fixture(scope="module")
def leaving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Script]:
    """Return a process that XLA ends in 15 s, one replica of which leaves while the others wait for it."""
    script = start_lockstep(LEAVING, tmp_path_factory.mktemp("leaving"), replicas=3)
    yield script
    if script.process.stdout is not None and not script.process.stdout.closed:
        script.process.kill()
        script.process.communicate()


SEVERAL = """
marker = torch_xla._XLAC._xla_step_marker

def run(name, body, replicas=3):
    try:
        Lockstep(replicas).run(body)
    except (ReplicaFailed, RuntimeError) as error:
        tell(
            what=name + " failed", type=type(error).__name__, text=str(error), failed=getattr(error, "rank", None),
            cause=repr(error.__cause__),
        )
    tell(
        what=name + " ended", is_restored=torch_xla._XLAC._xla_step_marker is marker,
        rank=current_replica().rank, ranks=current_replica().ranks,
    )

def agree(rank):
    replica = current_replica()
    tell(what="replica", rank=rank, own=replica.rank, ranks=replica.ranks, device=str(torch_xla.device()))
    total = 0.0
    for round in range(5):
        total = summed(total + rank + 1)
    tell(what="total", rank=rank, value=total, own=current_replica().rank)

run("agree", agree)

def handle(rank):
    try:
        raise LookupError("expected")
    except LookupError:
        value = summed(rank)
        try:
            raise ArithmeticError("inside")
        except ArithmeticError as inner:
            tell(what="handled", rank=rank, value=value, other=summed(rank + 1), context=repr(inner.__context__))

run("handle", handle)

def fail(rank):
    try:
        for round in range(5):
            if rank == 1 and round == 2:
                raise ValueError("boom\\nthe second line")
            summed(rank)
            tell(what="round", rank=rank, value=round)
    finally:
        tell(what="finally", rank=rank)

run("fail", fail)

def fail_and_sync(rank):
    try:
        if rank == 2:
            raise SystemExit(3)
        summed(rank)
    finally:
        try:
            if rank != 2:
                torch_xla.sync()
                tell(what="went on", rank=rank)
        finally:
            tell(what="unwound", rank=rank)

run("fail_and_sync", fail_and_sync)

def fail_at_once(rank):
    tell(what="begun", rank=rank)
    raise KeyError(rank)

run("fail_at_once", fail_at_once)

def leave(rank):
    for round in range(1 + 2 * rank):
        value = torch.full((2,), float(rank)).to("xla") + round
        torch_xla.sync()
        tell(what="left", rank=rank, value=value.tolist()[0])

run("leave", leave)
run("wrong", agree, replicas=2)
run("more", agree, replicas=4)

def agree_again(rank):
    tell(what="again", rank=rank, value=summed(10 ** rank))

run("agree_again", agree_again)
"""


@pytest.fixture(scope="module")
def several(leaving: Script, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Return what a process told that ran three replicas several times, while another waits."""
    return run_lockstep(SEVERAL, tmp_path_factory.mktemp("several"), replicas=3)


def test_a_process_outlives_replicas_that_fail(several: Ended) -> None:
    assert several.code == 0, several.err


def test_every_replica_knows_its_rank_and_has_a_device_of_its_own(several: Ended) -> None:
    assert several.about("replica") == [
        {"rank": rank, "own": rank, "ranks": 3, "device": f"xla:{rank}"} for rank in range(3)
    ]


def test_replicas_agree_on_an_all_reduce(several: Ended) -> None:
    value = 0
    for _ in range(5):
        value = 3 * value + 1 + 2 + 3
    assert several.about("total") == [{"rank": rank, "value": value, "own": rank} for rank in range(3)]


def test_replicas_execute_inside_an_exception_handler_and_each_has_its_own_exceptions(several: Ended) -> None:
    context = "LookupError('expected')"
    assert several.about("handled") == [
        {"rank": rank, "value": 3, "other": 6, "context": context} for rank in range(3)
    ]


def test_an_exception_of_one_replica_is_told_with_its_rank(several: Ended) -> None:
    (failed,) = several.about("fail failed")
    assert (failed["type"], failed["failed"]) == ("ReplicaFailed", 1)
    assert failed["text"] == "rank 1 of 3: ValueError: boom"
    assert failed["cause"] == repr(ValueError("boom\nthe second line"))


def test_the_others_stop_where_they_are_and_clean_up(several: Ended) -> None:
    rounds = [(facts["rank"], facts["value"]) for facts in several.about("round")]
    assert rounds == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
    assert several.about("finally") == [{"rank": rank} for rank in range(3)]


def test_a_replica_that_executes_while_it_cleans_up_stops_there_again(several: Ended) -> None:
    (failed,) = several.about("fail_and_sync failed")
    assert failed["text"] == "rank 2 of 3: SystemExit: 3"
    assert several.about("unwound") == [{"rank": rank} for rank in range(3)]
    assert several.about("went on") == []


def test_of_several_replicas_that_would_fail_the_first_is_named_and_the_others_do_not_begin(several: Ended) -> None:
    (failed,) = several.about("fail_at_once failed")
    assert failed["text"] == "rank 0 of 3: KeyError: 0"
    assert several.about("begun") == [{"rank": 0}]


def test_a_replica_may_leave_early_when_the_others_do_not_wait_for_it(several: Ended) -> None:
    wanted = [(rank, rank + number) for rank in range(3) for number in range(1 + 2 * rank)]
    assert [(facts["rank"], facts["value"]) for facts in several.about("left")] == wanted
    assert several.about("leave failed") == []


@pytest.mark.parametrize(("name", "replicas"), [("wrong", 2), ("more", 4)])
def test_another_number_of_devices_is_refused(several: Ended, name: str, replicas: int) -> None:
    (failed,) = several.about(f"{name} failed")
    assert failed["type"] == "RuntimeError"
    assert failed["text"] == f"{replicas} replicas need as many XLA devices; the process has 3"


@pytest.mark.parametrize(
    "name", ["agree", "handle", "fail", "fail_and_sync", "fail_at_once", "leave", "wrong", "more", "agree_again"]
)
def test_the_process_is_as_before_afterwards(several: Ended, name: str) -> None:
    assert several.about(f"{name} ended") == [{"is_restored": True, "rank": 0, "ranks": 1}]


def test_replicas_agree_after_others_have_failed(several: Ended) -> None:
    assert several.about("again") == [{"rank": rank, "value": 111} for rank in range(3)]


DRAWING = """
import random
import numpy as np

def numbers(rank):
    return [x for _ in range(rank + 1) for x in (random.random(), np.random.rand(), torch.rand(()).item())]

def draw(rank):
    xm.set_rng_state(7 + rank % 2)
    draws = []
    for round in range(3):
        mask = torch.nn.functional.dropout(torch.ones(64, device="xla"), 0.5)
        draws += numbers(rank)
        total = xm.all_reduce("sum", mask * torch.rand(64).to("xla"))
        torch_xla.sync()
        tell(what="device", rank=rank, mask="".join("01"[x > 0] for x in mask.tolist()), total=total.tolist(), run=run)
    tell(what="cpu", rank=rank, draws=draws, run=run)

def draw_alone(rank):
    draws = []
    for round in range(3):
        draws += numbers(rank)
        torch.rand(64)
    return draws

def seed():
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)

for run in range(2):
    seed()
    Lockstep(3).run(draw)
for rank in range(3):
    seed()
    tell(what="alone", rank=rank, draws=draw_alone(rank))
"""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> list[Ended]:
    """Return what two processes told whose replicas draw random numbers, twice each."""
    runs = [run_lockstep(DRAWING, tmp_path_factory.mktemp("drawn"), replicas=3) for _ in range(2)]
    assert [run.code for run in runs] == [0, 0], runs[0].err
    return runs


def test_two_runs_draw_the_same_numbers_in_one_process_and_in_two(drawn: list[Ended]) -> None:
    one, other = drawn
    assert one.facts == other.facts
    for what in ("device", "cpu"):
        first, second = ([{**facts, "run": 0} for facts in one.about(what) if facts["run"] == run] for run in (0, 1))
        assert first == second
        assert first


def test_dropout_on_the_device_follows_the_seed_of_the_replica(drawn: list[Ended]) -> None:
    masks = [[facts["mask"] for facts in drawn[0].about("device") if facts["rank"] == rank] for rank in range(3)]
    assert masks[0] == masks[2]
    assert masks[0] != masks[1]
    assert all(0 < mask.count("1") < 64 for mask in masks[0] + masks[1])


def test_what_a_replica_draws_on_the_cpu_does_not_depend_on_the_others(drawn: list[Ended]) -> None:
    alone = drawn[0].about("alone")
    assert [len(facts["draws"]) for facts in alone] == [9, 18, 27]
    for run in range(2):
        together = [facts for facts in drawn[0].about("cpu") if facts["run"] == run]
        assert together == [{**facts, "run": run} for facts in alone]


COUNTED = """
def count(rank):
    tell(what="count", rank=rank, value=summed(1), other=summed(rank))

Lockstep(int(os.environ["CPU_NUM_DEVICES"])).run(count)
"""


@pytest.mark.parametrize("replicas", [1, 16])
def test_there_may_be_one_replica_or_many(tmp_path: Path, replicas: int) -> None:
    ended = run_lockstep(COUNTED, tmp_path, replicas=replicas)
    total = replicas * (replicas - 1) / 2
    assert ended.code == 0, ended.err
    assert ended.about("count") == [{"rank": rank, "value": replicas, "other": total} for rank in range(replicas)]


FAILING = """
import time

def body(rank):
    for round in range(3):
        if rank == 1 and round == 1:
            tell(what="failing", at=time.monotonic())
            raise ArithmeticError("too much")
        summed(rank)

Lockstep(2).run(body)
"""


def test_a_process_whose_replica_fails_ends_by_itself_and_soon(tmp_path: Path) -> None:
    ended = run_lockstep(FAILING, tmp_path, replicas=2)
    assert ended.code == 1
    assert ended.at - ended.about("failing")[0]["at"] < SOON_S
    assert "ArithmeticError: too much" in ended.err
    assert ended.err.strip().endswith("ReplicaFailed: rank 1 of 2: ArithmeticError: too much")


def test_a_replica_that_leaves_while_others_wait_for_it_ends_the_process(leaving: Script) -> None:
    ended = leaving.end()
    assert ended.code == -signal.SIGABRT
    assert ended.about("round") == [{"rank": rank, "value": 3} for rank in range(3)]
    assert ended.about("went on") == []
    assert "Expected 3 threads to join the rendezvous, but only 2 of them arrived on time" in ended.err
