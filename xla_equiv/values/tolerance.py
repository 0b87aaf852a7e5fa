"""Tolerances, the four levels that may set them, and which level decides."""

import enum
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xla_equiv.values.errors import ToleranceError, choices_text
from xla_equiv.values.patterns import most_specific
from xla_equiv.values.verdict import ComparisonKind


class Level(str, enum.Enum):
    """Who set a tolerance, the strongest first."""

    COMMAND_LINE = "command line"
    FILE = "tolerance file"
    SUITE = "suite"
    DEFAULT = "project default"


KINDS = [kind.value for kind in ComparisonKind]


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """The rule |candidate - reference| <= atol + rtol * |reference| for the keys of one pattern.

    Args:
        rtol: relative part, without unit; None leaves it to the next level.
        atol: absolute part, in the unit of the key; None leaves it to the next level.
        why: where the numbers come from. Mandatory.
        only: the comparisons it holds for ("equivalence", "regression", "anchor"); empty for all.
        equal_nonfinite: accept NaN and inf that are the same on both sides, element by element.

    Raises:
        ToleranceError: a part is negative, NaN or infinite, both are None, `why` is empty, or a
            comparison in `only` does not exist.
    """

    rtol: float | None = None
    atol: float | None = None
    why: str
    only: tuple[str, ...] = ()
    equal_nonfinite: bool = False

    def __post_init__(self) -> None:
        problems = tolerance_problems(self.rtol, self.atol)
        if not self.why.strip():
            problems.append("why: empty; every tolerance has a reason")
        if self.rtol is None and self.atol is None:
            problems.append("neither rtol nor atol is given")
        problems += [f"only: there is no comparison {kind!r}; {choices_text(kind, KINDS)}" for kind in self.only if kind not in KINDS]
        if problems:
            raise ToleranceError("a tolerance is impossible", problems=problems)


def tolerance_problems(rtol: float | None, atol: float | None) -> list[str]:
    """Return what is wrong with the two parts of a tolerance; an empty list when nothing is."""
    return [
        f"{name}: {value!r} is not a finite number of at least 0"
        for name, value in (("rtol", rtol), ("atol", atol))
        if value is not None and not _is_tolerable(value)
    ]


def _is_tolerable(value: object) -> bool:
    return isinstance(value, (int, float)) and 0 <= value <= sys.float_info.max


@dataclass(frozen=True)
class ResolvedTolerance:
    """The numbers that hold for one key, and the level and pattern that set each of them."""

    rtol: float
    atol: float
    rtol_from: str
    atol_from: str
    why: str
    equal_nonfinite: bool = False

    @property
    def decided_by(self) -> str:
        """Return who decided, as one text."""
        return self.rtol_from if self.rtol_from == self.atol_from else f"rtol {self.rtol_from}; atol {self.atol_from}"


REASSOCIATION = "sums of up to 2^12 terms taken in another order differ by about sqrt(2^12) = 64 units in the last place"

CANCELLATION = "terms of order 1 that cancel leave one unit in the last place of 1"

DEFAULTS_BY_DTYPE: Mapping[str, Tolerance] = {
    "float64": Tolerance(rtol=2.0**-46, atol=2.0**-52, why=f"{REASSOCIATION} (2^-52); {CANCELLATION}"),
    "float32": Tolerance(rtol=2.0**-17, atol=2.0**-23, why=f"{REASSOCIATION} (2^-23); {CANCELLATION}"),
    "float16": Tolerance(rtol=2.0**-8, atol=1e-5, why="four units in the last place (2^-10) after one rounding to half"),
    "bfloat16": Tolerance(rtol=2.0**-6, atol=1e-5, why="two units in the last place (2^-7) after one rounding to bfloat16"),
    "complex64": Tolerance(rtol=2.0**-17, atol=2.0**-23, why=f"{REASSOCIATION} (2^-23); {CANCELLATION}"),
    "complex128": Tolerance(rtol=2.0**-46, atol=2.0**-52, why=f"{REASSOCIATION} (2^-52); {CANCELLATION}"),
}
"""What holds where nobody said anything. Integers and booleans must be equal."""

EXACT = Tolerance(rtol=0.0, atol=0.0, why="integers and booleans are exact")


@dataclass(frozen=True)
class ToleranceTable:
    """All tolerances in force for one case, by level.

    Args:
        levels: for each level, strongest first, an ordered mapping of key pattern to Tolerance.
    """

    levels: Sequence[tuple[Level, Mapping[str, Tolerance]]] = field(default_factory=tuple)

    def resolve(self, key: str, dtype: str, comparison: str) -> ResolvedTolerance:
        """Return the numbers for `key` of `dtype` in `comparison`.

        rtol and atol are decided apart: the strongest level with a covering pattern wins, and inside
        a level the most specific pattern that gives that part. The pattern `*` does not loosen integers.
        """
        rtol, rtol_from = self._part("rtol", key, dtype, comparison)
        atol, atol_from = self._part("atol", key, dtype, comparison)
        reasons = list(dict.fromkeys([rtol.why, atol.why]))
        assert rtol.rtol is not None
        assert atol.atol is not None
        return ResolvedTolerance(
            rtol.rtol,
            atol.atol,
            rtol_from,
            atol_from,
            "; ".join(reasons),
            equal_nonfinite=self._accepts_nonfinite(key, comparison),
        )

    def _accepts_nonfinite(self, key: str, comparison: str) -> bool:
        """Return whether any level's rule for `key` accepts equal NaN and inf; other numbers do not take it back."""
        for _, patterns in self.levels:
            rules = {p: rule for p, rule in patterns.items() if not rule.only or comparison in rule.only}
            pattern = most_specific(key, rules)
            if pattern is not None and rules[pattern].equal_nonfinite:
                return True
        return False

    def _part(self, part: str, key: str, dtype: str, comparison: str) -> tuple[Tolerance, str]:
        for level, patterns in self.levels:
            given = {
                pattern: tolerance
                for pattern, tolerance in patterns.items()
                if getattr(tolerance, part) is not None
                and (not tolerance.only or comparison in tolerance.only)
                and (pattern != "*" or dtype in DEFAULTS_BY_DTYPE)
            }
            pattern = most_specific(key, given)
            if pattern is not None:
                return given[pattern], f"{level.value} [{pattern}]"
        return DEFAULTS_BY_DTYPE.get(dtype, EXACT), f"{Level.DEFAULT.value} [{dtype}]"
