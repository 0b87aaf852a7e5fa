"""What a backend of another package must bring."""

import pytest
import torch

from xla_equiv.execute.backends import Backend, backends
from xla_equiv.values.errors import SelectionError
from xla_equiv.values.spread import Spread


class Unfinished(Backend):
    name = "unfinished"
    device_classes = "unfinished"

    def device(self) -> torch.device:
        raise AssertionError("this backend cannot be made")


class OneDevice(Unfinished):
    def device_class(self) -> str:
        return self.name


def test_a_backend_that_does_not_name_its_class_of_devices_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="device_class"):
        Unfinished()  # type: ignore[abstract]


def test_a_backend_that_does_not_say_how_refuses_replicas() -> None:
    with pytest.raises(SelectionError, match="the backend 'unfinished' does not say how to run 4 replicas") as refused:
        OneDevice().run_replicas(4, print)
    assert "override run_replicas in OneDevice" in str(refused.value)


@pytest.mark.parametrize("name", list(backends()))
def test_a_backend_that_promises_replicas_says_how_to_run_them(name: str) -> None:
    backend = backends()[name]
    assert (Spread.REPLICAS in backend.spreads) is (type(backend).run_replicas is not Backend.run_replicas)
