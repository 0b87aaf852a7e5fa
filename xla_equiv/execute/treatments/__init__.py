"""Treatments that come with the project, one file each."""

from xla_equiv.execute.treatments.data_parallel import DataParallel as DataParallel
from xla_equiv.execute.treatments.ddp import DDP as DDP
from xla_equiv.execute.treatments.looped import LoopedAccumulation as LoopedAccumulation
from xla_equiv.execute.treatments.while_op import WhileAccumulation as WhileAccumulation
