"""Moderation: limits, bans, removals and notes on submissions, as values and pure decisions."""

import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

import msgspec

from hpc_board.domain.board_options import moment_words
from hpc_board.domain.clock import span_words
from hpc_board.domain.roles import Role
from hpc_board.errors import InputError
from hpc_board.model.task import Mode
from hpc_board.model.text import one_line

REASON_CHARACTERS_MAX = 500
LIMIT_MAX = 100_000
GPU_SECONDS_MAX = 1_000_000_000

_NEVER_FREE = "This limit does not reset; an admin can raise it."

LINK_DAYS_MAX = 366
"""The longest time for which a link holds."""

LINK_PATH = "link/{}/"
"""The path of a link with its secret, below the address of the live page."""

NOTES_MAX = 50
"""The maximum number of notes on a submission, besides the one that it was sent with."""

EVERYTHING, USER, BOARD, SUBMISSION, GPU = "", "user", "board", "submission", "gpu"
"""The kinds of subjects of a decision; the subject of EVERYTHING is empty."""

STOP, START = "stop", "start"
BAN, UNBAN = "ban", "unban"
LIMIT = "limit"
REMOVE, READMIT = "remove", "readmit"
RERUN = "rerun"
LINK, UNLINK = "link", "unlink"
HOLD, END = "hold", "end"
"""The begin and the end of a runner, which the log takes from the runners."""

NOTE = "note"


class Category(StrEnum):
    """The two kinds of submissions that are limited apart from each other."""

    RANKED = "ranked"
    OTHER = "other"

    @classmethod
    def of(cls, mode: Mode) -> "Category":
        """Return the category of submissions in this mode."""
        return cls.RANKED if mode is Mode.RANKED else cls.OTHER

    @property
    def words(self) -> str:
        """Return the name of such submissions in a sentence."""
        return "ranked submissions" if self is Category.RANKED else "test, benchmark, profile and sanitize submissions"


Limit = Annotated[int, msgspec.Meta(ge=0, le=LIMIT_MAX)]


