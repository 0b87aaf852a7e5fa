"""Why something cannot be used here."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Absence:
    """Why a backend or a treatment cannot be used here, and what would make it usable."""

    reason: str
    remedy: str
