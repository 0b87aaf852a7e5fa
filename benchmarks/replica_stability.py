"""Runs the same 4-replica trainings many times, and counts the runs that hang, fail, or differ in any bit.

    python benchmarks/replica_stability.py [--processes 20] [--repeats 10]

Each process runs DDP and XLA FSDP `repeats` times each, with its own compilation. Prints one line a process and the
totals; the exit code is 0 when every run ended and all traces of a variant are bit-identical.
"""

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import click

from xla_equiv.measure.inputs import sha256
from xla_equiv.store.traces import read_trace
from xla_equiv.values.errors import TraceError

SUITE, CASE = "ddp_vs_fsdp", "mlp_4"
VARIANTS = ("ddp[xla:cpu]", "fsdp[xla:cpu]")
ROOT = Path(__file__).resolve().parents[1]


@click.command(help=__doc__.splitlines()[0])
@click.option("--processes", default=20, show_default=True, help="Worker processes, one after the other.")
@click.option("--repeats", default=10, show_default=True, help="Runs of each variant in each process.")
def main(processes: int, repeats: int) -> None:
    """Run, count and report."""
    ended: Counter[str] = Counter()
    bits: dict[str, set[str]] = {variant: set() for variant in VARIANTS}
    for process in range(1, processes + 1):
        with tempfile.TemporaryDirectory(prefix="stability-") as folder:
            found = _run(Path(folder) / "run", repeats)
            for variant, digests in found.items():
                ended[variant] += len(digests)
                bits[variant] |= set(digests)
        counts = ", ".join(f"{variant}: {ended[variant]} ended, {len(bits[variant])} distinct" for variant in VARIANTS)
        click.echo(f"process {process:>3}   {counts}")
    wanted = processes * repeats
    failed = [v for v in VARIANTS if ended[v] != wanted or len(bits[v]) != 1]
    for variant in VARIANTS:
        click.echo(f"{variant}: {ended[variant]} of {wanted} runs ended, {len(bits[variant])} distinct trace(s)")
    sys.exit(1 if failed else 0)


def _run(out: Path, repeats: int) -> dict[str, list[str]]:
    """Return variant -> digest of the trace of each run that ended, run by the command in a fresh worker."""
    chosen = " or ".join(f"({CASE} and {variant.partition('[')[0]} and not view)" for variant in VARIANTS)
    command = [sys.executable, "-m", "xla_equiv", "run", SUITE, "--backend", "xla:cpu", "-k", chosen]
    command += ["--repeat", str(repeats), "--workers", "1", "--out", str(out)]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return {variant: [d for d in _digests(out, variant) if d] for variant in VARIANTS}


def _digests(out: Path, variant: str) -> list[str]:
    digests = []
    for facts in sorted(out.glob("traces/*/*/facts.json")):
        try:
            trace = read_trace(facts.parent)
        except TraceError:
            continue
        if trace.facts.test == f"{SUITE}::{CASE}.{variant}":
            digests.append(" ".join(f"{entry.step}/{entry.key}:{sha256(array)}" for entry, array in trace.arrays()))
    return digests


if __name__ == "__main__":
    main()
