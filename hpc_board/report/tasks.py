"""Tasks and GPUs as blocks; a list imports no more than it prints."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from hpc_board.domain.board_options import is_past, moment_words
from hpc_board.domain.imported import Imported
from hpc_board.model.gpu import Gpu, GpuStatus
from hpc_board.model.task import ISOLATED, CaseValue, Milestone, Task, TaskFile, case_text
from hpc_board.model.text import one_line, printable
from hpc_board.report.blocks import Block, Column, Facts, Heading, Paragraph, Table, table

if TYPE_CHECKING:
    from hpc_board.domain.runner import Runner

_TIME_LIMITS = {"load_seconds": "load", "first_call_seconds": "first call", "call_seconds": "call"}


def tasks_table(tasks: Sequence[Task], gpus: Mapping[str, Sequence[Gpu]], now: datetime) -> Table:
    """Return tasks with their deadlines and GPUs; `gpus` has the latter by task name."""
    return table(
        tasks,
        (Column("TASK"), lambda task: one_line(task.name)),
        (Column("LANGUAGE"), lambda task: " ".join(task.accepted)),
        (Column("DEADLINE"), lambda task: deadline_text(task.deadline, now)),
        (
            Column("GPUS", flexible=True),
            lambda task: ", ".join(gpu.name for gpu in gpus[task.name]) or "none on this board",
        ),
        (Column("DESCRIPTION", flexible=True), _description),
        empty="No tasks. List their folders under `tasks` in the settings.",
    )


def imports_report(tasks: Sequence[Imported]) -> Iterator[Block]:
    """Yield the account of each imported task."""
    for each in tasks:
        yield Heading(f"Task {one_line(each.name)}")
        source, licence = one_line(str(each.source), 300), one_line(each.licence, 300) or "none found"
        yield Facts((("source", source), ("format", each.format), ("licence of the source", licence)))
        yield table(
            each.parts,
            (Column("PART"), lambda part: one_line(part.name, 60)),
            (Column("BASIS"), lambda part: str(part.basis)),
            (Column("TASK", flexible=True), lambda part: one_line(part.became, 400)),
        )


def _description(task: Task) -> str:
    words = one_line(first_sentence(task.description))
    return f"start here: {words}" if task.start_here else words


def first_sentence(description: str) -> str:
    """Return the first paragraph of a task's description."""
    return description.strip().split("\n\n", maxsplit=1)[0]


def deadline_text(deadline: datetime | None, now: datetime) -> str:
    """Return a deadline, marked once it is over; "none" without one."""
    if deadline is None:
        return "none"
    return moment_words(deadline) + (" (over)" if is_past(deadline, now) else "")


def gpus_table(
    statuses: Sequence[GpuStatus], now: datetime, runners: "Sequence[Runner]" = (), reader: str = ""
) -> Table:
    """Return GPUs with partition, free GPUs and queued jobs; "?" is an unknown number.

    Answers that clients of the board share add a column with their age. The remark names the users whose `runners` hold
    a GPU, and `reader` is the user who reads it.
    """
    shared = any(status.asked_at for status in statuses)
    return table(
        statuses,
        (Column("GPU"), lambda status: one_line(status.gpu.name)),
        (Column("CLUSTER"), lambda status: one_line(status.gpu.cluster.name)),
        (Column("PARTITION"), lambda status: one_line(status.gpu.partition) or "-"),
        (Column("FREE", right=True), lambda status: known_count(status.availability.free)),
        (Column("TOTAL", right=True), lambda status: known_count(status.availability.total)),
        (Column("QUEUED", right=True), lambda status: known_count(status.availability.queued)),
        (Column("UPDATED"), lambda status: _asked_text(status.asked_at, now)) if shared else None,
        (Column("REMARK", flexible=True), lambda status: _remark(status, runners, reader, now)),
        empty="No GPUs. List them under `gpus` in the settings.",
    )


def known_count(number: int | None) -> str:
    """Return a number; "?" if it is unknown."""
    return "?" if number is None else str(number)


def _asked_text(asked_at: datetime | None, now: datetime) -> str:
    from hpc_board.report.formatting import span_text

    return "now" if asked_at is None else f"{span_text(now - asked_at)} ago"


def _remark(status: GpuStatus, runners: "Sequence[Runner]", reader: str, now: datetime) -> str:
    emulated = "emulated on the CPU" if status.gpu.emulated else ""
    held = [_held_text(each, reader, now) for each in runners if each.gpu == status.gpu.name and each.started_at]
    parts = (one_line(status.problem or status.availability.state), emulated, one_line(status.warning), *held)
    return "; ".join(filter(None, parts))


