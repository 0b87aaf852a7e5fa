"""Training in two stages: a fresh process takes up what the first has saved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xla_equiv.values.errors import SuiteError, choices_text
from xla_equiv.values.spread import Spread
from xla_equiv.values.stages import Form, Stage
from xla_equiv.values.treatment import Treatment

if TYPE_CHECKING:
    from xla_equiv.values.case import Case


@dataclass(frozen=True, kw_only=True)
class Resumed(Treatment):
    """Train some steps, save model and optimizer, and go on in a fresh process that loads them.

    Several of them divide a training into as many more stages.

    Args:
        after: the last step before saving.
        form: "sharded", a file for each replica; or "consolidated", whole tensors that any number of
            replicas can load.
        replicas: how many go on, each on an equal share of the batches; None for as many as before. One goes on
            without the treatments that spread replicas: the model is not wrapped any more.
    """

    after: int
    form: str = Form.SHARDED.value
    replicas: int | None = None

    def __post_init__(self) -> None:
        forms = [form.value for form in Form]
        problems = [] if self.form in forms else [f"form: there is no {self.form!r}; {choices_text(self.form, forms)}"]
        if self.form == Form.SHARDED and self.replicas is not None:
            problems.append("replicas: shards can be loaded by as many replicas as saved them only; form='consolidated' can")
        if problems:
            raise SuiteError("a training cannot be resumed so", problems=problems)

    def divide(self, last: Stage, case: Case) -> tuple[Stage, ...]:
        if not last.first <= self.after < last.last:
            raise SuiteError(f"resumed after step {self.after}, which is not in {last.first} to {last.last - 1}")
        replicas = last.replicas if self.replicas is None else self.replicas
        if replicas < 1 or case.replicas % replicas:
            raise SuiteError(f"{replicas} replicas cannot share the batches of {case.replicas} equally")
        form = Form(self.form)
        following = replace(last, number=last.number + 1, first=self.after + 1, replicas=replicas, takes=form)
        if self.replicas == 1:
            whole = tuple(treatment for treatment in last.treatments if treatment.spread is Spread.ONE)
            following = replace(following, spread=Spread.ONE, treatments=whole)
        return replace(last, last=self.after, leaves=form), following
