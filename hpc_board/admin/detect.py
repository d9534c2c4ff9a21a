"""Settings from the schedulers of this machine."""

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from hpc_board.domain.diagnostic import Diagnostic, Severity
from hpc_board.errors import NotAvailable, SchedulerRefused
from hpc_board.model.gpu import Device
from hpc_board.schedulers import kinds
from hpc_board.schedulers.settings_text import Detected
from hpc_board.settings import machine_gpu_names
from hpc_board.transport import Host
from hpc_board.transport.this_host import ThisHost


def detected_settings(
    host: Host, *, cluster: str | None = None, board: str | None = None, gpus: Sequence[tuple[str, Device]] = ()
) -> Detected:
    """Return the settings of the first scheduler that `host` has.

    The cluster is called `cluster`, else as it calls itself; `board` is the board's folder. `gpus` are the names of
    this machine's own devices, each with its kind: without any, the schedulers of one machine are left out.

    Raises:
        NotAvailable: this machine has none.
        SchedulerError: a scheduler failed, or answered something else.
    """
    refusals: dict[str, SchedulerRefused] = {}
    for kind in kinds():
        if kind.on_this_machine and not gpus:
            continue
        try:
            found = kind.detect(host, cluster=cluster, board=board, gpus=gpus)
        except SchedulerRefused as error:
            refusals[kind.title] = error
            continue
        if found is None:
            continue
        diagnostics = []
        if kind.on_this_machine and refusals:
            absent = ". ".join(f"No {title} here ({error.message})" for title, error in refusals.items())
            message = f"{absent}: the settings use only this machine."
            diagnostics.append(Diagnostic(Severity.WARNING, "scheduler", message))
        if not found.gpus:
            message = "No entry is certain, so all lines are comments: read them and uncomment the right ones."
            diagnostics.append(Diagnostic(Severity.WARNING, "gpus", message))
        return replace(found, diagnostics=tuple(diagnostics))
    raise next(iter(refusals.values()), None) or NotAvailable(
        "no scheduler was detected", hint="Write the settings by hand; the manual has a page on them."
    )


def settings_of_this_machine(board: Path) -> Detected:
    """Return the settings of the scheduler that this machine has, or of its own GPUs, with the board in `board`.

    Raises:
        SchedulerError: a scheduler failed, or answered something else.
    """
    gpus = [*((name, Device.CUDA) for name in machine_gpu_names()), ("CPU", Device.CPU)]
    return detected_settings(ThisHost(), board=str(board), gpus=gpus)
