"""A trace does not depend on what ran before it in its worker, nor on the order of suites, nor on the workers."""

from dataclasses import replace

import pytest
from project import Project

from xla_equiv.store.traces import read_trace
from xla_equiv.values.trace import RunFacts, Trace

RUNS = {
    "in_order": ("ten", "tiny", "--workers", "1"),
    "alone": ("ten", "-k", "last", "--workers", "1"),
    "other_order": ("tiny", "ten", "--workers", "2"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("isolation"), "ten", "tiny")
    for name, arguments in RUNS.items():
        project.xla_equiv("run", *arguments, "--out", name)
    return project


def traces(project: Project, run: str) -> dict[str, Trace]:
    folder = project.root / run / "traces"
    return {str(path.parent.relative_to(folder)): read_trace(path.parent) for path in folder.glob("*/*/facts.json")}


def content(trace: Trace) -> list[tuple[object, bytes]]:
    return [(entry, array.tobytes()) for entry, array in trace.arrays()]


def without_times(facts: RunFacts) -> RunFacts:
    return replace(facts, compile_s=0.0, run_s=0.0)


@pytest.mark.parametrize("test", ["last_loop[cpu]", "last_loop[xla-cpu]", "last_while[xla-cpu]"])
def test_a_trace_is_the_same_alone_and_as_the_last_of_ten(runs: Project, test: str) -> None:
    alone, last = (traces(runs, run)[f"ten/{test}"] for run in ("alone", "in_order"))
    assert content(alone) == content(last)
    assert without_times(alone.facts) == without_times(last.facts)
    assert ("xla" in test) == bool(alone.facts.graph.modules)


def test_a_trace_is_the_same_as_that_of_the_one_it_cannot_know(runs: Project) -> None:
    """The last variant and the first differ in what they do to the process, not in what they compute."""
    found = traces(runs, "in_order")
    for backend in ("cpu", "xla-cpu"):
        first, last = found[f"ten/draws[{backend}]"], found[f"ten/last_loop[{backend}]"]
        before = [pair for pair in content(first) if pair[0].step == 1]  # type: ignore[attr-defined]
        assert before == [pair for pair in content(last) if pair[0].step == 1]  # type: ignore[attr-defined]


def test_traces_depend_neither_on_the_order_of_suites_nor_on_the_workers(runs: Project) -> None:
    one, other = traces(runs, "in_order"), traces(runs, "other_order")
    assert one.keys() == other.keys()
    assert [test for test in one if content(one[test]) != content(other[test])] == []
    assert [test for test in one if without_times(one[test].facts) != without_times(other[test].facts)] == []


def test_verdicts_depend_neither_on_the_order_of_suites_nor_on_the_workers(runs: Project) -> None:
    def judged(run: str) -> dict[str, str]:
        # as text, because NaN is not equal to itself
        found = runs.verdicts(run).items()
        return {test: repr(replace(verdict, compile_s=0.0, run_s=0.0, log="")) for test, verdict in found}

    assert judged("in_order") == judged("other_order")
    assert len(judged("in_order")) == 24


def test_all_of_a_group_ran_in_one_worker_and_no_candidate_with_a_reference(runs: Project) -> None:
    jobs = {}
    for path in (runs.root / "in_order" / "logs").iterdir():
        jobs[path.name] = [line[4:] for line in path.read_text().splitlines() if line.startswith("--- ")]
    assert sorted(name.partition(".")[0] for name in jobs) == ["cpu", "cpu", "cpu", "xla-cpu"]
    assert sorted(map(len, jobs.values())) == [1, 1, 11, 11]
    assert [found for found in jobs.values() if "loop[cpu]" in found] == [["loop[cpu]"], ["loop[cpu]"]]
