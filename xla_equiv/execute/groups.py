"""Which tests share a worker process."""

from dataclasses import dataclass

from xla_equiv.values.plan import Test
from xla_equiv.values.spread import Spread
from xla_equiv.values.stages import Stage


@dataclass(frozen=True)
class Group:
    """What tests must have in common to share a worker.

    Args:
        interpreter: path of the Python to run; "" for the current one.
        backend: name of the backend.
        env: further environment variables, sorted.
        is_reference: the role. No candidate runs in the process of a reference: what it may have patched must
            not reach what it is judged by.
        spread: how the replicas of a case are covered.
        devices: how many the process has.
        alone: name of the only test of the group; "" for any number of tests.
    """

    interpreter: str
    backend: str
    env: tuple[tuple[str, str], ...] = ()
    is_reference: bool = False
    spread: Spread = Spread.ONE
    devices: int = 1
    alone: str = ""


def group_of(test: Test, stage: Stage | None = None) -> Group:
    """Return the group of `stage` of `test`; of its first stage when none is given."""
    variant, stage = test.variant, stage or test.stages[0]
    return Group(
        variant.interpreter,
        variant.backend,
        tuple(sorted(variant.env.items())),
        test.is_reference,
        stage.spread,
        stage.devices,
        test.id if any(treatment.has_own_process for treatment in stage.treatments) else "",
    )
