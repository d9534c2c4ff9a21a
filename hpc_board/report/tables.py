"""Tasks and GPUs as tables."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from hpc_board.domain.board_options import moment_words
from hpc_board.model.gpu import Gpu, GpuStatus
from hpc_board.model.task import Task
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Column, Table, table


def tasks_table(tasks: Sequence[Task], gpus: Mapping[str, Sequence[Gpu]], now: datetime) -> Table:
    """Return tasks with their deadlines and GPUs; `gpus` has the latter by task name."""
    return table(
        tasks,
        (Column("TASK"), lambda task: one_line(task.name)),
        (Column("LANGUAGE"), lambda task: " ".join(task.accepted)),
        (Column("DEADLINE"), lambda task: deadline_text(task.deadline, now)),
        (Column("GPUS", flexible=True), lambda task: ", ".join(gpu.name for gpu in gpus[task.name]) or "none here"),
        (Column("DESCRIPTION", flexible=True), lambda task: one_line(first_sentence(task.description))),
        empty="No tasks. List their folders under `tasks` in the settings.",
    )


def first_sentence(description: str) -> str:
    """Return the first paragraph of a task's description."""
    return description.strip().split("\n\n", maxsplit=1)[0]


def deadline_text(deadline: datetime | None, now: datetime) -> str:
    """Return a deadline, marked once it is over; "none" without one."""
    if deadline is None:
        return "none"
    return moment_words(deadline) + (" (over)" if deadline <= now else "")


def gpus_table(statuses: Sequence[GpuStatus], now: datetime) -> Table:
    """Return GPUs with partition, free GPUs and queued jobs; "?" is an unknown number.

    Answers that clients of the board share add a column with their age.
    """
    told: dict[tuple[str, str], str] = {}
    shared = any(status.asked_at for status in statuses)
    return table(
        statuses,
        (Column("GPU"), lambda status: one_line(status.gpu.name)),
        (Column("CLUSTER"), lambda status: one_line(status.gpu.cluster.name)),
        (Column("PARTITION"), lambda status: one_line(status.gpu.partition) or "-"),
        (Column("FREE", right=True), lambda status: _count(status.availability.free)),
        (Column("TOTAL", right=True), lambda status: _count(status.availability.total)),
        (Column("QUEUED", right=True), lambda status: _count(status.availability.queued)),
        (Column("UPDATED"), lambda status: _asked_text(status.asked_at, now)) if shared else None,
        (Column("REMARK", flexible=True), lambda status: _remark(status, told)),
        empty="No GPUs. List them under `gpus` in the settings.",
    )


def _count(number: int | None) -> str:
    return "?" if number is None else str(number)


def _asked_text(asked_at: datetime | None, now: datetime) -> str:
    from hpc_board.report.formatting import span_text

    return "now" if asked_at is None else f"{span_text(now - asked_at)} ago"


def _remark(status: GpuStatus, told: dict[tuple[str, str], str]) -> str:
    """Return the remark on a GPU; only the first GPU of those with one problem of a cluster has it in full."""
    told_at = told.setdefault((status.gpu.cluster.name, status.problem), status.gpu.name)
    emulated = "emulated on the CPU" if status.gpu.emulated else ""
    repeated = status.problem and told_at != status.gpu.name
    state = f"see {told_at}" if repeated else status.problem or status.availability.state
    return "; ".join(part for part in (one_line(state), emulated, one_line(status.warning)) if part)
