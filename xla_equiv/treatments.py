"""The treatments that suites name. Importing this module does not import torch."""

from xla_equiv.execute.treatments import DDP as DDP
from xla_equiv.execute.treatments import DataParallel as DataParallel
from xla_equiv.execute.treatments import FabricFSDP as FabricFSDP
from xla_equiv.execute.treatments import FabricProgram as FabricProgram
from xla_equiv.execute.treatments import LoopedAccumulation as LoopedAccumulation
from xla_equiv.execute.treatments import Resumed as Resumed
from xla_equiv.execute.treatments import SpmdDataParallel as SpmdDataParallel
from xla_equiv.execute.treatments import SpmdFSDP as SpmdFSDP
from xla_equiv.execute.treatments import SpmdTensorParallel as SpmdTensorParallel
from xla_equiv.execute.treatments import WhileAccumulation as WhileAccumulation
from xla_equiv.execute.treatments import XlaFSDP as XlaFSDP
from xla_equiv.execute.treatments import ZeroRedundancy as ZeroRedundancy
from xla_equiv.values.spread import Spread as Spread
from xla_equiv.values.treatment import StepInputs as StepInputs
from xla_equiv.values.treatment import StepOutputs as StepOutputs
from xla_equiv.values.treatment import Treatment as Treatment
