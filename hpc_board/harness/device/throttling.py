"""The reasons for lowered clocks of an NVIDIA GPU, by the driver's library NVML."""

import ctypes
from typing import Any

_PROTECTING = 0x08 | 0x20 | 0x40 | 0x80
"""nvmlClocksEventReason...: HwSlowdown, SwThermalSlowdown, HwThermalSlowdown, HwPowerBrakeSlowdown.

The power cap (0x04) is missing here: many honest kernels run at it all of the time (nvml.h, "Clocks Event Reasons").
"""


class Throttling:
    """The present state of the GPU with a UUID; where NVML does not report it, `fault` is the reason."""

    def __init__(self, uuid: str) -> None:
        self._library: Any = None
        self._device = ctypes.c_void_p()
        self.fault = ""
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
            error = (
                library.nvmlInit_v2()
                or library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(self._device))
                # Some GPUs, such as virtual ones, do not have it.
                or library.nvmlDeviceGetCurrentClocksThrottleReasons(self._device, ctypes.byref(ctypes.c_ulonglong()))
            )
        except (OSError, AttributeError) as missing:
            self.fault = str(missing)
            return
        if error:
            self.fault = f"NVML error {error}"
        else:
            self._library = library

    def is_active(self) -> bool:
        """Return whether heat, power supply or the board slow the GPU down now."""
        reasons = ctypes.c_ulonglong()
        if self._library is None:
            return False
        # Drivers from 535 on call them events; the older name stays.
        error = self._library.nvmlDeviceGetCurrentClocksThrottleReasons(self._device, ctypes.byref(reasons))
        return not error and bool(reasons.value & _PROTECTING)
