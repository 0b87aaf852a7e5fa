"""The text of one verdict: what happened, where, by how much, against which limit, and what to do next."""

import math
import re
import shlex
from decimal import ROUND_CEILING, Decimal

from xla_equiv.store.runs import file_name
from xla_equiv.values.errors import MAX_MESSAGE_LINES, format_message
from xla_equiv.values.patterns import key_group
from xla_equiv.values.verdict import (
    Comparison,
    ComparisonKind,
    Expectation,
    Finding,
    KeyGroup,
    Measurement,
    Status,
    Verdict,
)

CLAUSES = {
    Status.EXACT: "agrees in every bit",
    Status.WITHIN: "agrees within its tolerance",
    Status.DRIFT: "is inside its tolerance, but not as near as it was, or as it is declared to be",
    Status.UNVERIFIED: "was not run",
    Status.NOGOLDEN: "has no golden",
    Status.STALE: "has a golden that was recorded under other conditions",
    Status.BLIND: "cannot see a fault that it must see",
    Status.UNPROVEN: "is not proved to have run under its treatments",
    Status.UNSTABLE: "disagrees with its own repeat",
    Status.OUTSIDE: "left its tolerance",
    Status.MISSING: "recorded something else",
    Status.NONFINITE: "has NaN or inf",
    Status.TIMEOUT: "did not end in time",
    Status.CRASHED: "crashed",
}

Detail = tuple[str, str]

LEAST_NEEDED = ("also", "attempts", "remedy", "expected", "spread")
"""Labels that make room, the first of them first, when a text has more than eight lines."""


def failure_text(verdict: Verdict, *, run: str = "RUN") -> str:
    """Return what a reader needs to know about `verdict`, in at most eight lines.

    Args:
        verdict: of any status; for one that agrees, the text says so.
        run: the run folder, for the commands of the last line.
    """
    comparison = worst_comparison(verdict)
    details = _number_details(comparison) if comparison is not None and comparison.status is verdict.status else []
    details += [
        ("also", _also(verdict, comparison)),
        ("attempts", f"{verdict.attempts}; the first: {one_line(verdict.first_failure)}" * (verdict.attempts > 1)),
        ("log", _in_run(run, verdict.log) if verdict.status.is_infrastructure and verdict.log else ""),
        ("expected", one_line(verdict.why_expected)),
        ("likely", "; ".join(comparison.likely) if comparison else ""),
    ]
    command = next_step(verdict, run=run)
    details += [("remedy", one_line(verdict.remedy) if verdict.remedy != command else ""), ("next", command)]
    return format_message(_headline(verdict, comparison), _that_fit(details))


def worst_comparison(verdict: Verdict) -> Comparison | None:
    """Return the gravest comparison, of several the one that used the most of its tolerance; None without any."""
    return max(verdict.comparisons, key=lambda one: (one.status.gravity, _ordered(one.margin)), default=None)


def worst_measurement(comparison: Comparison) -> Measurement | None:
    """Return the measurement that shows `comparison` at its worst; None when what is wrong was not measured."""
    group = _worst_group(comparison)
    if group is not None:
        return group.measurement
    finding = _worst_finding(comparison)
    return finding.measurement if finding else None


def worst_place(comparison: Comparison) -> tuple[int, str]:
    """Return the (step, key) at which `comparison` is at its worst; 0 and '' where there is no step or key."""
    found = worst_measurement(comparison) or _worst_finding(comparison)
    return (found.step, found.key) if found else (0, "")