class Period(StrEnum):
    """The time in which the submissions or the GPU time of a user are counted, which ends now."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    ALL = "all"

    def start(self, now: datetime) -> datetime:
        """Return the begin of the period that ends `now`."""
        return _BEGIN if self is Period.ALL else now - self._length

    def free_at(self, counted_at: datetime) -> datetime | None:
        """Return the time from which a period does not count `counted_at`; None if it always does."""
        return None if self is Period.ALL else counted_at + self._length

    @property
    def _length(self) -> timedelta:
        return timedelta(**{f"{self}s": 1})

    @property
    def within(self) -> str:
        """Return the period of a count in words: "within an hour", "in all"."""
        if self is Period.ALL:
            return "in all"
        return f"within {'an' if self is Period.HOUR else 'a'} {self}"

    @property
    def per(self) -> str:
        """Return the period of a limit in words: "per hour", "in all"."""
        return "in all" if self is Period.ALL else f"per {self}"

    @property
    def unit(self) -> str:
        """Return the period as the unit of a number: "/h", "/d", "/w", " in all"."""
        return " in all" if self is Period.ALL else f"/{self[0]}"


_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


class Limits(msgspec.Struct, frozen=True):
    """The maximum submissions per leaderboard, category and period of each user; None for no limit.

    With `user` or `role`, they are those of this user, or of each user with this role. A user such as "ada/agent-b" is
    an entrant, whose limits hold beside those of the account.
    """

    ranked: Limit | None = None
    other: Limit | None = None
    per: Period = Period.HOUR
    user: str = ""
    role: Role | None = None

    @property
    def subject(self) -> tuple[str, Role | None, Period]:
        """Return the users and the period, for which a leaderboard has one such object."""
        return self.user, self.role, self.per

    @property
    def applies_to_all(self) -> bool:
        """Return whether it is neither for one user nor for a role."""
        return not self.user and self.role is None

    @property
    def is_empty(self) -> bool:
        """Return whether neither category has a limit."""
        return self.ranked is None and self.other is None

    def of(self, category: Category) -> int | None:
        """Return the limit for this category."""
        return self.ranked if category is Category.RANKED else self.other


class Sender(msgspec.Struct, frozen=True):
    """The role and the groups of a user who submits; the rules of a board do not bind an admin of a served one."""

    role: Role = Role.PARTICIPANT
    groups: frozenset[str] = frozenset()
    is_bound: bool = True


def limits_for(limits: Collection[Limits], user: str, role: Role) -> tuple[Limits, ...]:
    """Return the limits of a leaderboard that apply to a user, one object for each period that has any.

    For each category and period, a limit of the user overrides that of their role, and this one that of all users.
    """
    found = []
    for period in Period:
        known = {each.subject: each for each in limits if each.per is period}
        keys = (user, None, period), ("", role, period), ("", None, period)
        theirs = [known[key] for key in keys if key in known]
        ranked, other = (
            next((number for each in theirs if (number := each.of(category)) is not None), None)
            for category in Category
        )
        found.append(Limits(ranked, other, period))
    return tuple(each for each in found if not each.is_empty)


class GpuLimit(msgspec.Struct, frozen=True):
    """The maximum GPU time per user and period on all leaderboards; `gpu_seconds` is None for no limit."""

    gpu_seconds: Annotated[int, msgspec.Meta(ge=0, le=GPU_SECONDS_MAX)] | None = None
    per: Period = Period.DAY


class GpuJobs(msgspec.Struct, frozen=True):
    """Jobs on the GPU of this name, and the GPU-seconds that their time limits allow.

    The name is "" for runs that go to no held GPU.
    """

    gpu: str
    jobs: int
    gpu_seconds: float


class GpuDemand(msgspec.Struct, frozen=True):
    """The runs of a user on GPUs, and the GPUs that they hold: those in flight, or new ones."""

    runs: tuple[GpuJobs, ...] = ()
    held: tuple[GpuJobs, ...] = ()

    def __add__(self, other: "GpuDemand") -> "GpuDemand":
        return GpuDemand(self.runs + other.runs, self.held + other.held)

    @property
    def gpu_seconds(self) -> float:
        """Return the GPU-seconds of all: runs on a held GPU count as far as they exceed its time."""
        names = {each.gpu for each in (*self.runs, *self.held)}
        parts = [
            [sum(each.gpu_seconds for each in jobs if each.gpu == name) for jobs in (self.runs, self.held)]
            for name in names
        ]
        return sum(map(max, parts))

    @property
    def words(self) -> str:
        """Return the numbers of both in words: "2 runs in flight and held GPU"."""
        runs, held = (sum(each.jobs for each in jobs) for jobs in (self.runs, self.held))
        words = []
        if runs:
            words.append("run in flight" if runs == 1 else f"{runs} runs in flight")
        if held:
            words.append("held GPU" if held == 1 else f"{held} held GPUs")
        return " and ".join(words)


class GpuUse(msgspec.Struct, frozen=True):
    """The GPU time of a user within a period.

    `used_s` are the GPU-seconds of ended runs and of ended runners without a run, `going` are those in flight.
    `full_until` is the time until which the ended ones alone reach the limit; None if they do not.
    """

    used_s: float
    full_until: datetime | None = None
    going: GpuDemand = GpuDemand()


class Decision(msgspec.Struct, frozen=True):
    """A decision about a user, a leaderboard, a submission, a GPU or everything: one row of the audit log.

    `number` is its number in the log, 0 if not queried.
    """

    action: str
    kind: str
    subject: str
    by_user: str
    at: datetime
    reason: str = ""
    detail: str = ""
    number: int = 0

    @property
    def ends_at(self) -> datetime | None:
        """Return the time at which a ban expires; None if only another decision ends it."""
        return datetime.fromisoformat(self.detail) if self.action == BAN and self.detail else None


class Link(msgspec.Struct, frozen=True):
    """A link to the page of a leaderboard: its name there, the hash of its secret, its end, and its maker.

    `fault` is the reason for which it shows no page; empty if it does.
    """

    board: str
    name: str
    secret_sha256: str
    until: datetime
    by: str
    at: datetime
    fault: str = ""

    @property
    def detail(self) -> str:
        """Return the detail of the decision that makes the link, for `of`."""
        return f"{self.secret_sha256} {self.name} {self.until.isoformat()}"

    @classmethod
    def of(cls, decision: Decision) -> "Link":
        """Return the link that a decision has made.

        Raises:
            ValueError: its detail is not that of a link.
        """
        secret_sha256, name, until = decision.detail.split(" ")
        end = datetime.fromisoformat(until)
        return cls(decision.subject, name, secret_sha256, end, decision.by_user, decision.at)


class HeldGpu(msgspec.Struct, frozen=True):
    """The detail of a row of the log about a runner: the time for which it was to hold its GPU, and its cost so far."""

    runner: int
    seconds: int
    held_seconds: int = 0
    runs: int = 0


class Remark(msgspec.Struct, frozen=True):
    """A note that a user put on a submission after it was sent."""

    text: str
    by_user: str
    at: datetime


CONFIRMING_RUNS = 3
"""The number of reruns that confirm a score: with the run that it comes from, they suffice for an interval."""


class Rerun(msgspec.Struct, frozen=True):
    """The mark of a submission that an admin sent again for the task's present version."""

    of_submission: int
    by_user: str
    at: datetime


