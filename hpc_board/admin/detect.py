"""Settings from the schedulers of this machine."""

from collections.abc import Callable, Sequence

from hpc_board.errors import SchedulerRefused
from hpc_board.model.gpu import Device
from hpc_board.schedulers import kinds
from hpc_board.schedulers.settings_text import Detected
from hpc_board.transport import Host

_BY_HAND = "Write the settings by hand; the manual has a page on them."


def detected_cluster(host: Host, cluster: str | None = None) -> Detected:
    """Return the settings of the cluster whose commands `host` has, with the name `cluster` or its own.

    Raises:
        SchedulerRefused: this machine has none.
        SchedulerError: its scheduler failed, or answered something else.
    """
    refusals = []
    for kind in [kind for kind in kinds() if not kind.on_this_machine]:
        try:
            if found := kind.detect(host, cluster=cluster):
                return found
        except SchedulerRefused as error:
            refusals.append(error)
    raise refusals[0] if refusals else SchedulerRefused("no scheduler tells of itself", hint=_BY_HAND)


def detected_settings(
    host: Host, board: str, gpus: Sequence[tuple[str, Device]], say: Callable[[str], object]
) -> Detected:
    """Return the settings of the first scheduler that `host` has, with the board in the folder `board`.

    `gpus` are the names of this machine's own devices, each with its kind. `say` gets a notice if no cluster is found
    and the settings are for this machine by itself.

    Raises:
        SchedulerError: a scheduler failed, or answered something else.
    """
    refusals = []
    for kind in kinds():
        try:
            found = kind.detect(host, board=board, gpus=gpus)
        except SchedulerRefused as error:
            refusals.append(f"No {kind.title} here ({error.message})")
            continue
        if found is not None:
            if kind.on_this_machine and refusals:
                say(f"{'. '.join(refusals)}: the settings are for this machine by itself.")
            return found
    raise SchedulerRefused("; ".join(refusals), hint=_BY_HAND)