def next_step(verdict: Verdict, *, run: str = "RUN") -> str:
    """Return the command, or the action, that helps with `verdict`."""
    suite, _, label = verdict.test.partition("::")
    test = shlex.quote(verdict.test)
    if verdict.expectation is Expectation.NOT_MET and verdict.status.is_green:
        return f"remove the ExpectedFailure of {label} from suites/{suite}.py"
    if verdict.status in (Status.NOGOLDEN, Status.STALE):
        return f'xla-equiv golden accept {shlex.quote(run)} -k {test} --why "..."'
    if verdict.status.is_infrastructure and verdict.log:
        return f"tail -n 50 {shlex.quote(_in_run(run, verdict.log))}"
    if verdict.status.is_infrastructure:
        return f"xla-equiv run {suite} -k {test}"
    if verdict.status is Status.UNVERIFIED:
        return one_line(verdict.remedy) or "xla-equiv doctor"
    if not label:
        return ""  # two folders that `compare` was given: no test of a run
    if verdict.status is Status.UNPROVEN and verdict.graph.modules:
        return f"zless {shlex.quote(_in_run(run, f'traces/{suite}/{file_name(label)}'))}/graphs/*.gz"
    comparison = worst_comparison(verdict)
    key = _first_key(comparison) if comparison is not None and comparison.status is verdict.status else ""
    words = ["xla-equiv show", test, f"--run {shlex.quote(run)}"]
    if comparison is not None and comparison.kind is ComparisonKind.EQUIVALENCE:
        words.append(f"--against {shlex.quote(comparison.against)}")
    return " ".join([*words, f"--key {shlex.quote(neighbours(key))}"] if key else words)


def _first_key(comparison: Comparison) -> str:
    """Return the key that went wrong first: the nearest to the cause."""
    return next((f.key for f in comparison.findings if f.key), worst_place(comparison)[1]).removeprefix("input/")


def neighbours(key: str) -> str:
    """Return the pattern of the keys around `key`: its numbered block, or else its siblings.

    >>> neighbours("grad/blocks.3.attn.qkv.weight"), neighbours("grad/fc.weight"), neighbours("loss")
    ('grad/blocks.3.*', 'grad/fc.*', 'loss')
    """
    block = re.match(r".*?[/.]\d+(?=\.)", key)
    if block:
        return f"{block.group()}.*"
    first, _, rest = key.partition("/")
    parent = rest.partition("/")[0].rpartition(".")[0]
    return f"{first}/{parent}.*" if parent else key_group(key)


def round_up(x: float, digits: int = 2) -> float:
    """Return the least float with `digits` significant digits that is not below `x`.

    >>> round_up(0.0038201)
    0.0039
    """
    if x == 0 or not math.isfinite(x):
        return x
    nearest = float(f"{x:.{digits - 1}e}")
    if nearest >= x:
        return nearest
    exact = Decimal(x)
    return float(exact.quantize(Decimal((0, (1,), exact.adjusted() - digits + 1)), rounding=ROUND_CEILING))


def percent(margin: float) -> str:
    """Return `margin` (1.0 is exactly at the limit) in percent, never rounded across the limit.

    >>> percent(21.36), percent(0.00012), percent(1.000001), percent(123456.0)
    ('2136 %', '0.012 %', '>100 %', '1.2e+07 %')
    """
    share = margin * 100
    if not math.isfinite(share):
        return f"{share} %"
    if 99.5 <= share <= 100.5 and margin != 1:
        return ">100 %" if margin > 1 else ">99 %"
    if share >= 1e4 or 0 < share < 1e-3:
        return f"{share:.1e} %"
    return f"{share:.0f} %" if share >= 10 else f"{share:.2g} %"


