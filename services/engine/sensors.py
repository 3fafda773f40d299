"""The temperature of the machine's devices, through NVML where there is one. Without a device there is no reading."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from stagemesh.runtime.telemetry import get_logger

READ_EVERY_S = 1.0

log = get_logger(__name__)


def load_nvml() -> Any | None:
    """The initialised NVML bindings (package nvidia-ml-py), or None where the package or the driver is missing."""
    try:
        nvml = import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        log.info("no device sensors", reason=str(error))
        return None
    return nvml


class DeviceSensors:
    """Reads at most once a second. A device that stops answering has no reading from then on."""

    def __init__(self, nvml: Any | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._nvml, self._clock = nvml, clock
        self._read_s = float("-inf")
        self._celsius: float | None = None

    def hottest_c(self) -> float | None:
        """Degrees Celsius of the hottest device; None without one."""
        if self._nvml is None:
            return None
        now_s = self._clock()
        if now_s - self._read_s >= READ_EVERY_S:
            self._read_s, self._celsius = now_s, self._read(self._nvml)
        return self._celsius

    def _read(self, nvml: Any) -> float | None:
        try:
            handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
            readings = [nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU) for handle in handles]
        except nvml.NVMLError as error:
            if self._celsius is not None:
                log.warning("a device sensor does not answer", reason=str(error))
            return None
        return float(max(readings)) if readings else None
