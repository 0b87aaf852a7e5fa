"""Backends `xla:cpu` and `xla:tpu`: torch_xla over PJRT."""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from xla_equiv.execute.backends.backend import Absence, Backend
from xla_equiv.values.spread import Spread

if TYPE_CHECKING:
    import torch

TPU_DEVICE_FILES = ("accel*", "vfio/[0-9]*")


class _Xla(Backend):
    """What the XLA backends share: one lazy device, brought up by the first call of `device`."""

    packages: tuple[str, ...] = ("torch", "torch_xla")
    spreads = tuple(Spread)
    pjrt_device: str

    def absence(self, devices: int = 1) -> Absence | None:
        if importlib.util.find_spec("torch_xla") is None:
            where = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
            return Absence(
                f"torch_xla is not installed ({where})",
                "pip install 'torch==2.9.*' 'torch_xla==2.9.0' on Linux x86_64 with Python 3.10 to 3.13",
            )
        return None

    def process_env(self, spread: Spread = Spread.ONE, replicas: int = 1) -> Mapping[str, str]:
        return {"PJRT_DEVICE": self.pjrt_device}

    def start(self, spread: Spread) -> None:
        if spread is Spread.SPMD:
            import torch_xla.runtime as xr

            xr.use_spmd()

    def device(self) -> torch.device:
        import torch_xla

        device: torch.device = torch_xla.device()
        return device

    def seed(self, seed: int) -> None:
        import torch_xla.core.xla_model as xm

        xm.set_rng_state(seed)

    def generator_seed(self) -> int:
        import torch_xla.core.xla_model as xm

        return int(xm.get_rng_state())

    def sync(self) -> None:
        import torch_xla

        torch_xla.sync(wait=True)

    def compile_s(self) -> float:
        import torch_xla.debug.metrics as met

        data = met.metric_data("CompileTime")
        return float(data[1]) / 1e9 if data else 0.0


class XlaCpu(_Xla):
    """torch_xla with XLA's CPU compiler, on virtual devices."""

    name = "xla:cpu"
    device_classes = "xla-cpu"
    pjrt_device = "CPU"

    def process_env(self, spread: Spread = Spread.ONE, replicas: int = 1) -> Mapping[str, str]:
        from xla_equiv.execute.replicas.lockstep_env import lockstep_env

        devices = {"CPU_NUM_DEVICES": "1" if spread is Spread.ONE else str(replicas)}
        return {**super().process_env(), **devices, **(lockstep_env(replicas) if spread is Spread.REPLICAS else {})}

    def device_class(self) -> str:
        return "xla-cpu"

    def run_replicas(self, replicas: int, body: Callable[[int], None]) -> None:
        from xla_equiv.execute.replicas.lockstep import Lockstep

        Lockstep(replicas).run(body)


class XlaTpu(_Xla):
    """torch_xla on a TPU; each replica has a chip."""

    name = "xla:tpu"
    device_classes = "tpu-*"
    packages = ("torch", "torch_xla", "libtpu")
    pjrt_device = "TPU"
    is_exclusive = True

    def absence(self, devices: int = 1) -> Absence | None:
        absent = super().absence()
        if absent is not None:
            return absent
        chips = max(len(list(Path("/dev").glob(pattern))) for pattern in TPU_DEVICE_FILES)
        if not chips:
            return Absence(
                "no TPU: neither /dev/accel* nor /dev/vfio/[0-9]* exists",
                "run on a TPU VM, with pip install 'torch_xla[tpu]==2.9.0'",
            )
        if devices not in (1, chips):
            return Absence(
                f"the case has {devices} replicas, the machine {chips} TPU chips",
                f"run on a TPU VM with {devices} chips",
            )
        return None

    def run_replicas(self, replicas: int, body: Callable[[int], None]) -> None:
        from xla_equiv.execute.replicas.launch import launch

        launch(replicas, body)

    def device(self) -> torch.device:
        import torch_xla.backends

        device = super().device()
        if torch_xla.backends.get_mat_mul_precision() != "highest":
            torch_xla.backends.set_mat_mul_precision("highest")  # the default multiplies float32 as bfloat16
        return device

    def device_class(self) -> str:
        from torch_xla import tpu

        return f"tpu-{tpu.get_tpu_type()}"
