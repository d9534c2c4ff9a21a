"""Board options: the creator's choices for a leaderboard, besides its task."""

import re
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum
from typing import TypeVar

import msgspec

from hpc_board.domain.clock import span_of, span_words
from hpc_board.domain.roles import GROUP, Role, includes_user
from hpc_board.model.text import one_line

DEADLINE_WORDS = (
    'a date or a time such as "2030-12-31", "2030-12-31 18:00" or "2030-12-31T18:00+01:00" (UTC without a time '
    'zone), a time from now such as "+30d", "+12h" or "+90m" (w, d, h, m and s), or "none"'
)
"""The forms that `deadline_of` reads, as text for users."""

_LONE_DIGIT = re.compile(r"(?<![0-9.])([0-9])(?![0-9])")

E = TypeVar("E", bound=Enum)


class Visibility(StrEnum):
    """The visibility of a leaderboard: to all users, or only to its members."""

    PUBLIC = "public"
    CLOSED = "closed"


class CodeShown(StrEnum):
    """The time from which participants may read other users' submissions."""

    NEVER = "never"
    AFTER_DEADLINE = "after_deadline"


YEAR_MIN, YEAR_MAX = 1970, 9998
"""The years of valid times: beyond them, a time may be out of range in another time zone."""


class CompetitionTerms(msgspec.Struct, frozen=True):
    """The competition of a leaderboard: its name and title, its score, and its rule of points, as text."""

    name: str
    title: str = ""
    score: str = ""
    points: str = ""

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.name, self.score, self.points)))


class Extension(msgspec.Struct, frozen=True):
    """The later deadline of one user, or of a group with a `@`."""

    user: str
    until: datetime


class BoardOptions(msgspec.Struct, frozen=True):
    """The creator of a leaderboard, its deadline, its GPUs, and its access rules.

    Empty `gpus` mean every GPU of the settings. `members` are users, and groups with a `@`, who see a closed
    leaderboard; its creator, its `maintainers` and the admins always see it. Maintainers, users and groups too, have
    the creator's rights on it.

    `late_seconds` is the time after a user's deadline in which their submissions are accepted as late ones: none if it
    is 0, any if it is None.

    Users who do not manage it do not see the submissions of others after `freeze_at`; if it is `anonymous`, they see
    others under pseudonyms.

    `teams` are groups with a `@`, each of which has one rank for its members.
    """

    creator: str
    deadline: datetime | None = None
    gpus: tuple[str, ...] = ()
    visibility: Visibility = Visibility.PUBLIC
    members: tuple[str, ...] = ()
    code_shown: CodeShown = CodeShown.NEVER
    maintainers: tuple[str, ...] = ()
    competition: CompetitionTerms | None = None
    extensions: tuple[Extension, ...] = ()
    late_seconds: int | None = 0
    freeze_at: datetime | None = None
    anonymous: bool = False
    teams: tuple[str, ...] = ()

    @property
    def needs_groups(self) -> bool:
        """Return whether the terms of a user depend on the user's groups: by a team, or by the extension of a group."""
        return bool(self.teams) or any(each.user.startswith(GROUP) for each in self.extensions)

    def teams_of(self, groups: Collection[str]) -> tuple[str, ...]:
        """Return the teams whose groups are among `groups`."""
        return tuple(team for team in self.teams if includes_user((team,), "", groups))

    def team_of(self, user: str, groups: Collection[str], role: Role) -> str:
        """Return the team as whose member `user` ranks: "" for one in none or several, and for who manages it."""
        teams = self.teams_of(groups)
        return teams[0] if len(teams) == 1 and not self.managed_by(user, groups, role) else ""

    def scope(self, name: str) -> str | None:
        """Return the leaderboards with the same pseudonyms: those of the competition; None if it is not anonymous."""
        if not self.anonymous:
            return None
        return f"board {name}" if self.competition is None else f"competition {self.competition.name}"

    def deadline_of(self, user: str, groups: Collection[str]) -> datetime | None:
        """Return the deadline of `user`, who is in `groups`: the latest of the leaderboard's and their extensions."""
        if self.deadline is None:
            return None
        theirs = (each.until for each in self.extensions if includes_user((each.user,), user, groups))
        return max([self.deadline, *theirs])

    def closes_at(self, user: str, groups: Collection[str]) -> datetime | None:
        """Return the last moment at which `user` may submit, late submissions included; None without an end."""
        deadline = self.deadline_of(user, groups)
        return None if deadline is None else self._late_end(deadline)

    def _late_end(self, deadline: datetime) -> datetime | None:
        return None if self.late_seconds is None else deadline + timedelta(seconds=self.late_seconds)

    def shown_to(self, user: str, groups: Collection[str]) -> "BoardOptions":
        """Return the options as `user` sees them who does not manage the leaderboard: with their own extensions."""
        own = tuple(each for each in self.extensions if includes_user((each.user,), user, groups))
        return msgspec.structs.replace(self, extensions=own)

    def visible_to(self, user: str, groups: Collection[str], role: Role) -> bool:
        """Return whether `user`, with these `groups` and this role, may see the leaderboard."""
        return (
            self.visibility is Visibility.PUBLIC
            or role is Role.ADMIN
            or user == self.creator
            or includes_user((*self.members, *self.maintainers), user, groups)
        )

    def managed_by(self, user: str, groups: Collection[str], role: Role) -> bool:
        """Return whether `user` has all rights on it: an admin, or with the role creator its creator or maintainer."""
        its_own = user == self.creator or includes_user(self.maintainers, user, groups)
        return role is Role.ADMIN or (its_own and role.may_act_as(Role.CREATOR))

    def shows_code(self, now: datetime) -> bool:
        """Return whether participants may read other users' submissions; False if anonymous or without a deadline.

        The last extension and the end of late submissions, if they have one, have to be past, too.
        """
        if self.code_shown is CodeShown.NEVER or self.deadline is None or self.anonymous:
            return False
        last = max([self.deadline, *(each.until for each in self.extensions)])
        return is_past(self._late_end(last) or last, now)