def one_line(text: str, most: int = 240) -> str:
    """Return `text` on one line of at most `most` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 4]} ..."


def passing(min_rtol: float, min_atol: float) -> str:
    """Return the least rtol that passes, or the least atol where none does; '' where neither does."""
    for name, value in (("rtol", min_rtol), ("atol", min_atol)):
        if math.isfinite(round_up(value)):
            return f"{name} {round_up(value):.1e}"
    return ""


def _ordered(margin: float) -> float:
    return math.inf if math.isnan(margin) else margin


def _in_run(run: str, path: str) -> str:
    return f"{run.rstrip('/')}/{path}"


def _headline(verdict: Verdict, comparison: Comparison | None) -> str:
    clause = CLAUSES[verdict.status]
    deciding = comparison if comparison is not None and comparison.status is verdict.status else None
    is_said_below = deciding is not None and worst_measurement(deciding) is not None
    is_said_already = deciding is not None and verdict.status is Status.NOGOLDEN
    if not is_said_below and not is_said_already:
        finding = _worst_finding(deciding) if deciding is not None else None
        what = verdict.what or (finding.what if finding is not None else "")
        clause += f": {one_line(what)}" if what else ""
    if deciding is not None:
        clause += f" ({deciding.kind.value} against {deciding.against})"
    if verdict.expectation is Expectation.NOT_MET:
        clause = f"{verdict.expectation.value}: it {clause}"
    elif verdict.expectation is Expectation.MET:
        clause += ", as expected"
    return f"{verdict.status.value}: {verdict.test} {clause}"


def _that_fit(details: list[Detail]) -> list[Detail]:
    kept = [detail for detail in details if detail[1]]
    for label in LEAST_NEEDED:
        if len(kept) >= MAX_MESSAGE_LINES:
            kept = [detail for detail in kept if detail[0] != label]
    return kept


def _worst_group(comparison: Comparison) -> KeyGroup | None:
    group = comparison.worst_group
    is_shown = comparison.status.is_green or (group is not None and group.measurement.status is comparison.status)
    return group if is_shown else None


def _worst_finding(comparison: Comparison) -> Finding | None:
    return next((finding for finding in comparison.findings if finding.status is comparison.status), None)


def _number_details(comparison: Comparison) -> list[Detail]:
    if comparison.status is Status.EXACT:
        return []
    found = worst_measurement(comparison)
    step, key = worst_place(comparison)
    where = [f"step {step}"] * bool(step) + [key] * bool(key)
    if found is None or found.status is Status.MISSING or found.size == 0:
        return [("where", " · ".join(where)), ("spread", _spread(comparison))]
    if found.index:
        where.append(f"index {found.index}")
    limit = f"{_limit(found)}   used {percent(found.margin)}"
    group = _worst_group(comparison)
    if group is not None and not group.status.is_green:
        enough = passing(group.min_rtol, group.min_atol)
        limit += f"   {group.group} would pass with {enough}" if enough else "   no tolerance would pass"
    return [
        ("where", " · ".join(where)),
        ("numbers", _numbers(found)),
        ("limit", f"{limit}   set by {found.decided_by}" if found.decided_by else limit),
        ("spread", _spread(comparison)),
    ]


def _numbers(found: Measurement) -> str:
    candidate, reference = found.candidate_value, found.reference_value
    is_whole = found.dtype.startswith(("int", "uint", "bool")) and math.isfinite(candidate) and math.isfinite(reference)
    texts = f"{candidate:.0f}", f"{reference:.0f}"
    for digits in range(4, 17):
        if not is_whole:
            texts = f"{candidate:.{digits}e}", f"{reference:.{digits}e}"
        if texts[0] != texts[1]:
            break
    of_draws = f"   {found.statistic} over the draws" if found.statistic else ""
    return f"candidate {texts[0]}   reference {texts[1]}   |diff| {abs(candidate - reference):.2e}{of_draws}"


def _limit(found: Measurement) -> str:
    if found.statistic:
        return f"{found.atol:.2g}"
    if found.rtol == 0 and found.atol == 0:
        return "0: must be equal"
    limit = found.atol + found.rtol * abs(found.reference_value)
    return f"{found.atol:.3g} + {found.rtol:.3g}*|reference| = {limit:.2g}"


def _spread(comparison: Comparison) -> str:
    if not comparison.findings or (len(comparison.findings) == 1 and not comparison.compared):
        return ""
    first = next((finding for finding in comparison.findings if finding.step), None)
    parts = [f"first bad at step {first.step}" + (f" in {first.key}" if first.key else "")] if first else []
    unmeasured = sum(finding.measurement is None for finding in comparison.findings)
    if unmeasured:
        parts.append(f"{unmeasured} finding{'s' * (unmeasured > 1)} without numbers")
    if comparison.compared:
        nonfinite = sum(finding.measurement.nonfinite for finding in comparison.findings if finding.measurement)
        outside = sum(group.outside for group in comparison.groups)
        parts += [f"{outside} of {comparison.compared} tensors outside", f"{nonfinite} non-finite"]
    return "; ".join(parts)


def _also(verdict: Verdict, shown: Comparison | None) -> str:
    others = [one for one in verdict.comparisons if one is not shown and not one.status.is_green]
    return "; ".join(f"{one.status.value} in {one.kind.value} against {one.against}" for one in others)
