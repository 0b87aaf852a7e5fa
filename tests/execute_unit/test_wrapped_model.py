"""Which of several treatments decides what."""

from torch import nn

from xla_equiv.execute.wrapped import WrappedModel
from xla_equiv.treatments import FabricFSDP, LoopedAccumulation, SyncFreeOptimizer, Treatment, XlaFSDP
from xla_equiv.values.treatment import Accumulates, Checkpoints, Clips, Reduces


class Plain(Treatment):
    """Changes nothing."""


class OtherClip(Plain):
    def clip(self, model: object, optimizer: object, max_norm: float) -> None:
        return None


def wrapped(*treatments: Treatment) -> WrappedModel:
    return WrappedModel(nn.Linear(2, 2), treatments)


def test_the_last_treatment_that_clips_does() -> None:
    first, last = OtherClip(), OtherClip()
    assert wrapped(first, last, Plain()).clipping is last
    assert wrapped(Plain()).clipping is None


def test_where_no_treatment_saves_the_state_of_the_model_is_saved() -> None:
    assert wrapped(OtherClip(), LoopedAccumulation()).checkpointing is None


def test_the_last_treatment_that_overrides_a_method_decides_it() -> None:
    one = SyncFreeOptimizer()
    assert wrapped(one, Plain()).deciding("prepare_optimizer") is one
    assert type(wrapped(Plain()).deciding("prepare_optimizer")) is Treatment


def test_what_a_treatment_has_is_what_it_does() -> None:
    kinds = (Accumulates, Reduces, Clips, Checkpoints)
    found = {type(one): [isinstance(one, kind) for kind in kinds] for one in (Plain(), LoopedAccumulation(), XlaFSDP(), FabricFSDP())}
    assert found == {
        Plain: [False, False, False, False],
        LoopedAccumulation: [True, False, False, False],
        XlaFSDP: [False, False, True, False],
        FabricFSDP: [True, False, True, True],
    }
