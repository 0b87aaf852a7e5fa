"""How the compiled graphs of two runs differ, in words."""

from xla_equiv.measure.graphs import MOST_NAMED, graph_difference
from xla_equiv.values.graph import GraphFacts, ModuleFacts


def graph(name: str, opcodes: dict[str, int], traced: dict[str, int] | None = None) -> GraphFacts:
    return GraphFacts((ModuleFacts(name, opcodes, (), traced=traced or {}),))


def test_equal_graphs_do_not_differ() -> None:
    assert graph_difference(graph("a", {"dot": 1}), graph("a", {"dot": 1})) == ""


def test_nothing_is_said_where_one_side_has_no_graph() -> None:
    assert graph_difference(GraphFacts(), graph("a", {"dot": 1})) == ""
    assert graph_difference(graph("a", {"dot": 1}), GraphFacts()) == ""


def test_what_was_traced_is_told_from_what_the_optimiser_made_of_it() -> None:
    one, two = graph("a", {"dot": 3, "copy": 1}, {"dot": 3, "reshape": 2}), graph("b", {"dot": 4}, {"dot": 3, "reshape": 6})
    assert graph_difference(one, two) == (
        "candidate has 4 more reshape (traced); candidate has 1 fewer copy, 1 more dot (optimised)"
    )


def test_counts_of_all_modules_are_put_together() -> None:
    one = graph("a", {"dot": 3})
    two = GraphFacts((*graph("b", {"dot": 2}).modules, *graph("c", {"dot": 3}).modules))
    assert graph_difference(one, two) == "candidate has 2 more dot (optimised)"


def test_the_largest_differences_are_named_and_the_others_counted() -> None:
    counts = {f"op-{n}": n for n in range(1, MOST_NAMED + 3)}
    text = graph_difference(graph("a", {"dot": 1}), graph("b", {"dot": 1, **counts}))
    assert text.startswith("candidate has 8 more op-8, 7 more op-7, ")
    assert text.endswith("3 more op-3 and other counts of 2 opcodes (optimised)")


def test_graphs_of_equal_counts_may_differ_still() -> None:
    assert graph_difference(graph("a", {"dot": 1}), graph("b", {"dot": 1})) == (
        "the graphs have the same opcodes, and differ in types, attributes or how they are joined"
    )
