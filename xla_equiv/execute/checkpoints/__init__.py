"""Checkpoints of sharded models: a file for each replica, or whole tensors for any number of replicas."""

from xla_equiv.execute.checkpoints.consolidated import consolidate as consolidate
from xla_equiv.execute.checkpoints.handover import Handover as Handover
from xla_equiv.execute.checkpoints.handover import check_checkpoint as check_checkpoint
from xla_equiv.execute.checkpoints.resharding import load_consolidated_model as load_consolidated_model
from xla_equiv.execute.checkpoints.resharding import load_consolidated_optimizer as load_consolidated_optimizer
from xla_equiv.execute.checkpoints.sharded import load_model_shard as load_model_shard
from xla_equiv.execute.checkpoints.sharded import load_optimizer_shard as load_optimizer_shard
from xla_equiv.execute.checkpoints.sharded import save_shard as save_shard
