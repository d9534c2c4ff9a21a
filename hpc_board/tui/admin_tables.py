"""The lists of the Admin screen: columns, cells and details of their items."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from rich.console import Group, RenderableType
from rich.text import Text

from hpc_board.domain.admin_views import BoardState, PersonState
from hpc_board.domain.board_options import Visibility, moment_words
from hpc_board.domain.moderation import (
    REASON_CHARACTERS_MAX,
    SUBMISSION,
    Category,
    Decision,
    Limits,
)
from hpc_board.domain.roles import Role
from hpc_board.domain.run import Run
from hpc_board.domain.run_order import RunOrder
from hpc_board.report.boards import terms_facts
from hpc_board.report.formatting import count_text, moment_text, span_text
from hpc_board.report.moderation import category_text, detail_text, limits_text, removal_text, subject_text, whose_text
from hpc_board.report.run_words import trust, why
from hpc_board.tui.formatting import since, state, time_left
from hpc_board.tui.paging import Order
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.run_cells import RANKED, Line, cells, run_order
from hpc_board.tui.widgets.blocks import facts
from hpc_board.tui.widgets.grid import Column
from hpc_board.tui.widgets.list_pane import Kind

_BOARD_COLUMNS = (
    Column("name", "Board", 12, grows=True, sorts=True),
    Column("left", "Left", 6, right=True, sorts=True),
    Column("seen", "Access", 7, sorts=True),
    Column("by", "Creator", 10, from_width=90, sorts=True),
    Column("gpus", "GPUs", 14, from_width=70),
    Column("limits", "Limits", 11),
    Column("sent", "Sent/h", 8, right=True, sorts=True, falls=True),
    Column("users", "Users", 6, right=True, from_width=66, sorts=True, falls=True),
)
_PEOPLE_COLUMNS = (
    Column("name", "User", 8, grows=True, sorts=True),
    Column("role", "Role", 7, most=11),
    Column("ban", "Ban", 6, most=17, sorts=True),
    Column("limits", "Limits", 6, most=8),
    Column("sent", "Sent/h", 8, right=True, from_width=70, sorts=True, falls=True),
    Column("runs", "Runs/h", 8, right=True, sorts=True, falls=True),
    Column("last", "Last", 6, right=True, from_width=78, sorts=True),
)
_LOG_COLUMNS = (
    Column("age", "Age", 6, right=True, sorts=True),
    Column("by", "By", 9, sorts=True),
    Column("action", "Action", 8, sorts=True),
    Column("about", "About", 18, sorts=True),
    Column("words", "Reason", 10, grows=True),
)

Clock = Callable[[], datetime]

_FAR = timedelta(days=300)
"""The least distance of a moment that is shown with its year."""


def boards(now: Clock) -> Kind[BoardState]:
    """Return the list of boards, by name."""
    return Kind(
        _BOARD_COLUMNS,
        key=lambda board: board.name,
        cells=lambda board: _board_cells(board, now()),
        details=lambda board: _board_details(board, now()),
        scrolls=True,
        filter_words="part of a board's name",
        nothing=lambda: "No boards yet.\n`hpc-board create` creates one.",
        title="Boards",
        values={
            "name": lambda board: board.name,
            "left": lambda board: board.deadline,
            "seen": lambda board: board.visibility is Visibility.PUBLIC,
            "by": lambda board: board.creator or None,
            "sent": lambda board: board.submissions or None,
            "users": lambda board: board.users or None,
        },
        heading=lambda board: board.name,
    )


def people(now: Clock) -> Kind[PersonState]:
    """Return the list of users with submissions, decisions about them or a role in the settings, by name."""
    return Kind(
        _PEOPLE_COLUMNS,
        key=lambda person: person.name,
        cells=lambda person: _person_cells(person, now()),
        values={
            "name": lambda person: person.name,
            "ban": lambda person: _ban_end(person.ban),
            "sent": lambda person: person.submissions or None,
            "runs": lambda person: person.runs or None,
            "last": lambda person: person.newest_at and -person.newest_at.timestamp(),
        },
        details=lambda person: _person_details(person, now()),
        filter_words="part of a user's name",
        nothing=lambda: "No users yet.\nThey appear with their first submission.",
        title="Users",
        heading=lambda person: person.name,
    )


def runs(now: Clock) -> Kind[Run]:
    """Return the list of ranked runs, newest first."""
    return Kind(
        RANKED,
        key=lambda run: str(run.id),
        cells=lambda run: cells(Line(run, now=now())),
        sorted_by=lambda sorting: _of_runs(run_order(sorting)),
        details=lambda run: _run_details(run, now()),
        filter_words="words of any column or the file: eve h100 pass",
        nothing=lambda: "No ranked runs yet.\nThey appear when a run in mode ranked passes.",
        submission=lambda run: run.submission,
        title="Ranked runs",
        heading=lambda run: f"Run {run.id}",
    )


def log(now: Clock) -> Kind[Decision]:
    """Return the audit log, newest first."""
    return Kind(
        _LOG_COLUMNS,
        key=lambda decision: str(decision.number),
        cells=lambda decision: _decision_cells(decision, now()),
        values={
            "age": lambda decision: -decision.at.timestamp(),
            "by": lambda decision: decision.by_user,
            "action": lambda decision: decision.action,
            "about": _about,
        },
        details=_decision_details,
        filter_words="words of any column: eve matmul",
        nothing=lambda: "No admin actions yet.\n1, 2 and 3 have the actions.",
        title="Log",
        heading=lambda decision: f"Decision {decision.number}",
    )


def _of_runs(order: RunOrder) -> Order[Run]:
    return Order(order.key, order.descending, identity=lambda run: run.id)


def stop_text(stop: Decision | None, now: datetime) -> Text:
    """Return whether submissions are accepted, as a line."""
    if stop is None:
        return toned("Submissions are accepted.", Tone.GOOD)
    because = f": {stop.reason}" if stop.reason else "."
    words = f"Submissions were stopped by {stop.by_user} {span_text(now - stop.at)} ago{because}"
    return toned(words, Tone.BAD, REASON_CHARACTERS_MAX)


def _board_cells(board: BoardState, now: datetime) -> dict[str, Text]:
    closed = board.visibility is Visibility.CLOSED
    return {
        "name": toned(board.name),
        "left": toned(*time_left(board.deadline, now)),
        "seen": toned("members" if closed else "all", Tone.WAITING if closed else Tone.MUTED),
        "by": toned(board.creator or "settings", Tone.PLAIN if board.creator else Tone.MUTED),
        "gpus": toned(" ".join(board.gpus) or "all", Tone.MUTED),
        "limits": toned(_short(board.limits), Tone.WAITING),
        "sent": toned(board.submissions or ""),
        "users": toned(board.users or "", Tone.MUTED),
    }


def _short(limits: Sequence[Limits]) -> str:
    of_all = [each for each in limits if each.applies_to_all]
    more = "+" if len(limits) > len(of_all) else ""
    if not of_all:
        return more
    return (
        " ".join(category_text(of_all, category).replace("none", "-").replace(",", "") for category in Category) + more
    )


def _board_details(board: BoardState, now: datetime) -> RenderableType:
    left, _ = time_left(board.deadline, now)
    deadline = "none" if board.deadline is None else f"{moment_words(board.deadline)} ({left})"
    made = "" if board.terms else "a task of the settings, with the task's own options"
    by_whose: dict[str, list[Limits]] = {}
    for each in board.limits:
        by_whose.setdefault(whose_text(each), []).append(each)
    limits = "; ".join(f"{whose}: {limits_text(theirs)}" for whose, theirs in by_whose.items())
    sent = f"{count_text(board.submissions, 'submission')} by {count_text(board.users, 'user')}"
    terms = terms_facts(board.terms) if board.terms else ()
    return Group(
        _head(board.name, made),
        facts(
            [
                ("Deadline", deadline),
                ("Last hour", sent if board.submissions else "none"),
                ("Limits", limits or "none"),
                ("GPUs", ", ".join(board.gpus) or "all GPUs of the settings"),
                *((name.capitalize(), value) for name, value in terms),
            ]
        ),
    )


def _person_cells(person: PersonState, now: datetime) -> dict[str, Text]:
    full = sum(use.holds for use in person.uses)
    return {
        "name": toned(person.name),
        "role": toned(person.role, Tone.PLAIN if person.role.may_act_as(Role.CREATOR) else Tone.MUTED),
        "ban": toned(_ban_words(person.ban, now), Tone.BAD),
        "limits": toned(f"{full} full" if full else f"{len(person.uses)} in use" if person.uses else "", Tone.WAITING),
        "sent": toned(person.submissions or "", Tone.MUTED),
        "runs": toned(person.runs or ""),
        "last": toned("" if person.newest_at is None else span_text(now - person.newest_at), Tone.MUTED),
    }


def _ban_end(ban: Decision | None) -> float | None:
    if ban is None:
        return None
    return math.inf if ban.ends_at is None else ban.ends_at.timestamp()


def _ban_words(ban: Decision | None, now: datetime) -> str:
    if ban is None:
        return ""
    if ban.ends_at is None:
        return "banned"
    far = ban.ends_at - now > _FAR
    return f"until {ban.ends_at.astimezone():{'%Y-%m-%d' if far else '%m-%d %H:%M'}}"


def _person_details(person: PersonState, now: datetime) -> RenderableType:
    ban = person.ban
    banned = ""
    if ban is not None:
        until = f" until {moment_words(ban.ends_at)}" if ban.ends_at else ""
        banned = f"by {ban.by_user} at {moment_text(ban.at)}{until}: {ban.reason}"
    uses = ", ".join(f"{use.name} {use.used:,} of {use.limit:,}{', full' if use.holds else ''}" for use in person.uses)
    last = "never" if person.newest_at is None else f"{span_text(now - person.newest_at)} ago"
    sent = f"{count_text(person.submissions, 'submission')}, {count_text(person.runs, 'run')}"
    return Group(
        _head(person.name, str(person.role)),
        facts(
            [
                ("Banned", banned),
                ("Last hour", f"{sent}; last submission: {last}"),
                ("Limits", uses or ("none for admins" if person.role is Role.ADMIN else "none in use")),
            ]
        ),
    )


def _run_details(run: Run, now: datetime) -> RenderableType:
    word, tone = state(run)
    remarks = run.remarks
    notes = (run.note, *(f"{note.text} ({note.by_user})" for note in remarks.notes))
    lines: Sequence[tuple[str, str]] = [
        ("Removed", removal_text(remarks.removal) if remarks.removal else ""),
        ("File", f"{run.file_name} · submission {run.submission} of {run.user} · {trust(run)}"),
        ("Reason", why(run)),
        ("Notes", " · ".join(filter(None, notes))),
        ("Rerun", f"of submission {remarks.rerun.of_submission}, by {remarks.rerun.by_user}" if remarks.rerun else ""),
    ]
    head = Text.assemble((word, f"bold {tone.value}"), " ", toned(since(run, now), Tone.MUTED))
    return Group(head, facts(lines))


def _decision_cells(decision: Decision, now: datetime) -> dict[str, Text]:
    words = "; ".join(filter(None, (detail_text(decision), decision.reason)))
    return {
        "age": toned(span_text(now - decision.at), Tone.MUTED),
        "by": toned(decision.by_user),
        "action": toned(decision.action, Tone.ACCENT),
        "about": toned(subject_text(decision)),
        "words": toned(words, Tone.MUTED, REASON_CHARACTERS_MAX),
    }


def _about(decision: Decision) -> tuple[str, int, str]:
    """Return the subject of a decision as a value to sort by: submissions in the order of their numbers."""
    number = int(decision.subject) if decision.kind == SUBMISSION and decision.subject.isdecimal() else 0
    return decision.kind, number, decision.subject


def decision_text(decision: Decision) -> str:
    """Return the text of a decision in which words are searched."""
    return f"{decision.action} {subject_text(decision)} {decision.by_user} {decision.reason}".lower()


def _decision_details(decision: Decision) -> RenderableType:
    by = f"by {decision.by_user} at {moment_text(decision.at)}"
    head = _head(f"{decision.action} {subject_text(decision)}", by)
    return Group(head, facts([("Detail", detail_text(decision)), ("Reason", decision.reason)]))


def _head(name: str, words: str) -> Text:
    return Text.assemble(toned(name, Tone.STRONG), "  ", toned(words, Tone.MUTED))
