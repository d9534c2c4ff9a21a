"""Moderation as tables: limits, bans, the audit log, and rerun candidates."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpc_board.domain.board_options import moment_words
from hpc_board.domain.moderation import NO_LIMITS, REASON_CHARACTERS_MAX, Decision, Limits, Removal
from hpc_board.domain.run import Run
from hpc_board.domain.submission import Submission
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Block, Column, Facts, Heading, Paragraph, Table, Tone, table
from hpc_board.report.formatting import moment_text, score_text

if TYPE_CHECKING:
    from hpc_board.model.gpu import Gpu

_SUBJECTS = {"": "all boards", "user": "user", "board": "board", "submission": "submission"}


def limits_table(limits: Sequence[tuple[Decision, Limits]]) -> Table:
    """Return boards with their limits per user and hour."""
    return table(
        limits,
        (Column("BOARD", flexible=True), lambda each: one_line(each[0].subject)),
        (Column("RANKED", right=True), lambda each: limit_text(each[1].ranked)),
        (Column("OTHER", right=True), lambda each: limit_text(each[1].other)),
        (Column("BY", flexible=True), lambda each: one_line(each[0].by_user)),
        (Column("SINCE"), lambda each: _when(each[0])),
        empty="No limits.",
    )


def limit_text(limit: int | None) -> str:
    """Return a limit of submissions per hour in words."""
    if limit is None:
        return "none"
    return f"{limit}/h" if limit else "closed"


def limits_text(limits: Limits) -> str:
    """Return the limits of a board in words."""
    return f"ranked {limit_text(limits.ranked)}, other {limit_text(limits.other)}"


def limits_facts(limits: Limits) -> tuple[Block, ...]:
    """Return the limits of a board as blocks, if any."""
    if limits == NO_LIMITS:
        return ()
    return Heading("Limits"), Facts((("submissions per user", limits_text(limits)),))


def bans_table(bans: Sequence[Decision]) -> Table:
    """Return banned users with admin, dates and reason."""
    columns = (
        Column("USER", flexible=True),
        Column("BY", flexible=True),
        Column("SINCE"),
        Column("UNTIL"),
        Column("REASON", flexible=True),
    )
    rows = tuple(
        (
            one_line(ban.subject),
            one_line(ban.by_user),
            _when(ban),
            moment_words(ban.ends_at) if ban.ends_at else "",
            one_line(ban.reason, REASON_CHARACTERS_MAX),
        )
        for ban in bans
    )
    return Table(columns, rows, "No bans.")


def decisions_table(decisions: Sequence[Decision]) -> Table:
    """Return the audit log in the order given."""
    columns = (
        Column("TIME"),
        Column("BY", flexible=True),
        Column("ACTION"),
        Column("SUBJECT", flexible=True),
        Column("DETAIL", flexible=True),
        Column("REASON", flexible=True),
    )
    rows = tuple(
        (
            _when(decision),
            one_line(decision.by_user),
            one_line(decision.action, 40),
            subject_text(decision),
            detail_text(decision),
            one_line(decision.reason, REASON_CHARACTERS_MAX),
        )
        for decision in decisions
    )
    return Table(columns, rows, "No admin actions.")


def _when(decision: Decision) -> str:
    return "?" if decision.known_at is None else moment_text(decision.known_at)


def subject_text(decision: Decision) -> str:
    """Return the subject of a decision: "user eve", "submission 12", "all boards"."""
    return one_line(" ".join(filter(None, (_SUBJECTS.get(decision.kind, decision.kind), decision.subject))))


def detail_text(decision: Decision) -> str:
    """Return the details of a decision beside its subject and reason."""
    if decision.ends_at is not None:
        return f"until {moment_words(decision.ends_at)}"
    if decision.action == "rerun":
        return f"as submission {one_line(decision.detail, 40)}"
    if decision.action != "limit":
        return one_line(decision.detail)
    try:
        return limits_text(Limits.from_json(decision.detail))
    except (ValueError, RecursionError):
        return one_line(decision.detail)


def rerun_table(rows: "Sequence[tuple[Submission, Sequence[Gpu], str]]") -> Table:
    """Return rerun candidates with their GPUs, or the reason against a rerun."""
    columns = (
        Column("SUBMISSION", right=True),
        Column("USER", flexible=True),
        Column("FILE", flexible=True),
        Column("GPUS", flexible=True),
        Column("LEFT OUT", flexible=True),
    )
    cells = tuple(
        (
            str(found.id),
            one_line(found.user),
            one_line(found.file_name),
            ", ".join(one_line(gpu.name) for gpu in gpus),
            one_line(why, 500),
        )
        for found, gpus, why in rows
    )
    return Table(columns, cells, "Nothing to rerun.")


def removed_blocks(runs: Sequence[Run]) -> tuple[Block, ...]:
    """Return a line for each run that was removed from the standings."""
    return tuple(
        Paragraph(
            f"Run {run.id}, {score_text(run.score_s)}, not in the standings: {removal_text(run.remarks.removal)}",
            Tone.BAD,
        )
        for run in runs
        if run.remarks.removal is not None
    )


def removal_text(removal: Removal) -> str:
    """Return admin, time and reason of a removal from the standings."""
    reason = one_line(removal.reason, REASON_CHARACTERS_MAX)
    return f"removed by {one_line(removal.by_user)} at {moment_text(removal.at)}: {reason}"
