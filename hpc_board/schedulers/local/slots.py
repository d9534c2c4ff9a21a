"""Slots: the devices of this machine, each for one job at a time."""

import re
from collections.abc import Mapping

import msgspec

from hpc_board.model.gpu import Device

VISIBLE = {Device.CUDA: "CUDA_VISIBLE_DEVICES", Device.HIP: "HIP_VISIBLE_DEVICES"}
"""The environment variable by which each kind of GPU is shown to a process or hidden from it."""


class Slot(msgspec.Struct, frozen=True):
    """One device of a pool: an index, or another value of the variables in `VISIBLE`."""

    pool: str
    device: str

    @property
    def file_name(self) -> str:
        """Return the slot's name in file names."""
        return re.sub(r"[^A-Za-z0-9-]", "_", f"{self.pool}-{self.device}")


def slots(
    device: Device, counts: Mapping[str, int], environment: Mapping[str, str], nvidia_gpus: int
) -> tuple[Slot, ...]:
    """Return the slots on which jobs for this kind of device run, all GPU names of the kind together.

    `counts` overrides their number, by kind ("cuda" -> 2). A list of visible devices in `environment` names them;
    otherwise they are counted from 0, with `nvidia_gpus` for CUDA and one for any other kind.
    """
    visible = environment.get(VISIBLE.get(device, ""))
    if visible is not None:
        devices = [entry.strip() for entry in visible.split(",")]
        end = next((at for at, entry in enumerate(devices) if entry in ("", "-1")), len(devices))
        devices = devices[: min(end, counts.get(device, end))]
    else:
        present = nvidia_gpus if device is Device.CUDA and nvidia_gpus else 1
        devices = [str(index) for index in range(counts.get(device, present))]
    return tuple(Slot(str(device), name) for name in devices)


def slot_environment(slot: Slot) -> dict[str, str]:
    """Return the variables that show a job the slot's device and no other GPU."""
    return {variable: slot.device if slot.pool == kind else "" for kind, variable in VISIBLE.items()}
