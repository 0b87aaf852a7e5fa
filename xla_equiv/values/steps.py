"""Selections of optimizer steps, written in suites as tuples of step numbers."""

from collections.abc import Mapping

from xla_equiv.values.patterns import most_specific

Steps = tuple[int, ...] | None
"""Step numbers from 1; negative ones count from the end; None is every step."""

ALL_STEPS: Steps = None
NO_STEPS: Steps = ()
LAST_STEP = -1


def is_selected(step: int, selection: Steps, *, steps: int) -> bool:
    """Return whether `step` (from 1) of a run of `steps` steps is in `selection`."""
    if selection is None:
        return True
    return any(step == (chosen if chosen > 0 else steps + 1 + chosen) for chosen in selection)


def is_key_selected(key: str, step: int, selections: Mapping[str, Steps], *, steps: int) -> bool:
    """Return whether (`key`, `step`) is in `selections`, a mapping of key pattern to steps.

    The most specific pattern decides; a key that no pattern covers is selected at every step.
    """
    pattern = most_specific(key, selections)
    return pattern is None or is_selected(step, selections[pattern], steps=steps)
