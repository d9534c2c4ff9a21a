"""The use of a board as blocks: statistics, and removed job folders."""

from collections.abc import Iterator
from datetime import timedelta

from hpc_board.domain.pruned import Pruned
from hpc_board.domain.statistics import Statistics
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Block, Column, Facts, Heading, Paragraph, Table, Tone, table
from hpc_board.report.formatting import bytes_text, count_text, moment_text, span_text


def statistics_report(found: Statistics) -> tuple[Block, ...]:
    """Return the totals of a board, its GPUs, and its most active users."""
    of = ", ".join(map(one_line, found.tasks)) or "All tasks"
    since = "" if found.since is None else f", since {moment_text(found.since)}"
    facts = (
        ("submissions", str(found.submissions)),
        ("runs", f"{found.runs} ({found.waiting} in flight)"),
        ("users", str(found.users)),
        ("unique files", str(found.unique_codes)),
        ("GPU-seconds", _total_text(found)),
    )
    return (Heading(f"{of}{since}"), Facts(facts), Heading("GPUs"), _gpus(found), Heading("Users"), _users(found))


def _gpus(found: Statistics) -> Table:
    return table(
        found.gpus,
        (Column("GPU", flexible=True), lambda gpu: one_line(gpu.gpu)),
        (Column("RUNS", right=True), lambda gpu: str(gpu.runs)),
        (Column("PASSED", right=True), lambda gpu: str(gpu.passed)),
        (Column("SCORED", right=True), lambda gpu: str(gpu.scored)),
        (Column("MEDIAN WAIT", right=True), lambda gpu: _seconds_text(gpu.wait_median_s)),
        (Column("LONGEST WAIT", right=True), lambda gpu: _seconds_text(gpu.wait_max_s)),
        (Column("TOTAL RUN TIME", right=True), lambda gpu: _seconds_text(gpu.run_total_s)),
        empty="No runs.",
    )


def _users(found: Statistics) -> Table:
    return table(
        found.top_users,
        (Column("USER", flexible=True), lambda user: one_line(user.user)),
        (Column("SUBMISSIONS", right=True), lambda user: str(user.submissions)),
        (Column("RUNS", right=True), lambda user: str(user.runs)),
        (Column("GPU-SECONDS", right=True), lambda user: _gpu_seconds_text(user.gpu_seconds)),
        (Column("HELD IDLE", right=True), lambda user: _gpu_seconds_text(user.idle_gpu_seconds)),
        (Column("RUN TIME", right=True), lambda user: _seconds_text(user.run_total_s)),
        empty="No submissions.",
    )


def _seconds_text(seconds: float | None) -> str:
    return "?" if seconds is None else span_text(timedelta(seconds=seconds))


def _total_text(found: Statistics) -> str:
    idle = f" ({_gpu_seconds_text(found.idle_gpu_seconds)} held idle)" if found.idle_gpu_seconds else ""
    return f"{_gpu_seconds_text(found.gpu_seconds)}{idle}"


def _gpu_seconds_text(seconds: float) -> str:
    return f"{seconds:,.0f}"


def pruned_report(pruned: Pruned) -> Iterator[Block]:
    """Yield the number of removed folders and the freed space, and the problems of clusters."""
    done = pruned.clusters.values()
    parts = [count_text(sum(each.folders for each in done), "job folder")]
    if harnesses := sum(each.harness_files for each in done):
        parts.append(count_text(harnesses, "unused harness file"))
    space = bytes_text(sum(each.bytes for each in done))
    verb, end = ("Would remove", "would be freed") if pruned.dry_run else ("Removed", "freed")
    yield Paragraph(
        f"{verb} {' and '.join(parts)} of runs that ended before {moment_text(pruned.before)}: {space} {end}."
    )
    for name, each in pruned.clusters.items():
        if each.problem:
            yield Paragraph(f"Cluster {one_line(name)}: {one_line(each.problem, 300)}", Tone.BAD)
