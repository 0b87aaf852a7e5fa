"""Running one program as several replicas, each on a device of its own."""

from xla_equiv.execute.replicas.replica import Replica as Replica
from xla_equiv.execute.replicas.replica import ReplicaFailed as ReplicaFailed
from xla_equiv.execute.replicas.replica import at_each_turn as at_each_turn
from xla_equiv.execute.replicas.replica import current_replica as current_replica
