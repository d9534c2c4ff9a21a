"""Moderation as tables: limits, bans, the audit log, and rerun candidates."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from hpc_board.domain.board_options import moment_words
from hpc_board.domain.clock import span_words
from hpc_board.domain.moderation import (
    END,
    EVERYTHING,
    HOLD,
    LINK,
    REASON_CHARACTERS_MAX,
    Category,
    Decision,
    GpuLimit,
    HeldGpu,
    Limits,
    Link,
    Period,
    Removal,
)
from hpc_board.domain.run import Run
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Block, Column, Facts, Heading, Paragraph, Table, Tone, table
from hpc_board.report.formatting import count_text, late_text, moment_text, score_text

if TYPE_CHECKING:
    from hpc_board.domain.draft import RerunCandidate
    from hpc_board.domain.near_copies import NearCopy
    from hpc_board.report.grading import Cell

_SUBJECTS = {"": "all boards", "user": "user", "board": "board", "submission": "submission", "gpu": "GPU"}


def limits_table(limits: Sequence[tuple[Decision, Limits]], of_gpus: tuple[Decision, GpuLimit] | None) -> Table:
    """Return the limit on GPU time, and the limits of boards."""
    rows = [
        (decision, whose_text(each), limit_text(each.ranked, each.per), limit_text(each.other, each.per), "")
        for decision, each in limits
    ]
    if of_gpus is not None:
        decision, limit = of_gpus
        rows.insert(0, (decision, whose_text(Limits()), "", "", f"{limit.gpu_seconds:,} {limit.per.per}"))
    return table(
        rows,
        (Column("BOARD", flexible=True), lambda row: one_line(row[0].subject) or _SUBJECTS[EVERYTHING]),
        (Column("FOR", flexible=True), lambda row: row[1]),
        (Column("RANKED", right=True), lambda row: row[2]),
        (Column("OTHER", right=True), lambda row: row[3]),
        (Column("GPU-SECONDS", right=True), lambda row: row[4]),
        (Column("BY", flexible=True), lambda row: one_line(row[0].by_user)),
        (Column("SINCE"), lambda row: _when(row[0])),
        empty="No limits.",
    )


def whose_text(limits: Limits) -> str:
    """Return the users of limits in words."""
    if limits.user:
        return f"user {one_line(limits.user)}"
    return "all users" if limits.role is None else f"each {limits.role}"


def limit_text(limit: int | None, per: Period) -> str:
    """Return a limit of submissions per period in words."""
    if limit is None:
        return "none"
    return f"{limit}{per.unit}" if limit else "closed"


def category_text(limits: Sequence[Limits], category: Category) -> str:
    """Return the limits of one category in words: "5/h 20/d", "none", "closed"."""
    found = [limit_text(limit, each.per) for each in limits if (limit := each.of(category)) is not None]
    return "closed" if "closed" in found else ", ".join(found) or "none"


def board_limits_text(limits: Sequence[Limits]) -> str:
    """Return all limits of a board in words: "all users ranked 5/h, other 60/h; user bob ranked 9/d"."""
    by_whose = limits_by_whose(limits).items()
    return "; ".join(f"{whose} {_own_limits_text(theirs)}" for whose, theirs in by_whose) or "none"


def limits_by_whose(limits: Sequence[Limits]) -> Mapping[str, Sequence[Limits]]:
    """Return the limits of a board by the words for their users."""
    by_whose: dict[str, list[Limits]] = {}
    for each in limits:
        by_whose.setdefault(whose_text(each), []).append(each)
    return by_whose


def _own_limits_text(limits: Sequence[Limits]) -> str:
    texts = {category: category_text(limits, category) for category in Category}
    return ", ".join(f"{category} {text}" for category, text in texts.items() if text != "none")


def limits_text(limits: Sequence[Limits]) -> str:
    """Return the limits of a board for the same users in words."""
    return ", other ".join([f"ranked {category_text(limits, Category.RANKED)}", category_text(limits, Category.OTHER)])


def gpu_limit_text(limit: GpuLimit) -> str:
    """Return a limit on GPU time in words."""
    if limit.gpu_seconds is None:
        return "no limit on GPU time"
    return f"{limit.gpu_seconds:,} GPU-seconds per user {'in all' if limit.per is Period.ALL else f'and {limit.per}'}"


def limits_facts(limits: Sequence[Limits], of_gpus: GpuLimit | None) -> tuple[Block, ...]:
    """Return the limits on submissions to a board and on GPU time as blocks, if any."""
    facts = []
    if limits:
        facts.append(("submissions", limits_text(limits)))
    if of_gpus is not None:
        facts.append(("GPU time", f"{gpu_limit_text(of_gpus)}, on all boards"))
    return (Heading("Limits"), Facts(tuple(facts))) if facts else ()


def bans_table(bans: Sequence[Decision]) -> Table:
    """Return banned users with admin, dates and reason."""
    return table(
        bans,
        (Column("USER", flexible=True), lambda ban: one_line(ban.subject)),
        (Column("BY", flexible=True), lambda ban: one_line(ban.by_user)),
        (Column("SINCE"), _when),
        (Column("UNTIL"), lambda ban: moment_words(ban.ends_at) if ban.ends_at else ""),
        (Column("REASON", flexible=True), _reason),
        empty="No bans.",
    )


def links_table(links: Sequence[Link]) -> Table:
    """Return the links to boards with their ends and makers."""
    return table(
        links,
        (Column("BOARD", flexible=True), lambda link: one_line(link.board)),
        (Column("NAME", flexible=True), lambda link: one_line(link.name)),
        (Column("UNTIL"), lambda link: moment_words(link.until)),
        (Column("BY", flexible=True), lambda link: one_line(link.by)),
        (Column("SINCE"), lambda link: moment_text(link.at)),
        (Column("FAULT", flexible=True, optional=True), lambda link: one_line(link.fault)),
        empty="No links.",
    )


def decisions_table(decisions: Sequence[Decision]) -> Table:
    """Return the audit log in the order given."""
    return table(
        decisions,
        (Column("TIME"), _when),
        (Column("BY", flexible=True), lambda decision: one_line(decision.by_user) or "the board"),
        (Column("ACTION"), lambda decision: one_line(decision.action, 40)),
        (Column("SUBJECT", flexible=True, least=12, wraps=True), subject_text),
        (Column("DETAIL", flexible=True, wraps=True), detail_text),
        (Column("REASON", flexible=True, wraps=True), _reason),
        empty="No entries.",
    )


def _when(decision: Decision) -> str:
    return moment_text(decision.at)


def _reason(decision: Decision) -> str:
    return one_line(decision.reason, REASON_CHARACTERS_MAX)


def subject_text(decision: Decision) -> str:
    """Return the subject of a decision: "user eve", "submission 12", "all boards"."""
    return one_line(" ".join(filter(None, (_SUBJECTS.get(decision.kind, decision.kind), decision.subject))))


def detail_text(decision: Decision) -> str:
    """Return the details of a decision beside its subject and reason."""
    if decision.ends_at is not None:
        return f"until {moment_words(decision.ends_at)}"
    if decision.action == "rerun":
        return f"as submission {one_line(decision.detail, 40)}"
    if decision.action not in ("limit", LINK, HOLD, END):
        return one_line(decision.detail)
    try:
        if decision.action == LINK:
            name, until = decision.detail.split(" ")
            return f"{one_line(name)} until {moment_words(datetime.fromisoformat(until))}"
        if decision.action in (HOLD, END):
            return _held_text(decision.action, msgspec.json.decode(decision.detail, type=HeldGpu))
        if decision.kind == EVERYTHING:
            return gpu_limit_text(msgspec.json.decode(decision.detail, type=GpuLimit))
        limits = msgspec.json.decode(decision.detail, type=Limits)
        return limits_text([limits]) if limits.applies_to_all else f"{whose_text(limits)}: {limits_text([limits])}"
    except (ValueError, RecursionError):
        return one_line(decision.detail)


def _held_text(action: str, held: HeldGpu) -> str:
    """Return the time of a runner: "runner 3, for 30 min", "runner 3, held for 24 min 3 s, 17 runs"."""
    if action == HOLD:
        return f"runner {held.runner}, for {span_words(held.seconds)}"
    cost = f"{span_words(held.held_seconds)}, {count_text(held.runs, 'run')}"
    return f"runner {held.runner}, held for {cost}"


def rerun_table(candidates: "Sequence[RerunCandidate]") -> Table:
    """Return rerun candidates with their GPUs, or the reason against a rerun."""
    return table(
        candidates,
        (Column("SUBMISSION", right=True), lambda each: str(each.submission.id)),
        (Column("USER", flexible=True), lambda each: one_line(each.submission.user)),
        (Column("FILE", flexible=True), lambda each: one_line(each.submission.file_name)),
        (Column("GPUS", flexible=True), lambda each: ", ".join(one_line(gpu.name) for gpu in each.gpus)),
        (Column("LEFT OUT", flexible=True), lambda each: one_line(each.why, 500)),
        empty="Nothing to rerun.",
    )


def copies_table(copies: "Sequence[NearCopy]") -> Table:
    """Return pairs of similar files by the numbers of their runs, with the older one first."""
    return table(
        copies,
        (Column("TASK", flexible=True), lambda each: one_line(each.older.task)),
        (Column("SHARE", right=True), lambda each: f"{each.share:.2f}"),
        (Column("OLDER", right=True), lambda each: str(each.older.id)),
        (Column("USER", flexible=True), lambda each: one_line(each.older.user)),
        (Column("SUBMITTED", leaves=1), lambda each: moment_text(each.older.created_at)),
        (Column("NEWER", right=True), lambda each: str(each.newer.id)),
        (Column("USER", flexible=True), lambda each: one_line(each.newer.user)),
        (Column("SUBMITTED", leaves=2), lambda each: moment_text(each.newer.created_at)),
        empty="No near copies.",
    )


def copy_rows(copies: "Sequence[NearCopy]") -> "Iterator[Sequence[Cell]]":
    """Yield the lines of a table for spreadsheets: the names of the columns, then a line for each pair."""
    of_file = ("run", "submission", "user", "file_name", "submitted_at")
    yield "task", "share", "fingerprints", *(f"{which}_{name}" for which in ("older", "newer") for name in of_file)
    for each in copies:
        yield each.older.task, each.share, each.fingerprints, *_file_cells(each.older), *_file_cells(each.newer)


def _file_cells(file: Run) -> "tuple[Cell, ...]":
    return file.id, file.submission, file.user, file.file_name, file.created_at


def uncounted_blocks(runs: Sequence[Run]) -> Iterator[Block]:
    """Yield a line for each run that passed and is not in the standings."""
    for run in runs:
        removal = run.remarks.removal
        why = late_text(run.late_seconds) if removal is None else removal_text(removal)
        yield Paragraph(f"Run {run.id}, {score_text(run.score_s)}, not in the standings: {why}", Tone.BAD)


def removal_text(removal: Removal) -> str:
    """Return admin, time and reason of a removal from the standings."""
    reason = one_line(removal.reason, REASON_CHARACTERS_MAX)
    return f"removed by {one_line(removal.by_user)} at {moment_text(removal.at)}: {reason}"
