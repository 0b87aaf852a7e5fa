"""Which tests share a worker process, and what the process is told of its devices."""

from typing import Any, ClassVar

import pytest

from xla_equiv import Case, Suite, Variant
from xla_equiv.execute.backends import find_backend
from xla_equiv.execute.groups import group_of
from xla_equiv.values.plan import NamedSuite, Test, expand
from xla_equiv.values.spread import Spread
from xla_equiv.values.treatment import Treatment


class Loop(Treatment):
    def accumulate(self, model: Any, inputs: Any) -> Any:
        raise AssertionError("this is described, and must not be run")


class Replicated(Treatment):
    spread: ClassVar[Spread] = Spread.REPLICAS


class Partitioned(Treatment):
    spread: ClassVar[Spread] = Spread.SPMD


class Alone(Treatment):
    @property
    def has_own_process(self) -> bool:
        return True


def nothing(*arguments: Any) -> Any:
    return None


def made_tests() -> dict[str, Test]:
    """Return tests by label: two cases of two replicas, one of four, under variants that differ in one thing each."""
    parts: dict[str, Any] = {"build": nothing, "batch": nothing, "loss": nothing, "optimizer": nothing}
    cases = {name: Case(**parts, steps=1, micro_batches=1, replicas=n) for name, n in (("a", 2), ("b", 2), ("four", 4))}

    def variant(name: str, *treatments: Treatment, **changes: Any) -> Variant:
        return Variant(name, **{"backend": "xla:cpu", "treatments": [Loop(), *treatments], **changes})

    candidates = [
        variant("one"),
        variant("replicas", Replicated()),
        variant("same", Replicated(), Treatment()),
        variant("spmd", Partitioned()),
        variant("native", Replicated(), backend="cpu"),
        variant("env", Replicated(), env={"A": "b"}),
        variant("alone", Alone()),
        variant("python", Replicated(), interpreter="/usr/bin/python"),
    ]
    suite = Suite(case=cases, reference=variant("trusted", Replicated()), candidates=candidates)
    return {test.label: test for test in expand([NamedSuite("s", "suites/s.py", "all", "A suite.", suite)])}


def test_variants_that_need_the_same_process_share_it() -> None:
    tests = made_tests()
    groups = {group_of(tests[f"{case}.{name}[xla:cpu]"]) for case in "ab" for name in ("replicas", "same")}
    assert len(groups) == 1


def test_what_needs_another_process_does_not_share_it() -> None:
    tests = made_tests()
    names = ["replicas[xla:cpu]", "one[xla:cpu]", "spmd[xla:cpu]", "native[cpu]", "env[xla:cpu]", "python[xla:cpu]"]
    groups = [group_of(tests[f"a.{name}"]) for name in names]
    groups += [group_of(tests["a.trusted[xla:cpu]"]), group_of(tests["four.replicas[xla:cpu]"])]
    assert len(set(groups)) == len(groups) == 8


def test_what_changes_what_a_process_compiles_has_one_of_its_own() -> None:
    tests = made_tests()
    groups = {group_of(tests[name]) for name in ("a.alone[xla:cpu]", "b.alone[xla:cpu]", "a.one[xla:cpu]")}
    assert len(groups) == 3


def test_on_one_device_the_number_of_replicas_makes_no_difference() -> None:
    tests = made_tests()
    one, other = (group_of(tests[f"{case}.one[xla:cpu]"]) for case in ("a", "four"))
    assert one == other
    assert (one.spread, one.devices) == (Spread.ONE, 1)


@pytest.mark.parametrize(("spread", "devices"), [(Spread.ONE, "1"), (Spread.REPLICAS, "4"), (Spread.SPMD, "4")])
def test_the_process_has_a_virtual_device_for_each_replica(spread: Spread, devices: str) -> None:
    env = find_backend("xla:cpu").process_env(spread, 4)
    assert (env["PJRT_DEVICE"], env["CPU_NUM_DEVICES"]) == ("CPU", devices)
    assert ("PJRT_CPU_ASYNC_CLIENT" in env) is (spread is Spread.REPLICAS)


def test_an_execution_that_waits_for_its_peers_has_a_thread_of_its_own() -> None:
    for replicas in (1, 4, 16, 64):
        env = find_backend("xla:cpu").process_env(Spread.REPLICAS, replicas)
        assert int(env["XLA_THREAD_POOL_SIZE"]) > replicas
