"""Whether a finished training shows that its treatments took effect."""

from collections import Counter
from collections.abc import Sequence

from xla_equiv.execute.graphs import GraphLog
from xla_equiv.values.treatment import Loops, Trained, Treatment

UNKNOWN = 0
"""Trip count of a loop whose length XLA does not know."""


def why_unproven(treatments: Sequence[Treatment], trained: Trained, graphs: GraphLog | None) -> tuple[str, ...]:
    """Return why `trained` does not show that `treatments` took effect; empty when it shows each.

    Args:
        treatments: of the stage that was trained.
        trained: what it left.
        graphs: has seen the compiled modules; None on a backend that compiles nothing.
    """
    if graphs and not graphs.is_blind and not trained.graph.modules:
        return ("no module that XLA compiled for the steps was seen: no treatment can be proved",)
    reasons = [treatment.why_unproven(trained) for treatment in treatments]
    return tuple(reason for reason in (*reasons, _lacking_loops(treatments, trained)) if reason)


def _lacking_loops(treatments: Sequence[Treatment], trained: Trained) -> str:
    """Return that some module with matrix products lacks a loop that `treatments`, taken together, put there.

    They are asked for together, for otherwise two of one length could each pass for the other. XLA does not always
    know the length of a loop: such a one stands for a length that another module shows.
    """
    looping: list[Loops] = [treatment for treatment in treatments if isinstance(treatment, Loops)]
    needed = Counter(count for treatment in looping for count in treatment.loops(trained))
    names = ", ".join(treatment.name for treatment in looping)
    found = [Counter(module.trip_counts) for module in trained.graph.computing] or [Counter()]
    shown = {count for counts in found for count in counts}
    lacking = next((counts for counts in found if not _has_all(needed, counts, shown)), None)
    if lacking is None:
        return ""
    loops = f"while loops of {_listed(lacking)} iterations" if lacking else "no while loop"
    return f"{names}: an optimised graph has {loops}; needed are loops of {_listed(needed)}"


def _has_all(needed: Counter[int], counts: Counter[int], shown: set[int]) -> bool:
    without = needed - counts
    return without.total() <= counts[UNKNOWN] and set(without) <= shown


def _listed(counts: Counter[int]) -> str:
    return ", ".join(map(str, sorted(counts.elements())))
