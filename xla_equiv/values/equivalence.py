"""How closely a suite expects two ways of training to agree."""

import enum


class Equivalence(str, enum.Enum):
    """A class of agreement, the strongest first. What falls short of its class, inside its tolerance, is DRIFT."""

    BITWISE = "bitwise"
    """The same operations in the same order: every bit is equal."""

    REASSOCIATION = "reassociation"
    """The same sums in another order, split, sharded or fused otherwise: rounding differs, and its tolerance says by how much."""

    DISTRIBUTIONAL = "distributional"
    """Other random numbers: over the draws of the case, values have the same mean and spread (`measure_distribution`)."""
