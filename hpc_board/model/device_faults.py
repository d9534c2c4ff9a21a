"""Faults of a GPU or its node: the messages of CUDA, HIP, PyTorch and nvidia-smi, with words and a remedy for each."""

import re
from typing import NamedTuple


class DeviceFault(NamedTuple):
    """A fault that no kernel causes: `pattern` is the driver's text, `words` are ours, `remedy` is the next step."""

    pattern: "re.Pattern[str]"
    words: str
    remedy: str


_RESUBMIT = "Rerun; if it fails again, report the message to the admin"


def _fault(pattern: str, words: str, remedy: str) -> DeviceFault:
    return DeviceFault(re.compile(pattern, re.IGNORECASE), words, remedy)


DEVICE_FAULTS = (
    _fault(
        r"busy or unavailable|exclusive-thread device already in use",
        "the GPU is held by another process, or its compute mode is EXCLUSIVE_PROCESS",
        "Report it to the admin: the judge and the kernel are two processes, which need the compute mode DEFAULT "
        "(`nvidia-smi -c 0` on the node) and a GPU that no other job uses.",
    ),
    _fault(
        r"visible devices: 'MIG-|Insufficient Permissions",
        "the job has no permission to use its MIG device or GPU",
        "Report it to the admin: the MIG device must exist, and the job's account and control group must be allowed to "
        "open its files in /dev/nvidia-caps.",
    ),
    _fault(
        r"driver version is insufficient|driver on your system is too old|unsupported toolchain"
        r"|not supported in the installed CUDA driver|forward compatibility|driver combination",
        "the node's driver is too old for the CUDA version of the job",
        "Ask the admin for a newer driver on the node, or a PyTorch and toolkit for its CUDA version (`nvidia-smi`).",
    ),
    _fault(
        r"\bECC\b|nvlink|hardware error",
        "the GPU has a hardware error (memory or link)",
        f"{_RESUBMIT}: the node should be drained, and the GPU reset.",
    ),
    _fault(
        r"GPU is lost|fallen off the bus|no longer describes the GPU|GPU requires reset",
        "the GPU was lost during the run",
        f"{_RESUBMIT}: the node's kernel log has the Xid, and the GPU needs a reset.",
    ),
    _fault(
        r"compute capability \S+, and gpus\.",
        "the node's GPU is not the one of the board's settings",
        "Report it to the admin: `request` selects another GPU model than `arch` names.",
    ),
    _fault(
        r"system not yet initialized",
        "the node's GPUs are not initialized",
        f"{_RESUBMIT}: NVIDIA's Fabric Manager must run on nodes with NVSwitch.",
    ),
    _fault(
        r"\bMPS\b",
        "the node's MPS server rejects the job",
        f"{_RESUBMIT}: the control daemon of MPS must run for the job's account.",
    ),
    _fault(
        r"no (CUDA|ROCm|HIP)-capable device|no (CUDA|HIP) GPUs|no NVIDIA driver|initialization (error|failed)"
        r"|startup failure",
        "the GPU is not usable",
        f"{_RESUBMIT}: the node is broken, or `request` in the settings does not request a GPU.",
    ),
)
"""Each fault once; the first that fits a message is that of the message."""


def device_fault(message: str) -> "DeviceFault | None":
    """Return the fault that a message of a driver or a library tells; None for any other message."""
    return next((each for each in DEVICE_FAULTS if each.pattern.search(message)), None)


def with_words(message: str) -> str:
    """Return a message below the words of the fault that it tells."""
    found = device_fault(message)
    return f"{found.words}: {message}" if found else message
