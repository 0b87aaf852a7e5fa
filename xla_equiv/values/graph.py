"""What is known of the compiled modules that executed a run."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

BARRIER = "opt-barrier"
PRODUCTS = ("dot", "convolution")
HEAVY = (*PRODUCTS, "while")
"""What is counted to see whether a recomputation has survived: matrix products, and loops that hold some."""


@dataclass(frozen=True)
class ModuleFacts:
    """One compiled XLA module: what was traced, and what the optimiser made of it.

    Args:
        fingerprint: SHA-256 of the optimised module's text without names and metadata.
        opcodes: how often each HLO opcode stands in the optimised module.
        trip_counts: the known trip count of each `while` of the optimised module; 0 where it is not known.
        dots: element type -> how many matrix products and convolutions of the optimised module have it.
        traced: how often each opcode stood in the module before optimisation.
        traced_dots: element type -> how many matrix products and convolutions stood there.
        precisions: operand precision -> how many matrix products of the optimised module ask for it.
        casts: element type -> how many conversions of the optimised module result in it.
        recomputed: opcode -> how many instructions of the traced module, behind an optimization barrier,
            compute again what stands before it.
        merged: how many matrix products, convolutions and loops were traced and are not in the optimised module;
            without those that XLA rewrites, in which a dimension is 1.
        collectives: "opcode of n" -> how many collectives of the optimised module join n devices each.
        parameters: "type[shape]" -> how many such arguments the optimised module takes, on one device.
        size_bytes: what its arguments, results and temporaries need together; 0 where it is not known.
    """

    fingerprint: str
    opcodes: Mapping[str, int]
    trip_counts: tuple[int, ...]
    dots: Mapping[str, int] = field(default_factory=dict)
    traced: Mapping[str, int] = field(default_factory=dict)
    traced_dots: Mapping[str, int] = field(default_factory=dict)
    precisions: Mapping[str, int] = field(default_factory=dict)
    casts: Mapping[str, int] = field(default_factory=dict)
    recomputed: Mapping[str, int] = field(default_factory=dict)
    merged: int = 0
    collectives: Mapping[str, int] = field(default_factory=dict)
    parameters: Mapping[str, int] = field(default_factory=dict)
    size_bytes: int = 0


@dataclass(frozen=True)
class GraphFacts:
    """The modules that executed the training steps; empty on a backend that does not compile."""

    modules: tuple[ModuleFacts, ...] = ()

    def total(self, kind: str) -> Counter[str]:
        """Return the counts that `kind`, a field of ModuleFacts, has in all modules together."""
        totals: Counter[str] = Counter()
        for module in self.modules:
            totals.update(getattr(module, kind))
        return totals

    def count(self, opcode: str) -> int:
        """Return how often `opcode` stands in all optimised modules."""
        return self.total("opcodes")[opcode]

    @property
    def computing(self) -> list[ModuleFacts]:
        """Return the modules with matrix products: those that run the model, forward or backward."""
        return [module for module in self.modules if module.traced_dots]

    @property
    def barriers(self) -> tuple[int, int]:
        """Return how many optimization barriers were traced, and how many are left in the optimised modules."""
        return self.total("traced")[BARRIER], self.count(BARRIER)

    @property
    def recomputed_products(self) -> int:
        """Return how many matrix products and convolutions were traced that compute again what another has."""
        return sum(self.total("recomputed")[opcode] for opcode in PRODUCTS)

    @property
    def merged(self) -> int:
        """Return how many matrix products and loops the compiler has merged, or lost otherwise."""
        return sum(module.merged for module in self.modules)

    @property
    def trip_counts(self) -> list[int]:
        """Return the trip count of each `while`."""
        return [count for module in self.modules for count in module.trip_counts]

    @property
    def size_bytes(self) -> int:
        """Return what the largest module needs."""
        return max((module.size_bytes for module in self.modules), default=0)

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Return the modules' fingerprints in order of compilation."""
        return tuple(module.fingerprint for module in self.modules)
