"""For treatments of a suite's own: which replica the running code belongs to."""

from xla_equiv.execute.replicas.replica import Replica as Replica
from xla_equiv.execute.replicas.replica import current_replica as current_replica
