"""The rules of play as tables: limits, bans, the audit log, and what an admin is about to send again."""

from collections.abc import Sequence

from hpc_board.domain.board_options import moment_words
from hpc_board.domain.moderation import NO_LIMITS, REASON_CHARACTERS_MAX, Decision, Limits, Remarks, Removal
from hpc_board.domain.run import Run
from hpc_board.domain.submission import NOTE_CHARACTERS_MAX, Submission
from hpc_board.model.gpu import Gpu
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Block, Column, Facts, Heading, Paragraph, Table, Tone
from hpc_board.report.formatting import moment_text, score_text

_SUBJECTS = {"": "everything", "user": "user", "board": "board", "submission": "submission"}


def limits_table(limits: Sequence[tuple[Decision, Limits]]) -> Table:
    """Boards with their limits for each user and hour."""
    columns = (
        Column("BOARD", flexible=True),
        Column("RANKED", right=True),
        Column("OTHER", right=True),
        Column("BY", flexible=True),
        Column("SINCE"),
    )
    rows = tuple(
        (
            one_line(decision.subject),
            limit_text(found.ranked),
            limit_text(found.other),
            one_line(decision.by_user),
            _when(decision),
        )
        for decision, found in limits
    )
    return Table(columns, rows, "No board has a limit.")


def limit_text(limit: int | None) -> str:
    """A limit of submissions in an hour."""
    if limit is None:
        return "none"
    return f"{limit}/h" if limit else "closed"


def limits_text(limits: Limits) -> str:
    """The limits of a board in words."""
    return f"ranked {limit_text(limits.ranked)}, other {limit_text(limits.other)}"


def limits_facts(limits: Limits) -> tuple[Block, ...]:
    """What a participant has to know of the limits of a board; nothing where there are none."""
    if limits == NO_LIMITS:
        return ()
    return Heading("Limits"), Facts((("within an hour", f"{limits_text(limits)}, for each user"),))


def bans_table(bans: Sequence[Decision]) -> Table:
    """Who is banned, by whom, and why."""
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
    return Table(columns, rows, "Nobody is banned.")


def decisions_table(decisions: Sequence[Decision]) -> Table:
    """The audit log: who decided what, in the order given."""
    columns = (
        Column("AT"),
        Column("BY", flexible=True),
        Column("ACTION"),
        Column("ABOUT", flexible=True),
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
    return Table(columns, rows, "Nothing was decided.")


def _when(decision: Decision) -> str:
    return "?" if decision.known_at is None else moment_text(decision.known_at)


def subject_text(decision: Decision) -> str:
    """What a decision is about: "user eve", "submission 12", "everything"."""
    return one_line(" ".join(filter(None, (_SUBJECTS.get(decision.kind, decision.kind), decision.subject))))


def detail_text(decision: Decision) -> str:
    """What a decision says beside whom it is about and why."""
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


def rerun_table(rows: Sequence[tuple[Submission, Sequence[Gpu], str]]) -> Table:
    """Submissions that are to be sent again, on which GPUs, or why not."""
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
    return Table(columns, cells, "There is nothing to send again.")


def removed_blocks(runs: Sequence[Run]) -> tuple[Block, ...]:
    """A line on each of these runs that were removed from the standings."""
    return tuple(
        Paragraph(
            f"Run {run.id}, {score_text(run.score_s)}, does not count: {removal_text(run.remarks.removal)}", Tone.BAD
        )
        for run in runs
        if run.remarks.removal is not None
    )


def removal_text(removal: Removal) -> str:
    """Who removed a submission from the standings, when, and why."""
    reason = one_line(removal.reason, REASON_CHARACTERS_MAX)
    return f"removed by {one_line(removal.by_user)} at {moment_text(removal.at)}: {reason}"


def remarks_text(note: str, remarks: Remarks) -> str:
    """What is remarked on a submission, for one cell of a table: what admins did, its newest note."""
    newest = remarks.notes[-1].text if remarks.notes else note
    parts = (
        "removed" if remarks.removal else "",
        f"rerun by {one_line(remarks.rerun.by_user)}" if remarks.rerun else "",
        one_line(newest, NOTE_CHARACTERS_MAX),
    )
    return one_line("; ".join(filter(None, parts)), NOTE_CHARACTERS_MAX)