class Removal(msgspec.Struct, frozen=True):
    """The mark of a submission that is excluded from the standings."""

    by_user: str
    at: datetime
    reason: str


class Remarks(msgspec.Struct, frozen=True):
    """The remarks on a submission since it was sent: notes, oldest first, and decisions of admins."""

    notes: tuple[Remark, ...] = ()
    rerun: Rerun | None = None
    removal: Removal | None = None


NO_REMARKS = Remarks()


def limits_of(text: str) -> dict[Period, int]:
    """Parse the limits of a category that an admin typed, such as "5/h 20/d 100/all", by period; "none" for none.

    Raises:
        InputError: one is invalid.
    """
    words = text.lower().replace(",", " ").split()
    found = {}
    for word in () if words == ["none"] else words:
        number, _, unit = word.partition("/")
        period = next((each for each in Period if unit and str(each).startswith(unit)), None if unit else Period.HOUR)
        if period is None or not (re.fullmatch("[0-9]{1,6}", number) and int(number) <= LIMIT_MAX):
            raise InputError(
                f"invalid limit {one_line(word, 40)!r}.",
                hint=f"Use numbers from 0 to {LIMIT_MAX} per hour, day, week or all, as in 5/h 20/d 100/all; or none.",
            )
        found[period] = int(number)
    return found


def stop_refusal(stop: Decision) -> str:
    """Return the message for a participant while the board takes no submissions."""
    said = "The board is currently not accepting any new submissions, please try again later."
    return said + _because(stop.reason)


def ban_refusal(ban: Decision) -> str:
    """Return the message for a banned user."""
    until = "" if ban.ends_at is None else f" until {moment_words(ban.ends_at)}"
    return f"You are banned from making submissions{until}." + _because(ban.reason)


def _because(reason: str) -> str:
    return f"\nReason: {one_line(reason, REASON_CHARACTERS_MAX)}" if reason else ""


