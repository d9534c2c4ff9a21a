"""Settings from the schedulers of this machine."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hpc_board.domain.diagnostic import Diagnostic, Rule, Severity, applied
from hpc_board.errors import SchedulerRefused
from hpc_board.model.gpu import Device
from hpc_board.schedulers import AnyKind, kinds
from hpc_board.schedulers.settings_text import Detected
from hpc_board.settings import machine_gpu_names
from hpc_board.transport import Host
from hpc_board.transport.this_host import ThisHost

_BY_HAND = "Write the settings by hand; the manual has a page on them."


class _Search(msgspec.Struct, frozen=True):
    """A search for a scheduler: the one that was found, its settings, and the refusals of those before it."""

    kind: AnyKind
    detected: Detected
    refusals: tuple[str, ...] = ()


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
                return _with_diagnostics(_Search(kind, found))
        except SchedulerRefused as error:
            refusals.append(error)
    raise refusals[0] if refusals else SchedulerRefused("no scheduler was detected", hint=_BY_HAND)


def detected_settings(host: Host, board: str, gpus: Sequence[tuple[str, Device]]) -> Detected:
    """Return the settings of the first scheduler that `host` has, with the board in the folder `board`.

    `gpus` are the names of this machine's own devices, each with its kind.

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
            return _with_diagnostics(_Search(kind, found, tuple(refusals)))
    raise SchedulerRefused("; ".join(refusals), hint=_BY_HAND)


def settings_of_this_machine(board: Path) -> Detected:
    """Return the settings of the scheduler that this machine has, or of its own GPUs, with the board in `board`.

    Raises:
        SchedulerError: a scheduler failed, or answered something else.
    """
    gpus = [*((name, Device.CUDA) for name in machine_gpu_names()), ("CPU", Device.CPU)]
    return detected_settings(ThisHost(), str(board), gpus)


def _with_diagnostics(search: _Search) -> Detected:
    return replace(search.detected, diagnostics=(*search.detected.diagnostics, *applied(_RULES, search)))


def _without_cluster(search: _Search) -> Iterator[Diagnostic]:
    if search.kind.on_this_machine and search.refusals:
        message = f"{'. '.join(search.refusals)}: the settings use this machine alone."
        yield Diagnostic(Severity.WARNING, "scheduler", message)


def _uncertain(search: _Search) -> Iterator[Diagnostic]:
    if not search.detected.gpus:
        message = "No entry is certain, so all lines are comments: read them and uncomment the right ones."
        yield Diagnostic(Severity.WARNING, "gpus", message)


_RULES: tuple[Rule[_Search], ...] = (_without_cluster, _uncertain)
"""The checks of detected settings."""
