"""The state of a GPU by NVML, as a library of that name answers."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.compiling import needs_gcc

LIBRARY = """
int nvmlInit_v2(void) { return INIT; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) { *device = (void *)uuid; return uuid[0] != 'G'; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) {
    *reasons = REASONS;
    return ((char *)device)[4] == 'v' ? 3 : 0;
}
"""
ASKED = """
from hpc_board.harness.device.device import Throttling
found = Throttling('%s')
print(found.is_active(), found.fault)
"""


@needs_gcc
@pytest.mark.parametrize(
    ("reasons", "init", "uuid", "told"),
    [
        (0x1, 0, "GPU-1", "False "),  # idle
        (0x4, 0, "GPU-1", "False "),  # power cap
        (0x8, 0, "GPU-1", "True "),
        (0x40 | 0x4, 0, "GPU-1", "True "),
        (0x40, 999, "GPU-1", "False NVML error 999"),
        (0x40, 0, "MIG-1", "False NVML error 1"),
        (0x40, 0, "GPU-v", "False NVML error 3"),
    ],
)
def test_a_gpu_that_protects_itself_is_throttled(tmp_path: Path, reasons: int, init: int, uuid: str, told: str) -> None:
    source, library = tmp_path / "nvml.c", tmp_path / "libnvidia-ml.so.1"
    source.write_text(LIBRARY)
    subprocess.run(
        ["gcc", "-shared", "-fPIC", f"-DREASONS={reasons}ULL", f"-DINIT={init}", "-o", library, source], check=True
    )
    environ = {"LD_LIBRARY_PATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", ASKED % uuid], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == f"{told}\n"


def test_a_node_without_the_library_says_so() -> None:
    done = subprocess.run([sys.executable, "-c", ASKED % "GPU-1"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False libnvidia-ml.so.1: cannot open shared object file")
