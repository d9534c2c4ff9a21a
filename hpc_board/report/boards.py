"""Boards that people made: their terms, what a change does to one, what was done, and what a competition brought."""

from collections.abc import Iterator, Sequence

from hpc_board.domain.board_options import BoardOptions, Visibility, moment_words
from hpc_board.domain.user_board import Action, BoardChange, CreatedBoard, Entries, Plan, change_summary
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Block, Column, Facts, Heading, Paragraph, Table
from hpc_board.report.formatting import count_text, moment_text


def terms_facts(terms: BoardOptions) -> tuple[tuple[str, str], ...]:
    """What the terms say, without deadline and GPUs, which every task has."""
    seen_by = "everybody"
    if terms.visibility is Visibility.CLOSED:
        members = ", ".join(map(one_line, terms.members))
        seen_by = f"its creator, admins and {members or 'nobody else'}"
    code = {"never": "nobody", "after_deadline": "everybody after the deadline"}[terms.code_shown]
    return (
        ("made by", one_line(terms.creator)),
        ("visibility", terms.visibility.value),
        ("seen by", seen_by),
        ("code of others is shown to", f"{code}; admins may always read it"),
    )


def created_report(board: CreatedBoard) -> tuple[Block, ...]:
    """What a board has beside its task."""
    change = board.change
    last = f"{moment_text(change.at)} by {one_line(change.by_user)} ({change.action})"
    return Heading("Board"), Facts((*terms_facts(board.terms), ("last changed", last)))


def plan_report(plan: Plan) -> tuple[Block, ...]:
    """What a change does to a board."""
    return tuple(_plan(plan))


def _plan(plan: Plan) -> Iterator[Block]:
    yield Heading(f"Board {plan.name}")
    if plan.action is Action.CREATE:
        gpus = ", ".join(map(one_line, plan.terms.gpus)) or "all of the settings"
        yield Facts((("deadline", moment_words(plan.terms.deadline)), ("GPUs", gpus), *terms_facts(plan.terms)))
    else:
        restarts = any(difference.restarts for difference in plan.differences)
        columns = (Column("WHAT"), Column("BEFORE", flexible=True), Column("AFTER", flexible=True))
        rows = tuple(
            (each.what, each.before, each.after, *(["anew" if each.restarts else "stay"] if restarts else []))
            for each in plan.differences
        )
        yield Table((*columns, *([Column("STANDINGS")] if restarts else [])), rows, "Nothing changes.")
        if plan.left:
            yield Paragraph(
                f"Users on the standings that are left ({_entries(plan.left)}) keep their runs there, and start anew."
            )
        elif restarts:
            yield Paragraph("A new version of the task begins. Nobody is on the standings of the one that is left.")
    if plan.joined:
        yield Paragraph(
            f"This version of the task has been here before: its standings are back ({_entries(plan.joined)})."
        )


def changes_table(changes: Sequence[BoardChange]) -> Table:
    """What was done to the boards of one name, oldest first."""
    columns = (
        Column("WHEN"),
        Column("WHO", flexible=True),
        Column("WHAT"),
        Column("VERSION"),
        Column("DEADLINE"),
        Column("GPUS", flexible=True),
        Column("VISIBILITY"),
        Column("CHANGED", flexible=True),
        Column("REASON", flexible=True),
    )
    rows = tuple(
        (
            moment_text(change.at),
            one_line(change.by_user),
            change.action.value,
            (change.task_version or "-")[:12],
            moment_words(change.terms.deadline),
            ", ".join(map(one_line, change.terms.gpus)) or "all",
            change.terms.visibility.value,
            one_line(change_summary(change, before), 200),
            one_line(change.reason),
        )
        for before, change in zip((None, *changes), changes, strict=False)
    )
    return Table(columns, rows)


def synced_table(rows: Sequence[tuple[str, str, str]]) -> Table:
    """What became of each task of a competition: its name, the result, and why."""
    columns = (Column("BOARD"), Column("RESULT"), Column("WHAT", flexible=True))
    shown = tuple((one_line(name), result, one_line(reason, 500)) for name, result, reason in rows)
    return Table(columns, shown, "The competition has no tasks.")


def _entries(entries: Sequence[Entries]) -> str:
    return ", ".join(f"{one_line(each.gpu)}: {count_text(each.users, 'user')}" for each in entries)
