"""How a variant covers the replicas of a case, and on how many devices."""

from typing import ClassVar

import pytest
from made_suites import Loop, case, named, suite, variant

from xla_equiv.values.errors import SuiteError
from xla_equiv.values.plan import Test, expand
from xla_equiv.values.spread import Spread
from xla_equiv.values.treatment import Treatment


class Replicated(Treatment):
    spread: ClassVar[Spread] = Spread.REPLICAS


class Partitioned(Treatment):
    spread: ClassVar[Spread] = Spread.SPMD


def test_a_variant_trains_on_one_device_unless_a_treatment_says_otherwise() -> None:
    assert variant().spread is Spread.ONE


@pytest.mark.parametrize(
    ("treatments", "spread"),
    [
        ([Loop(), Replicated()], Spread.REPLICAS),
        ([Replicated(), Loop()], Spread.REPLICAS),
        ([Replicated(), Loop(), Replicated()], Spread.REPLICAS),
        ([Loop(), Partitioned()], Spread.SPMD),
    ],
)
def test_any_treatment_decides_the_spread(treatments: list[Treatment], spread: Spread) -> None:
    assert variant(treatments=treatments).spread is spread


def test_two_ways_to_spread_replicas_are_refused_with_the_treatments_of_each() -> None:
    with pytest.raises(SuiteError) as caught:
        variant("both", treatments=[Loop(), Replicated(), Partitioned()])
    assert caught.value.headline == "variant 'both' is impossible: its treatments spread replicas in two ways"
    assert caught.value.problems == ("Loop: one device", "Replicated: replicas", "Partitioned: spmd")


def made_tests(replicas: int, *treatments: Treatment) -> list[Test]:
    candidates = [variant("other", treatments=[Loop(), *treatments])]
    return list(expand([named(suite(case=case(replicas=replicas), candidates=candidates))]))


@pytest.mark.parametrize("treatment", [Replicated(), Partitioned()])
def test_a_variant_with_replicas_has_a_device_for_each_and_another_has_one(treatment: Treatment) -> None:
    reference, candidate = made_tests(4, treatment)
    assert (reference.devices, candidate.devices) == (1, 4)


def test_a_single_replica_has_one_device() -> None:
    assert [test.devices for test in made_tests(1, Replicated())] == [1, 1]


@pytest.mark.parametrize("replicas", [0, -1, 1.5, None])
def test_an_impossible_number_of_replicas_is_refused(replicas: object) -> None:
    with pytest.raises(SuiteError) as caught:
        case(replicas=replicas)
    assert caught.value.problems == (f"replicas: {replicas!r} is not a whole number of at least 1",)
