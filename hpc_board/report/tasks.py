"""A task as blocks."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from hpc_board.model.gpu import Gpu
from hpc_board.model.limits import Limits
from hpc_board.model.task import ISOLATED, CaseValue, Milestone, Task, TaskFile, case_text
from hpc_board.model.text import one_line, printable
from hpc_board.report.blocks import Block, Column, Facts, Heading, Paragraph, Table, table
from hpc_board.report.formatting import RANKING_WORDS
from hpc_board.report.tables import deadline_text

_TIME_LIMITS = {"load_seconds": "load", "first_call_seconds": "first call", "call_seconds": "call"}


def task_report(task: Task, gpus: Sequence[Gpu], now: datetime) -> tuple[Block, ...]:
    """Return a task's description, rules, cases and files; `gpus` are the GPUs that it may use here."""
    blocks: list[Block] = [
        Heading(f"Task {task.name}"),
        Paragraph(printable(task.description).strip() or "No description."),
        Heading("Rules"),
        Facts(tuple(_rules(task, gpus, now))),
    ]
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


def _rules(task: Task, gpus: Sequence[Gpu], now: datetime) -> Iterator[tuple[str, str]]:
    yield "languages" if len(task.accepted) > 1 else "language", ", ".join(task.accepted)
    if task.flags:
        yield "compiler flags", one_line(" ".join(task.flags))
    yield "GPUs", ", ".join(gpu.name for gpu in gpus) or "none here"
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
    if task.libraries:
        yield "libraries", one_line(", ".join(task.libraries))
    if task.templates:
        yield "templates", one_line(", ".join(task.templates))
    yield "harness", f"{task.harness}, task version {task.version[:12]}"


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
    return "with the service" if task.published_version else f"{len(file.text.splitlines())} lines"
