"""Boards created by users: options, planned changes, history, and results of a sync with a competition."""

from collections.abc import Iterator, Sequence

from hpc_board.domain.board_options import BoardOptions, Visibility, extension_words, late_words, moment_words
from hpc_board.domain.user_board import Action, BoardChange, CreatedBoard, Entries, Plan, change_summary
from hpc_board.model.task import OWN
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Block, Column, Facts, Heading, Paragraph, Table, table
from hpc_board.report.formatting import count_text, moment_text


def terms_facts(terms: BoardOptions) -> tuple[tuple[str, str], ...]:
    """Return the options of a board without deadline and GPUs, which every task has."""
    seen_by = "all users"
    if terms.visibility is Visibility.CLOSED:
        seen_by = ", ".join(("creator", "admins", *map(one_line, (*terms.maintainers, *terms.members))))
    always = ", ".join(("creator", *map(one_line, terms.maintainers), "admins"))
    code = {"never": always, "after_deadline": f"all users after the deadline; always: {always}"}[terms.code_shown]
    return (
        ("creator", one_line(terms.creator)),
        *((("maintainers", ", ".join(map(one_line, terms.maintainers))),) if terms.maintainers else ()),
        *((("competition", one_line(str(terms.competition))),) if terms.competition else ()),
        ("visibility", terms.visibility.value),
        ("visible to", seen_by),
        ("code visible to", code),
        *((("extensions", ", ".join(map(extension_words, terms.extensions))),) if terms.extensions else ()),
        *((("late submissions", late_words(terms.late_seconds)),) if terms.late_seconds != 0 else ()),
        *((("frozen from", moment_words(terms.freeze_at)),) if terms.freeze_at else ()),
        *((("names", "pseudonyms"),) if terms.anonymous else ()),
        *((("teams", ", ".join(map(one_line, terms.teams))),) if terms.teams else ()),
    )


def created_report(board: CreatedBoard) -> tuple[Block, ...]:
    """Return the options of a board and its last change."""
    change = board.change
    last = f"{moment_text(change.at)} by {one_line(change.by_user)} ({change.action})"
    return Heading("Board"), Facts((*terms_facts(board.options), ("last changed", last)))


def plan_report(plan: Plan) -> tuple[Block, ...]:
    """Return the effects of a planned change."""
    return tuple(_plan(plan))


def _plan(plan: Plan) -> Iterator[Block]:
    yield Heading(f"Board {plan.name}")
    if plan.action is Action.CREATE:
        gpus = ", ".join(map(one_line, plan.options.gpus)) or "all in the settings"
        own = (("judge", "the task's own eval"),) if plan.task is not None and plan.task.harness == OWN else ()
        deadline = ("deadline", moment_words(plan.options.deadline))
        yield Facts((deadline, ("GPUs", gpus), *own, *terms_facts(plan.options)))
    else:
        yield table(
            plan.differences,
            (Column("FIELD"), lambda each: each.what),
            (Column("BEFORE", flexible=True, wraps=True), lambda each: each.before),
            (Column("AFTER", flexible=True, wraps=True), lambda each: each.after),
            (Column("STANDINGS"), lambda each: "reset" if each.restarts else "kept") if plan.reset_by else None,
            empty="No changes.",
        )
        if plan.left:
            yield Paragraph(f"New standings; the old ones remain under the old version ({_entries(plan.left)}).")
        elif plan.reset_by:
            yield Paragraph("New version of the task; the old one has no standings.")
    if plan.joined:
        yield Paragraph(f"Earlier version of the task; its standings are restored ({_entries(plan.joined)}).")


def changes_table(changes: Sequence[BoardChange]) -> Table:
    """Return the changes of the boards of one name, oldest first."""
    return table(
        list(zip((None, *changes), changes, strict=False)),
        (Column("TIME"), lambda row: moment_text(row[1].at)),
        (Column("BY", flexible=True), lambda row: one_line(row[1].by_user)),
        (Column("ACTION"), lambda row: row[1].action.value),
        (Column("VERSION", leaves=1), lambda row: (row[1].task_version or "-")[:12]),
        (Column("DEADLINE", leaves=3), lambda row: moment_words(row[1].options.deadline)),
        (Column("GPUS", flexible=True), lambda row: ", ".join(map(one_line, row[1].options.gpus)) or "all"),
        (Column("VISIBILITY", leaves=2), lambda row: row[1].options.visibility.value),
        (
            Column("CHANGED", flexible=True, least=9, wraps=True),
            lambda row: one_line(change_summary(row[1], row[0]), 200),
        ),
        (Column("REASON", flexible=True, wraps=True), lambda row: one_line(row[1].reason)),
    )


def synced_table(rows: Sequence[tuple[str, str, str]]) -> Table:
    """Return the result for each task of a competition: name, result and detail."""
    return table(
        rows,
        (Column("BOARD"), lambda row: one_line(row[0])),
        (Column("RESULT"), lambda row: row[1]),
        (Column("DETAIL", flexible=True), lambda row: one_line(row[2], 500)),
        empty="The competition has no tasks.",
    )


def _entries(entries: Sequence[Entries]) -> str:
    return ", ".join(f"{one_line(each.gpu)}: {count_text(each.users, 'user')}" for each in entries)
