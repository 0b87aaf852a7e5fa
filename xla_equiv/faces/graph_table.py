"""What was compiled for each test: the facts that prove its treatments, or show that the compiler undid them."""

from collections.abc import Mapping, Sequence

from xla_equiv.values.graph import GraphFacts
from xla_equiv.values.verdict import Verdict

HEADERS = (
    "suite",
    "variant[backend]",
    "modules",
    "matrix products traced",
    "optimised",
    "traced again",
    "merged",
    "barriers traced",
    "kept",
    "loops",
    "collectives",
    "largest module",
)
KIB = 1024


def graph_rows(verdicts: Sequence[Verdict]) -> list[tuple[str, ...]]:
    """Return one row, under HEADERS, for each of `verdicts` whose steps were compiled."""
    return [_row(verdict) for verdict in verdicts if verdict.graph.modules]


def proof(graph: GraphFacts) -> str:
    """Return in one line what the modules of `graph` show of the treatments."""
    traced, kept = graph.total("traced_dots"), graph.total("dots")
    parts = [f"{_counts(traced)} matrix products" + (f", {_counts(kept)} when optimised" if traced != kept else "")]
    parts += [f"{graph.recomputed_products} of them traced again" + (f", {graph.merged} merged" if graph.merged else "")] if graph.recomputed_products else []
    barriers, left = graph.barriers
    parts += [f"{barriers} barrier{'s' * (barriers != 1)}, {left} kept"] if barriers else []
    parts += [f"loops of {', '.join(map(str, dict.fromkeys(graph.trip_counts)))}"] if graph.trip_counts else []
    parts += [_counts(graph.total("collectives"))] if graph.total("collectives") else []
    parts += [f"{len(graph.modules)} module{'s' * (len(graph.modules) != 1)}"]
    return "; ".join(parts) if graph.modules else "-"


def _row(verdict: Verdict) -> tuple[str, ...]:
    suite, _, variant = verdict.test.partition("::")
    graph = verdict.graph
    return (
        suite,
        variant,
        str(len(graph.modules)),
        _counts(graph.total("traced_dots")),
        _counts(graph.total("dots")),
        str(graph.recomputed_products or "-"),
        str(graph.merged or "-"),
        *(str(count or "-") for count in graph.barriers),
        ", ".join(f"{count or '?'} iterations" for count in dict.fromkeys(graph.trip_counts)) or "-",
        _counts(graph.total("collectives")),
        f"{graph.size_bytes / KIB:.1f} KiB" if graph.size_bytes else "-",
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "-"
