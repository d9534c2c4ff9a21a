"""The free share of a GPU, from the lists of sinfo and squeue."""

import re
from collections.abc import Sequence
from typing import Final

from hpc_board.model.gpu import Availability, Device, Gpu
from hpc_board.model.text import one_line
from hpc_board.schedulers import SchedulerNode
from hpc_board.schedulers.slurm import RequestStyle, gpu_options
from hpc_board.schedulers.slurm.gres import matching_count, requested_gres
from hpc_board.schedulers.slurm.outputs import ListedNode, NodeRow

_USABLE: Final = frozenset({"idle", "mixed", "allocated", "completing", "planned"})
_STATE = re.compile(r"([a-z_]+)(.*)", re.DOTALL)
_ALL_OF = re.compile(r"[A-Za-z0-9_.+:=&-]+")
_UNUSABLE_MARKS: Final = frozenset("*$@^!%")
"""sinfo's marks for: does not answer, maintenance, reboot wanted, rebooting, going to be powered down, going down."""


def availability(gpu: Gpu, nodes: Sequence[NodeRow], waiting: Sequence[str]) -> Availability:
    """Count the units of `gpu`, the free ones among them, and the jobs that wait for its partition.

    The unit is a GPU of the requested kind; without such a request a CPU for the CPU, else a whole node. `waiting`
    holds the partition of each waiting job, or several joined by commas.
    """
    wanted = set(gpu.partition.split(",")) if gpu.partition else {row.partition for row in nodes if row.default}
    members = [row for row in nodes if row.partition in wanted]
    if not members:
        return Availability(
            gpu.name, state=f"no partition {gpu.partition}" if gpu.partition else "no default partition"
        )
    counts = {row.node: _free_and_total(gpu, row) for row in members}
    up = any(row.available == "up" for row in members)
    total = sum(total for _, total in counts.values())
    gres = requested_gres(gpu_options(gpu).request)
    if not total and gres is not None:
        kind = f"{gres.name}:{gres.type}" if gres.type else gres.name
        state = f"no node of {', '.join(sorted(wanted))} has {kind}"
    else:
        state = "up" if up else members[0].available
    return Availability(
        gpu.name,
        free=sum(free for free, _ in counts.values()) if up else 0,
        total=total,
        queued=sum(not wanted.isdisjoint(partitions.split(",")) for partitions in waiting),
        state=one_line(state, 200),
    )


def nodes_of(gpu: Gpu, listed: Sequence[ListedNode]) -> list[SchedulerNode]:
    """Return the nodes that have the requested GPUs and features.

    A constraint other than features joined by `&` leaves the choice to Slurm.
    """
    options = gpu_options(gpu)
    gres = requested_gres(options.request)
    by_request = options.request.value if options.request.style is RequestStyle.CONSTRAINT else ""
    features = {
        word
        for constraint in (options.constraint, by_request)
        if _ALL_OF.fullmatch(constraint)
        for word in constraint.split("&")
    }
    reserved = bool(options.reservation)
    found = []
    for each in listed:
        if (gres is None or matching_count(each.gres, gres)) and features <= set(each.features):
            takes_jobs = is_usable(each.state, reserved=reserved) and (reserved or not each.reserved)
            reason = "" if takes_jobs else one_line(each.reason, 200)
            found.append(SchedulerNode(each.node, one_line(each.state, 60), takes_jobs, each.state == "idle", reason))
    return found


def _free_and_total(gpu: Gpu, row: NodeRow) -> tuple[int, int]:
    reservation = bool(gpu_options(gpu).reservation)
    usable = is_usable(row.state, reserved=reservation) and (reservation or not row.reserved)
    gres = requested_gres(gpu_options(gpu).request)
    if gres is not None:
        total = matching_count(row.gres, gres)
        free = max(0, total - matching_count(row.gres_used, gres))
    elif gpu.device is Device.CPU and gpu_options(gpu).request.style is RequestStyle.NONE:
        total, free = row.cpus, row.cpus_idle
    else:
        total, free = 1, int(row.state.startswith("idle"))
    return (free if usable else 0), total


def is_usable(state: str, *, reserved: bool) -> bool:
    """Return whether jobs start on a node in this sinfo state: "idle", "mixed~" (asleep) or "idle*" (silent)."""
    match = _STATE.fullmatch(state)
    if match is None:
        return False
    word, marks = match.groups()
    return _UNUSABLE_MARKS.isdisjoint(marks) and (word in _USABLE or (reserved and word == "reserved"))
