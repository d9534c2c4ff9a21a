"""Tasks and GPUs as tables."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from hpc_board.domain.board_options import moment_words
from hpc_board.model.gpu import Gpu, GpuStatus
from hpc_board.model.task import Task
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Column, Table


def tasks_table(tasks: Sequence[Task], gpus: Mapping[str, Sequence[Gpu]], now: datetime) -> Table:
    """Return tasks with their deadlines and GPUs; `gpus` has the latter by task name."""
    columns = (
        Column("TASK"),
        Column("LANGUAGE"),
        Column("DEADLINE"),
        Column("GPUS", flexible=True),
        Column("DESCRIPTION", flexible=True),
    )
    rows = tuple(
        (
            one_line(task.name),
            " ".join(task.accepted),
            deadline_text(task.deadline, now),
            ", ".join(gpu.name for gpu in gpus[task.name]) or "none here",
            one_line(first_sentence(task.description)),
        )
        for task in tasks
    )
    return Table(columns, rows, "No tasks. List their folders under `tasks` in the settings.")


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
    shared = any(status.asked_at for status in statuses)
    columns = (
        Column("GPU"),
        Column("CLUSTER"),
        Column("PARTITION"),
        Column("FREE", right=True),
        Column("TOTAL", right=True),
        Column("QUEUED", right=True),
        *([Column("UPDATED")] if shared else []),
        Column("REMARK", flexible=True),
    )
    told: dict[tuple[str, str], str] = {}
    rows = tuple(
        (
            one_line(status.gpu.name),
            one_line(status.gpu.cluster.name),
            one_line(status.gpu.partition) or "-",
            *(
                "?" if number is None else str(number)
                for number in (status.availability.free, status.availability.total, status.availability.queued)
            ),
            *([_asked_text(status.asked_at, now)] if shared else []),
            _remark(status, told.setdefault((status.gpu.cluster.name, status.problem), status.gpu.name)),
        )
        for status in statuses
    )
    return Table(columns, rows, "No GPUs. List them under `gpus` in the settings.")


def _asked_text(asked_at: datetime | None, now: datetime) -> str:
    from hpc_board.report.formatting import span_text

    return "now" if asked_at is None else f"{span_text(now - asked_at)} ago"


def _remark(status: GpuStatus, told_at: str) -> str:
    """Return the remark on a GPU; only the row of the GPU `told_at` has the problem of a cluster in full."""
    emulated = "emulated on the CPU" if status.gpu.emulated else ""
    repeated = status.problem and told_at != status.gpu.name
    state = f"see {told_at}" if repeated else status.problem or status.availability.state
    return "; ".join(part for part in (one_line(state), emulated, one_line(status.warning)) if part)
