"""The stages of a training: what each process does when a later one takes up what an earlier one has saved."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xla_equiv.values.spread import Spread

if TYPE_CHECKING:
    from xla_equiv.values.case import Case
    from xla_equiv.values.treatment import Treatment


class Form(str, enum.Enum):
    """How a checkpoint holds a model that is sharded.

    SHARDED: a file for each replica, with its shards.
    CONSOLIDATED: whole parameters and whole optimizer state, for any number of replicas.
    """

    SHARDED = "sharded"
    CONSOLIDATED = "consolidated"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Consecutive steps of a training that one worker process does.

    Args:
        number: from 1.
        first: its first step.
        last: its last step.
        spread: how the replicas of the case are covered.
        replicas: how many there are; each trains on an equal share of the batches of the case's replicas.
        treatments: how its steps are executed.
        takes: the form of the checkpoint that it begins with; None for the first stage.
        leaves: the form of the checkpoint that it ends with; None for the last stage.
    """

    number: int
    first: int
    last: int
    spread: Spread
    replicas: int
    treatments: tuple[Treatment, ...]
    takes: Form | None = None
    leaves: Form | None = None

    @property
    def devices(self) -> int:
        """Return how many devices it trains on."""
        return 1 if self.spread is Spread.ONE else self.replicas

    @property
    def programs(self) -> int:
        """Return how many programs train it."""
        return self.replicas if self.spread is Spread.REPLICAS else 1

    def covers(self, rank: int, case: Case) -> range:
        """Return the replicas of `case` whose batches program `rank` trains on."""
        if self.spread is not Spread.REPLICAS:
            return range(case.replicas)
        share = case.replicas // self.replicas
        return range(rank * share, (rank + 1) * share)


def stages_of(case: Case, spread: Spread, treatments: tuple[Treatment, ...]) -> tuple[Stage, ...]:
    """Return the stages in which `case` is trained under `treatments`; one, unless a treatment divides it.

    Raises:
        SuiteError: the case cannot be divided so.
    """
    stages: tuple[Stage, ...] = (
        Stage(
            number=1, first=1, last=case.steps, spread=spread, replicas=case.replicas, treatments=treatments
        ),
    )
    for treatment in treatments:
        stages = (*stages[:-1], *treatment.divide(stages[-1], case))
    return stages