def limit_refusal(
    task: str,
    category: Category,
    limit: int,
    per: Period,
    newest: Sequence[datetime],
    count: int,
    new: int,
    now: datetime,
    entrant: str = "",
) -> str:
    """Return why `new` more submissions at the time `now` exceed the limit; empty if they do not.

    They are those of the reader, or of an `entrant` such as "ada/agent-b". `newest` are the times of the newest
    submissions within the period, newest first, at least the last `limit - new + 1` of them; `count` is the number of
    all.
    """
    if count + new <= limit:
        return ""
    who = f"{one_line(entrant)} has" if entrant else "you have"
    if limit == 0:
        return f"{task} is closed for {category.words}: its limit is 0 {per.per}."
    if new > limit:
        return (
            f"Rate limit exceeded: {new} {category.words} to {task} at once, but its limit is {limit} {per.per} for "
            f"{one_line(entrant) or 'each user'}. Send fewer at a time."
        )
    # The limit has space when all but `limit - new` of them are older than the period.
    free_at = per.free_at(newest[limit - new])
    these = "" if new == 1 else f", and these are {new}"
    then = _NEVER_FREE if free_at is None else f"Try again in {wait_text(free_at - now)}."
    return (
        f"Rate limit exceeded: {who} sent {count} of at most {limit} {category.words} to {task} {per.within}"
        f"{these}. {then}"
    )


def gpu_limit_refusal(limit: GpuLimit, use: GpuUse, new: GpuDemand, now: datetime) -> str:
    """Return why new runs on GPUs, or a hold of one, exceed the limit at the time `now`; empty if they do not.

    Below the limit one run may always go, also to a held GPU, and so may one hold. Several at a time, those in flight
    included, need room for all their time limits.
    """
    most, going = limit.gpu_seconds, use.going
    if most is None:
        return ""
    if most == 0:
        return f"all boards are closed for runs on GPUs: the limit is 0 GPU-seconds {limit.per.per}."
    within = f"{limit.per.within} on all boards"
    said = f"GPU-time limit exceeded: you have used {int(use.used_s):,} of {most:,} GPU-seconds {within}"
    if limit.per is Period.ALL and use.used_s >= most:
        return f"{said}. {_NEVER_FREE}"
    if use.full_until is not None:
        later = f", or later because of your {going.words}" if going.words else ""
        return f"{said}. Try again in {wait_text(use.full_until - now)}{later}."
    whole_s, count = (going + new).gpu_seconds, len(new.runs) + len(new.held)
    if use.used_s + whole_s <= most or (count == 1 and not _besides(new, going)):
        return ""
    this = "hold" if new.held else "run"
    these = f"this {this}" if count == 1 else f"these {count} runs"
    more_s = whole_s - going.gpu_seconds
    these += f" may take up to {more_s:,.0f}{' more' if round(new.gpu_seconds - more_s) else ''}"
    if not going.words:
        return f"{said}, and {these}. Send fewer at a time."
    ends = ("your runs in flight have ended" if going.runs else "", "your GPU is released" if going.held else "")
    return (
        f"{said}, your {going.words} may take up to {going.gpu_seconds:,.0f}, and {these}. "
        f"Try again when {' or '.join(filter(None, ends))}."
    )


def _besides(new: GpuDemand, going: GpuDemand) -> bool:
    """Return whether anything is in flight besides the held GPUs to which `new` runs go."""
    names = {each.gpu for each in new.runs}
    return bool(going.runs) or any(each.gpu not in names for each in going.held)


def wait_text(wait: timedelta) -> str:
    """Format a waiting time, in seconds too if it is a minute or more: "12 min 5 s (725 s)"."""
    seconds = max(1, -int(-wait.total_seconds() // 1))
    words = span_words(seconds)
    return words if seconds < 60 else f"{words} ({seconds} s)"


def may_read_code(reader: str, owner: str, *, manages: bool, shown_to_others: bool) -> bool:
    """Return whether `reader`, who may manage the leaderboard, may read a submission of `owner`.

    `shown_to_others` says that the leaderboard shows its submissions, which happens only after its deadline.
    """
    return reader == owner or manages or shown_to_others
