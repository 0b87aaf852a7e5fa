"""Dropout in distribution: ways to train that draw other masks must give values of the same mean and spread.

Each way trains 48 times from the same parameters on the same batches, with other random numbers. Each loss,
gradient and parameter is then compared by Welch's t-test of its mean, and of its spread.

Catches: a mask that is the same in all trainings, a probability that is far from the one asked for, values that
are kept and not scaled up. That each iteration of a loop draws its own mask is shown by state_accumulation.
"""

from dataclasses import replace

from torch import nn

from suites.models import on_xla
from suites.models.alike_layers import blocks_case
from xla_equiv import ALL_STEPS, Equivalence, Suite, Variant
from xla_equiv.treatments import KEEP_BARRIERS, Checkpointing, LoopedAccumulation, WhileAccumulation

LOOP, WHILE = LoopedAccumulation(), WhileAccumulation()
EACH = Checkpointing(modules=("layers.*",))


SUITE = Suite(
    case=replace(blocks_case(seed=23, last=lambda: nn.Dropout(0.25)), steps=2, draws=48),
    reference=on_xla("loop", LOOP, env=KEEP_BARRIERS),
    candidates=[
        Variant("loop", backend="cpu", treatments=[LOOP]),
        on_xla("while", WHILE, env=KEEP_BARRIERS),
        on_xla("each", EACH, LOOP, env=KEEP_BARRIERS),
        on_xla("while_each", EACH, WHILE, env=KEEP_BARRIERS),
    ],
    equivalence={"*": Equivalence.DISTRIBUTIONAL},
    golden={"*": (), "loss": ALL_STEPS, "grad_norm": ALL_STEPS},
)
