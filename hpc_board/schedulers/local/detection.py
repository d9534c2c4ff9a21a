"""Settings for a machine by itself."""

from collections.abc import Sequence

from hpc_board.model.gpu import Device
from hpc_board.schedulers.settings_text import Detected, comment, quoted, scalar


def detected_settings(board: str, gpus: Sequence[tuple[str, Device]]) -> Detected:
    """Return a settings file for this machine by itself, with the board in the folder `board`.

    `gpus` are the names of its devices, each with its kind.
    """
    entries = [
        f"  {scalar(name)}: {{cluster: here{'' if name == 'CPU' else f', device: {device}'}}}" for name, device in gpus
    ]
    lines = [
        *comment("Settings of hpc-board for this machine by itself: there is no Slurm on it.", ""),
        "",
        f"board: {quoted(board)}",
        "",
        "clusters:",
        "  here: {scheduler: local}    # one job at a time on each device",
        "",
        "gpus:",
        *entries,
    ]
    return Detected("\n".join(lines) + "\n", tuple(name for name, _ in gpus))
