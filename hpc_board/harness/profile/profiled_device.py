"""A device that profiles its timed calls, within the worker's own process."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hpc_board.harness.device.device import Device
from hpc_board.harness.profile.profilers import NVTX_RANGE

_ROWS = 25
_NAME_CHARACTERS = 1000


class ProfiledDevice:
    """A device whose calls are marked for a profiler outside ("nvtx"), or profiled by PyTorch ("torch").

    Under AddressSanitizer ("asan") they are only prepared, as under any profiler.

    The first call is neither marked nor profiled: it may compile.
    """

    def __init__(self, device: Device, how: str, folder: Path) -> None:
        self.name = device.name
        self.place = device.place
        self.empty_caches = device.empty_caches
        self._device = device
        self._how = how
        self._folder = folder
        self._calls = 0

    def prepare(self, *, warm: bool = False) -> None:
        """Prepare the device, without the work that raises its clocks: a trace would show little else."""
        self._device.prepare(warm=warm)

    def timed(self, call: Callable[[], Any], shown: Any, *, cold: bool) -> tuple[Any, float]:
        """Return the value of `call`, and its nanoseconds including the profiler's own."""
        self._calls += 1
        if self._calls == 1:
            return self._device.timed(call, shown, cold=cold)
        return self._device.timed(lambda: self._profiled(call), shown, cold=cold)

    def _profiled(self, call: Callable[[], Any]) -> Any:
        torch = sys.modules.get("torch")
        if torch is None:
            return call()
        if self._how == "torch":
            return self._by_torch(torch, call)
        if self.name != "cuda":
            return call()
        torch.cuda.nvtx.range_push(NVTX_RANGE)
        try:
            value = call()
            torch.cuda.synchronize()
            return value
        finally:
            torch.cuda.nvtx.range_pop()

    def _by_torch(self, torch: Any, call: Callable[[], Any]) -> Any:
        kinds = torch.profiler.ProfilerActivity
        gpu = self.name == "cuda"
        activities = [kinds.CPU, kinds.CUDA] if gpu else [kinds.CPU]
        with torch.profiler.profile(activities=activities, record_shapes=True) as profile:
            value = call()
            if gpu:
                torch.cuda.synchronize()
        order = "self_cuda_time_total" if gpu else "self_cpu_time_total"
        rows = profile.key_averages()
        (self._folder / "profile.txt").write_text(rows.table(sort_by=order, row_limit=_ROWS), encoding="utf-8")
        (self._folder / "kernels.json").write_text(json.dumps(_kernels(rows, gpu=gpu)), encoding="utf-8")
        profile.export_chrome_trace(str(self._folder / "trace.json"))
        return value


def _kernels(rows: Any, *, gpu: bool) -> list[list[Any]]:
    """Return names, counts and nanoseconds of the longest kernels of a GPU, or of the operators on a CPU."""
    name = "self_device_time_total" if gpu else "self_cpu_time_total"
    # On a GPU, the row of an operator has the time of its kernels too.
    kernels = [row for row in rows if not gpu or str(row.device_type).endswith("CUDA")]
    longest = sorted(kernels, key=lambda row: -getattr(row, name))[:_ROWS]
    return [[row.key[:_NAME_CHARACTERS], row.count, getattr(row, name) * 1000] for row in longest]