def _held_text(runner: "Runner", reader: str, now: datetime) -> str:
    from hpc_board.report.runners import left_text

    user = "you" if runner.user == reader else one_line(runner.user) or "the board"
    return f"held by {user}, {'ending' if runner.is_ending else f'{left_text(runner, now)} left'}"


def task_report(task: Task, gpus: Sequence[str], now: datetime) -> tuple[Block, ...]:
    """Return a task's description, rules, cases and files; `gpus` are the GPUs that it may use here."""
    description = Paragraph(printable(task.description).strip() or "No description.")
    return Heading(f"Task {task.name}"), description, *rules_report(task, gpus, now)


def rules_report(task: Task, gpus: Sequence[str], now: datetime) -> tuple[Block, ...]:
    """Return a task's rules, cases and files; `gpus` are the GPUs that it may use here."""
    blocks: list[Block] = [Heading("Rules"), Facts(tuple(_rules(task, gpus, now)))]
    for title, cases in (("Tests", task.tests), ("Benchmarks", task.benchmarks)):
        if cases:
            blocks += [Heading(title), _cases_table(cases)]
    if task.milestones:
        blocks += [Heading("Milestones"), _milestones_table(task.milestones)]
    blocks += [Heading("Files"), _files_table(task)]
    return tuple(blocks)


def _milestones_table(milestones: Sequence[Milestone]) -> Table:
    return table(
        milestones,
        (Column("NAME", flexible=True), lambda each: one_line(each.name)),
        (Column("EXCLUDED GPUS", flexible=True), lambda each: one_line(", ".join(each.exclude_gpus))),
        (Column("DESCRIPTION", flexible=True), lambda each: one_line(each.description)),
    )


def _rules(task: Task, gpus: Sequence[str], now: datetime) -> Iterator[tuple[str, str]]:
    from hpc_board.model.limits import Limits
    from hpc_board.report.formatting import RANKING_WORDS

    yield "languages" if len(task.accepted) > 1 else "language", ", ".join(task.accepted)
    if task.flags:
        yield "compiler flags", one_line(" ".join(task.flags))
    yield "GPUs", ", ".join(gpus) or "none on this board"
    yield "deadline", deadline_text(task.deadline, now)
    times = "" if task.harness == ISOLATED else ", by reported mean times"
    yield "score", f"{RANKING_WORDS[task.ranking_by]}{times}"
    timeouts = task.timeouts
    yield "test time limit", f"{timeouts.test_seconds} s"
    yield "benchmark time limit", f"{timeouts.benchmark_seconds} s"
    yield (
        "ranked time limit",
        f"{timeouts.test_seconds} s for the tests, {timeouts.ranked_seconds} s for the benchmarks",
    )
    limits = Limits.of_task(task.limits)
    for name, step in _TIME_LIMITS.items():
        yield f"{step} time limit", f"{getattr(limits, name):g} s"
    for name, value in sorted(task.limits.items()):
        if name not in _TIME_LIMITS:
            yield one_line(name).replace("_", " "), f"{value:g}"
    if hidden := hidden_text(task):
        yield "hidden cases", f"{hidden}, in ranked runs"
    if task.prepare:
        yield "inputs to prepare", one_line(", ".join(map(str, task.prepare)))
    if rule := task.means.words():
        yield "means", rule
    if task.const_inputs:
        yield "inputs", "a call must leave them unchanged"
    if task.fresh_output:
        yield "output", "in memory of its own, apart from the inputs"
    if task.libraries:
        yield "libraries", one_line(", ".join(task.libraries))
    if task.templates:
        yield "templates", f"{one_line(', '.join(task.templates))} (`hpc-board template {one_line(task.name)}`)"
    yield "harness", f"{task.harness}, task version {task.version[:12]}"


def hidden_text(task: Task) -> str:
    """Return the number of a task's hidden cases of each kind; empty without any."""
    from hpc_board.report.formatting import count_text

    counts = ((len(task.hidden_tests), "test"), (len(task.hidden_benchmarks), "benchmark"))
    return " and ".join(count_text(count, kind) for count, kind in counts if count)


def _cases_table(cases: Sequence[Mapping[str, CaseValue]]) -> Table:
    return table(
        list(enumerate(cases, start=1)),
        (Column("#", right=True), lambda row: str(row[0])),
        (Column("CASE", flexible=True), lambda row: one_line(case_text(row[1]))),
    )


def _files_table(task: Task) -> Table:
    return table(
        task.files,
        (Column("FILE"), lambda file: one_line(file.name)),
        (Column("CONTENTS"), lambda file: _contents(task, file)),
    )


def _contents(task: Task, file: TaskFile) -> str:
    if file.text is None:
        return "your submission"
    return "not published by the service" if task.published_version else f"{len(file.text.splitlines())} lines"
