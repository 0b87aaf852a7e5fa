"""Cases, variants and suites made by hand. Nothing in them is ever trained."""

from typing import Any

from xla_equiv import Case, Suite, Variant
from xla_equiv.values.plan import NamedSuite
from xla_equiv.values.treatment import StepInputs, StepOutputs, Treatment


class Loop(Treatment):
    def accumulate(self, model: Any, inputs: StepInputs) -> StepOutputs:
        raise AssertionError("this is described, and must not be run")


class Blindfold(Treatment):
    """A treatment that does not accumulate, and hides keys."""

    unobserved = ("loss/*",)


def nothing(*arguments: Any) -> Any:
    return None


def case(**changes: Any) -> Case:
    parts: dict[str, Any] = {
        "build": nothing,
        "batch": nothing,
        "loss": nothing,
        "optimizer": nothing,
        "steps": 3,
        "micro_batches": 4,
    }
    return Case(**{**parts, **changes})


def variant(name: str = "loop", backend: str = "cpu", **changes: Any) -> Variant:
    return Variant(name, **{"backend": backend, "treatments": [Loop()], **changes})


def suite(**changes: Any) -> Suite:
    parts: dict[str, Any] = {
        "case": case(),
        "reference": variant(),
        "candidates": [variant(backend="xla:cpu"), variant("while", backend="xla:cpu")],
    }
    return Suite(**{**parts, **changes})


def named(one: Suite, name: str = "mlp") -> NamedSuite:
    return NamedSuite(name, f"suites/{name}.py", "everything", "A suite.", one)
