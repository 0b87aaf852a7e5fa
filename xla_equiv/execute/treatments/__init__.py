"""Treatments that come with the project, one file each."""

from xla_equiv.execute.treatments.checkpointing import KEEP_BARRIERS as KEEP_BARRIERS
from xla_equiv.execute.treatments.checkpointing import Checkpointing as Checkpointing
from xla_equiv.execute.treatments.compiled_step import CompiledStep as CompiledStep
from xla_equiv.execute.treatments.data_parallel import DataParallel as DataParallel
from xla_equiv.execute.treatments.ddp import DDP as DDP
from xla_equiv.execute.treatments.dynamo import DynamoForward as DynamoForward
from xla_equiv.execute.treatments.dynamo import DynamoStep as DynamoStep
from xla_equiv.execute.treatments.eager import EagerMode as EagerMode
from xla_equiv.execute.treatments.fabric import FabricFSDP as FabricFSDP
from xla_equiv.execute.treatments.fabric import FabricProgram as FabricProgram
from xla_equiv.execute.treatments.fsdp import XlaFSDP as XlaFSDP
from xla_equiv.execute.treatments.looped import LoopedAccumulation as LoopedAccumulation
from xla_equiv.execute.treatments.mixed_precision import Autocast as Autocast
from xla_equiv.execute.treatments.mixed_precision import CastTo as CastTo
from xla_equiv.execute.treatments.mixed_precision import MatmulPrecision as MatmulPrecision
from xla_equiv.execute.treatments.pure import AssumePure as AssumePure
from xla_equiv.execute.treatments.resumed import Resumed as Resumed
from xla_equiv.execute.treatments.scan import ScanLayers as ScanLayers
from xla_equiv.execute.treatments.spmd import SpmdDataParallel as SpmdDataParallel
from xla_equiv.execute.treatments.spmd import SpmdFSDP as SpmdFSDP
from xla_equiv.execute.treatments.spmd import SpmdTensorParallel as SpmdTensorParallel
from xla_equiv.execute.treatments.sync_free import SyncFreeOptimizer as SyncFreeOptimizer
from xla_equiv.execute.treatments.while_op import WhileAccumulation as WhileAccumulation
from xla_equiv.execute.treatments.zero import ZeroRedundancy as ZeroRedundancy
