"""The lists of the Admin screen: columns, cells and details of their items."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from hpc_board.domain.admin_views import BoardState, PersonState
from hpc_board.domain.board_options import Visibility, moment_words
from hpc_board.domain.moderation import REASON_CHARACTERS_MAX, SUBMISSION, Category, Decision, Limits
from hpc_board.domain.roles import Role
from hpc_board.domain.run import Run
from hpc_board.report.boards import terms_facts
from hpc_board.report.formatting import count_text, moment_text, span_text
from hpc_board.report.moderation import (
    category_text,
    detail_text,
    limits_by_whose,
    limits_text,
    removal_text,
    subject_text,
)
from hpc_board.report.run_words import trust, why
from hpc_board.tui.formatting import since, state, time_left
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.run_cells import RANKED, Line, cells
from hpc_board.tui.widgets.blocks import facts
from hpc_board.tui.widgets.grid import Column
from hpc_board.tui.widgets.list_pane import Kind

Clock = Callable[[], datetime]

_DEADLINE = attrgetter("deadline")

_FAR = timedelta(days=300)
"""The least distance of a moment that is shown with its year."""


def boards(now: Clock) -> Kind[BoardState]:
    """Return the list of boards, by name."""
    return Kind[BoardState](
        (
            Column("name", "Board", 12, lambda board: toned(board.name), attrgetter("name"), grows=True),
            Column("left", "Deadline", 9, lambda each: toned(*time_left(each.deadline, now())), _DEADLINE, right=True),
            Column("seen", "Access", 7, _access, lambda board: board.visibility is Visibility.PUBLIC),
            Column("by", "Creator", 10, _creator, lambda board: board.creator or None, from_width=90),
            Column("gpus", "GPUs", 14, lambda board: toned(" ".join(board.gpus) or "all", Tone.MUTED), from_width=70),
            Column("limits", "Limits", 11, lambda board: toned(_short(board.limits), Tone.WAITING)),
            Column("sent", "Submits/h", 10, *_count("submissions"), right=True, falls=True),
            Column("users", "Users", 6, *_count("users", Tone.MUTED), right=True, from_width=66, falls=True),
        ),
        key=lambda board: board.name,
        details=lambda board: _board_details(board, now()),
        scrolls=True,
        filter_words="part of a board's name",
        nothing=lambda: "No boards yet.\n`hpc-board create` creates one.",
        title="Boards",
        heading=lambda board: board.name,
    )


def people(now: Clock) -> Kind[PersonState]:
    """Return the list of users with submissions, decisions about them or a role in the settings, by name."""
    return Kind(
        (
            Column("name", "User", 8, lambda person: toned(person.name), attrgetter("name"), grows=True),
            Column("role", "Role", 7, _role, most=11),
            Column("ban", "Ban", 6, lambda person: toned(_ban_words(person.ban, now()), Tone.BAD), _ban_end, most=17),
            Column("limits", "Limits", 6, _uses, most=8),
            Column("sent", "Submits/h", 10, *_count("submissions", Tone.MUTED), right=True, from_width=70, falls=True),
            Column("runs", "Runs/h", 8, *_count("runs"), right=True, falls=True),
            Column("last", "Last", 6, lambda person: _age(person.newest_at, now()), _newest, right=True, from_width=78),
        ),
        key=lambda person: person.name,
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
        cells=lambda run: cells(Line(run), now()),
        details=lambda run: _run_details(run, now()),
        filter_words="words of any column or the file: eve h100 pass",
        nothing=lambda: "No ranked runs yet.\nThey appear when a run in mode ranked passes.",
        run=lambda run: run.id,
        title="Ranked runs",
        heading=lambda run: f"Run {run.id}",
    )


def log(now: Clock) -> Kind[Decision]:
    """Return the audit log, newest first."""
    return Kind(
        (
            Column("age", "Age", 6, lambda each: _age(each.at, now()), lambda each: -each.at.timestamp(), right=True),
            Column("by", "By", 9, lambda each: toned(each.by_user), attrgetter("by_user")),
            Column("action", "Action", 8, lambda each: toned(each.action, Tone.ACCENT), attrgetter("action")),
            Column("about", "About", 18, lambda each: toned(subject_text(each)), _about),
            Column("words", "Reason", 10, _words, grows=True),
        ),
        key=lambda decision: str(decision.number),
        details=_decision_details,
        filter_words="words of any column: eve matmul",
        nothing=lambda: "No admin actions yet.\n1, 2 and 3 have the actions.",
        title="Log",
        heading=lambda decision: f"Decision {decision.number}",
    )


def stop_text(stop: Decision | None, now: datetime) -> Text:
    """Return whether submissions are accepted, as a line."""
    if stop is None:
        return toned("Open for submissions.", Tone.GOOD)
    because = f": {stop.reason}" if stop.reason else "."
    words = f"Submissions were stopped by {stop.by_user} {span_text(now - stop.at)} ago{because}"
    return toned(words, Tone.BAD, REASON_CHARACTERS_MAX)


def _count(name: str, tone: Tone = Tone.PLAIN) -> tuple[Callable[[Any], Text], Callable[[Any], int | None]]:
    """Return the functions of a column for a count, which is empty for 0: its cell, and its value to sort by."""
    count = attrgetter(name)
    return lambda item: toned(count(item) or "", tone), lambda item: count(item) or None


def _age(at: datetime | None, now: datetime) -> Text:
    return toned("" if at is None else span_text(now - at), Tone.MUTED)


def _access(board: BoardState) -> Text:
    return toned("members", Tone.WAITING) if board.visibility is Visibility.CLOSED else toned("all", Tone.MUTED)


def _creator(board: BoardState) -> Text:
    return toned(board.creator) if board.creator else toned("settings", Tone.MUTED)


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
    limits = (f"{whose}: {limits_text(theirs)}" for whose, theirs in limits_by_whose(board.limits).items())
    sent = f"{count_text(board.submissions, 'submission')} by {count_text(board.users, 'user')}"
    terms = terms_facts(board.terms) if board.terms else ()
    return Group(
        _head(board.name, made),
        facts(
            [
                ("Deadline", deadline),
                ("Last hour", sent if board.submissions else "none"),
                ("Limits", "; ".join(limits) or "none"),
                ("GPUs", ", ".join(board.gpus) or "all GPUs of the settings"),
                *((name.capitalize(), value) for name, value in terms),
            ]
        ),
    )


def _role(person: PersonState) -> Text:
    return toned(person.role, Tone.PLAIN if person.role.may_act_as(Role.CREATOR) else Tone.MUTED)


def _newest(person: PersonState) -> float | None:
    return None if person.newest_at is None else -person.newest_at.timestamp()


def _uses(person: PersonState) -> Text:
    full = sum(use.holds for use in person.uses)
    return toned(f"{full} full" if full else f"{len(person.uses)} in use" if person.uses else "", Tone.WAITING)


def _ban_end(person: PersonState) -> float | None:
    if person.ban is None:
        return None
    return math.inf if person.ban.ends_at is None else person.ban.ends_at.timestamp()


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


def _words(decision: Decision) -> Text:
    words = "; ".join(filter(None, (detail_text(decision), decision.reason)))
    return toned(words, Tone.MUTED, REASON_CHARACTERS_MAX)


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
