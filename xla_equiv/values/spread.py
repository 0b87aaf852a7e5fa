"""How a variant covers the replicas of a case."""

import enum


class Spread(str, enum.Enum):
    """Where the replicas of a case are.

    ONE: one device trains on the batches of all replicas, joined to one.
    REPLICAS: each replica is a program of its own, on a device of its own.
    SPMD: one program on the joined batch, partitioned by the compiler over one device for each replica.
    """

    ONE = "one device"
    REPLICAS = "replicas"
    SPMD = "spmd"