def is_past(deadline: datetime | None, now: datetime) -> bool:
    """Return whether `deadline` has passed at the time `now`; its own moment is the last one to submit."""
    return deadline is not None and now > deadline


def deadline_of(text: str, now: datetime) -> datetime | None:
    """Return the time in UTC that `text` names, None for "none"; a date means its midnight.

    Raises:
        ValueError: it names none in the form of `DEADLINE_WORDS`, or one that no calendar has.
    """
    words = text.strip()
    if words.casefold() == "none":
        return None
    try:
        if words.startswith("+"):
            span = span_of(words.removeprefix("+"))
            return _valid(now.astimezone(UTC) + span) if span else now
        return moment_in_utc(words)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"expected {DEADLINE_WORDS}, in the years {YEAR_MIN} to {YEAR_MAX}") from error


def moment_in_utc(text: str) -> datetime:
    """Return an ISO date or time as a time in UTC; one without a zone is UTC.

    Months, days and hours may have one digit, as in KernelBot's competitions: "2025-11-29 6:59".

    Raises:
        ValueError, OverflowError: it is none, or none that every calendar has.
    """
    if re.match(r"[0-9]{4}-[0-9]", text):
        text = _LONE_DIGIT.sub(r"0\1", text)
    moment = datetime.fromisoformat(text)
    return _valid((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC))


def _valid(moment: datetime) -> datetime:
    """Return `moment` if its year is valid, at a whole second, as texts show it: a begun one counts as a whole.

    Raises:
        ValueError: not every calendar has it.
    """
    if not YEAR_MIN <= moment.year <= YEAR_MAX:
        raise ValueError(f"the year {moment.year} is not between {YEAR_MIN} and {YEAR_MAX}")
    return moment.replace(microsecond=0) + timedelta(seconds=bool(moment.microsecond))


def moment_words(moment: datetime | None) -> str:
    """Format a time in the reader's time zone, with seconds other than 0, and the zone's name; None gives "none"."""
    return "none" if moment is None else f"{_minute_text(moment.astimezone())} {moment.astimezone():%Z}"


def extension_words(extension: Extension) -> str:
    """Format an extension: "ada until 2030-12-31 18:00 UTC"."""
    return f"{one_line(extension.user)} until {moment_words(extension.until)}"


def late_words(seconds: int | None) -> str:
    """Format the time for late submissions: "none", "any time", "48 h after the deadline"."""
    if not seconds:
        return "any time" if seconds is None else "none"
    return f"{span_words(seconds)} after the deadline"


def utc_words(moment: datetime | None) -> str:
    """Format a time as `moment_words` does, in UTC, for text with readers in several time zones."""
    return "none" if moment is None else f"{_minute_text(moment.astimezone(UTC))} UTC"


def _minute_text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment.second else f"{moment:%Y-%m-%d %H:%M}"


def deadline_refusal(task: str, deadline: datetime, now: datetime) -> str:
    """Return the message for a submission to `task` at the time `now`, after its deadline."""
    due, came = (
        f"{each.astimezone().replace(tzinfo=None).isoformat(' ', 'milliseconds').removesuffix('.000')} "
        f"{each.astimezone():%Z}"
        for each in (deadline, now)
    )
    return f"The deadline to submit to {task} has passed.\nIt was {due}; the submission came at {came}."


class RequestedOptions(msgspec.Struct, frozen=True):
    """Requested terms of a leaderboard, in the user's words; None keeps the present value.

    `gpus` and the lists of users may hold commas, `gpus` also "all". `members` are added, `no_members` removed, and so
    are maintainers. `extend` has the users and groups with later deadlines, as in "ada:+2d". `late` is the time for
    late submissions, "any" or "none". `freeze` is a time, "-24h" from the deadline, or "none". `teams` are groups, with
    a `@`.
    """

    deadline: str | None = None
    gpus: tuple[str, ...] | None = None
    closed: bool | None = None
    members: tuple[str, ...] = ()
    no_members: tuple[str, ...] = ()
    show_code: bool | None = None
    maintainers: tuple[str, ...] = ()
    no_maintainers: tuple[str, ...] = ()
    extend: tuple[str, ...] = ()
    late: str | None = None
    freeze: str | None = None
    anonymous: bool | None = None
    teams: tuple[str, ...] = ()
    no_teams: tuple[str, ...] = ()


UNCHANGED = RequestedOptions()
"""The options that keep all terms."""
