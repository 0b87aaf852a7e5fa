"""Tests, traces, verdicts and goldens made by hand, and a way to damage files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from xla_equiv import Case, Suite, Variant
from xla_equiv.store.golden_life import Acceptance, accept, propose
from xla_equiv.values.plan import NamedSuite, Test
from xla_equiv.values.suite import label
from xla_equiv.values.trace import Array, InputDigest, RunFacts, Trace, memory_trace
from xla_equiv.values.treatment import StepInputs, StepOutputs, Treatment
from xla_equiv.values.verdict import Comparison, ComparisonKind, Expectation, Status, Verdict

LOOP = "loop[xla:cpu]"
WHILE = "while[xla:cpu]"


class Loop(Treatment):
    def accumulate(self, model: Any, inputs: StepInputs) -> StepOutputs:
        raise AssertionError("this is described, and must not be run")


def nothing(*arguments: Any) -> Any:
    return None


def made_test(wanted: str = WHILE, *, suite: str = "mlp", case: str = "", **changes: Any) -> Test:
    """Return a test of a suite of three variants."""
    reference = Variant("loop", backend="cpu", treatments=[Loop()])
    candidates = [Variant(name, backend="xla:cpu", treatments=[Loop()]) for name in ("loop", "while")]
    one = Case(build=nothing, batch=nothing, loss=nothing, optimizer=nothing, steps=3, micro_batches=4)
    made = Suite(case={case: one} if case else one, reference=reference, candidates=candidates, **changes)
    named = NamedSuite(suite, f"suites/{suite}.py", "everything", "A suite.", made)
    variant = next(one for one in (reference, *candidates) if label(case, one) == (f"{case}.{wanted}" if case else wanted))
    return Test(named, case, variant, variant is reference)


def arrays(**changes: Any) -> dict[tuple[int, str], Array]:
    """Return what a run of three steps records; `changes` name arrays of the last step."""
    generator = np.random.default_rng(0)
    found: dict[tuple[int, str], Array] = {}
    for step in (1, 2, 3):
        found[step, "loss/0"] = np.float32([0.25 / step])
        found[step, "loss"] = np.array(1 / step, np.float32)
        found[step, "grad/z"] = generator.normal(size=(2, 3)).astype(np.float32)
        found[step, "grad/a"] = generator.normal(size=4).astype(np.float32)
        found[step, "param/z"] = generator.normal(size=(2, 3)).astype(np.float32)
    return {**found, **{(3, name): np.asarray(value) for name, value in changes.items()}}


def made_trace(test: Test, recorded: dict[tuple[int, str], Array] | None = None, **facts: Any) -> Trace:
    parts: dict[str, Any] = {
        "provenance": {"torch": "2.9.0", "torch_xla": "2.9.0", "backend": "xla:cpu", "device_class": "xla-cpu"},
        "settings": {"optimizer": "SGD(lr=0.1)", "steps": "3"},
        "inputs": {f"batch/{step}/0/0": InputDigest("float32", (2,), f"{step:064}", (1.0, 1.0, 0.5)) for step in (1, 2, 3)},
        "run_s": 1.5,
        "compile_s": 0.5,
    }
    return memory_trace(RunFacts(test=test.id, steps=3, **{**parts, **facts}), arrays() if recorded is None else recorded)


def made_verdict(
    test: Test,
    status: Status = Status.WITHIN,
    *,
    against: str = "golden while[xla-cpu].safetensors",
    kind: ComparisonKind = ComparisonKind.REGRESSION,
    what: str = "",
    expectation: Expectation = Expectation.NONE,
) -> Verdict:
    found = Comparison(kind=kind, against=against, status=status)
    return Verdict(test=test.id, status=status, what=what, comparisons=(found,), expectation=expectation, why_expected="known")


def proposal(root: Path, test: Test | None = None, trace: Trace | None = None, verdict: Verdict | None = None) -> Acceptance:
    test = test or made_test()
    return propose(test, verdict or made_verdict(test, Status.NOGOLDEN), trace or made_trace(test), root, reruns=2)


def accepted(root: Path, test: Test | None = None, trace: Trace | None = None, *, why: str = "first") -> Path:
    """Write a golden under `root`; return the path of its tensors."""
    one = proposal(root, test, trace)
    accept(one, why=why, run="20260102T030405Z-1")
    return one.path


def truncations(content: bytes) -> Iterator[bytes]:
    """Yield every proper beginning of `content`."""
    for length in range(len(content)):
        yield content[:length]


def bit_flips(content: bytes, *, bits: int = 8) -> Iterator[bytes]:
    """Yield `content` with one bit of one byte flipped: for every byte, `bits` of its eight, in rotation."""
    for position in range(len(content)):
        for number in range(bits):
            damaged = bytearray(content)
            damaged[position] ^= 1 << ((position * bits + number) % 8)
            yield bytes(damaged)
