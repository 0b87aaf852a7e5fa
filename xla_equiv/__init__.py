"""Numerical regression and equivalence testing for PyTorch/XLA training.

The names that a suite needs; importing them does not import torch.
"""

from xla_equiv.values.case import Case as Case
from xla_equiv.values.equivalence import Equivalence as Equivalence
from xla_equiv.values.steps import ALL_STEPS as ALL_STEPS
from xla_equiv.values.steps import LAST_STEP as LAST_STEP
from xla_equiv.values.steps import NO_STEPS as NO_STEPS
from xla_equiv.values.suite import ExpectedFailure as ExpectedFailure
from xla_equiv.values.suite import PublishedValues as PublishedValues
from xla_equiv.values.suite import Skip as Skip
from xla_equiv.values.suite import Suite as Suite
from xla_equiv.values.suite import Variant as Variant
from xla_equiv.values.tolerance import Tolerance as Tolerance
from xla_equiv.values.verdict import ComparisonKind as ComparisonKind
from xla_equiv.values.verdict import Status as Status

__version__ = "0.1.0"
