"""How a training is divided into stages, and what each of them covers."""

from typing import Any

import pytest
from made_suites import Loop, case, named, suite, variant

from xla_equiv.treatments import Resumed, XlaFSDP
from xla_equiv.values.errors import SuiteError
from xla_equiv.values.plan import expand
from xla_equiv.values.spread import Spread
from xla_equiv.values.stages import Form, Stage, stages_of

LOOP = Loop()
FSDP = (LOOP, XlaFSDP())


def stages(*resumed: Resumed, spread: Spread = Spread.REPLICAS, **changes: Any) -> tuple[Stage, ...]:
    treatments = FSDP if spread is Spread.REPLICAS else (LOOP,)
    return stages_of(case(**{"steps": 10, "replicas": 4, **changes}), spread, (*treatments, *resumed))


def test_a_training_that_is_not_divided_has_one_stage() -> None:
    (stage,) = stages()
    assert (stage.number, stage.first, stage.last, stage.takes, stage.leaves) == (1, 1, 10, None, None)
    assert (stage.devices, stage.programs, stage.treatments) == (4, 4, FSDP)


def test_the_second_stage_takes_what_the_first_leaves() -> None:
    one, two = stages(Resumed(after=4))
    assert [(stage.number, stage.first, stage.last) for stage in (one, two)] == [(1, 1, 4), (2, 5, 10)]
    assert (one.takes, one.leaves, two.takes, two.leaves) == (None, Form.SHARDED, Form.SHARDED, None)
    assert one.treatments == two.treatments == (*FSDP, Resumed(after=4))


def test_each_resumption_divides_what_is_left() -> None:
    found = stages(Resumed(after=2), Resumed(after=7, form="consolidated", replicas=2), Resumed(after=9))
    assert [(stage.first, stage.last, stage.replicas) for stage in found] == [(1, 2, 4), (3, 7, 4), (8, 9, 2), (10, 10, 2)]
    assert [stage.takes for stage in found] == [None, Form.SHARDED, Form.CONSOLIDATED, Form.SHARDED]
    assert [stage.leaves for stage in found] == [Form.SHARDED, Form.CONSOLIDATED, Form.SHARDED, None]


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_the_replicas_of_a_stage_share_all_batches(replicas: int) -> None:
    resumed = Resumed(after=5, form="consolidated", replicas=replicas)
    stage = stages(resumed)[1]
    covered = [list(stage.covers(rank, case(replicas=4))) for rank in range(stage.programs)]
    assert [replica for one in covered for replica in one] == [0, 1, 2, 3]
    assert len({len(one) for one in covered}) == 1


def test_a_single_replica_goes_on_without_what_spreads_replicas() -> None:
    resumed = Resumed(after=5, form="consolidated", replicas=1)
    one, two = stages(resumed)
    assert (one.spread, one.devices) == (Spread.REPLICAS, 4)
    assert (two.spread, two.devices, two.programs) == (Spread.ONE, 1, 1)
    assert two.treatments == (LOOP, resumed)


def test_one_program_on_several_devices_is_resumed_by_one() -> None:
    stage = stages(Resumed(after=5), spread=Spread.SPMD)[1]
    assert (stage.devices, stage.programs, list(stage.covers(0, case(replicas=4)))) == (4, 1, [0, 1, 2, 3])


def test_a_test_needs_the_devices_of_its_largest_stage() -> None:
    fewer = variant("fewer", "xla:cpu", treatments=[*FSDP, Resumed(after=1, form="consolidated", replicas=1)])
    test = list(expand([named(suite(case=case(replicas=4), candidates=[fewer]))]))[1]
    assert (test.devices, [stage.devices for stage in test.stages]) == (4, [4, 1])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"after": 1, "form": "shard"}, "form: there is no 'shard'; did you mean 'sharded'?"),
        ({"after": 1, "replicas": 2}, "replicas: shards can be loaded by as many replicas as saved them only"),
    ],
)
def test_an_impossible_resumption_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(SuiteError) as caught:
        Resumed(**options)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("resumed", "problem"),
    [
        ([Resumed(after=0)], "resumed after step 0, which is not in 1 to 9"),
        ([Resumed(after=10)], "resumed after step 10, which is not in 1 to 9"),
        ([Resumed(after=5), Resumed(after=5)], "resumed after step 5, which is not in 6 to 9"),
        ([Resumed(after=5, form="consolidated", replicas=3)], "3 replicas cannot share the batches of 4 equally"),
        ([Resumed(after=5, form="consolidated", replicas=0)], "0 replicas cannot share the batches of 4 equally"),
    ],
)
def test_a_suite_whose_case_cannot_be_divided_so_is_refused(resumed: list[Resumed], problem: str) -> None:
    broken = variant("broken", "xla:cpu", treatments=[*FSDP, *resumed])
    with pytest.raises(SuiteError) as caught:
        suite(case=case(steps=10, replicas=4), candidates=[broken])
    assert f"broken[xla:cpu]: {problem}" in str(caught.value)
