"""The rules of play: limits, bans, removals, and what people remark on submissions, as values and pure decisions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from hpc_board.domain.board_options import TermsError, moment_words, stored_moment
from hpc_board.model.task import Mode
from hpc_board.model.text import one_line

REASON_CHARACTERS_MAX = 500
LIMIT_MAX = 100_000
LIMITED_PERIOD = timedelta(hours=1)
"""The time in which submissions are counted, which ends now."""

NOTES_MAX = 50
"""How many notes a submission may have beside the one that it was sent with."""

EVERYTHING, USER, BOARD, SUBMISSION = "", "user", "board", "submission"
"""The kinds of what is decided about; the subject of everything is empty too."""

STOP, START = "stop", "start"
BAN, UNBAN = "ban", "unban"
LIMIT = "limit"
REMOVE, READMIT = "remove", "readmit"
RERUN = "rerun"

NOTE = "note"


class Category(StrEnum):
    """The two kinds of submissions that are limited apart from each other."""

    RANKED = "ranked"
    OTHER = "other"

    @classmethod
    def of(cls, mode: Mode) -> "Category":
        """The category of submissions in this mode."""
        return cls.RANKED if mode is Mode.RANKED else cls.OTHER

    @property
    def words(self) -> str:
        """What such submissions are called in a sentence."""
        return "ranked submissions" if self is Category.RANKED else "test, benchmark and profile submissions"


@dataclass(frozen=True)
class Limits:
    """How many submissions of each category a user may send to a board within an hour; None for any number."""

    ranked: int | None = None
    other: int | None = None

    def of(self, category: Category) -> int | None:
        """The limit for this category."""
        return self.ranked if category is Category.RANKED else self.other

    def to_json(self) -> str:
        """The limits as the text that `from_json` reads."""
        return json.dumps({"ranked": self.ranked, "other": self.other})

    @classmethod
    def from_json(cls, text: str) -> "Limits":
        """The limits that `to_json` wrote.

        Raises:
            ValueError: it is no such text.
        """
        value = json.loads(text)
        found = [value.get(str(category)) for category in Category] if isinstance(value, dict) else [-1]
        if not all(each is None or (type(each) is int and 0 <= each <= LIMIT_MAX) for each in found):
            raise ValueError(f"a limit is a whole number up to {LIMIT_MAX}")
        return cls(*found)


NO_LIMITS = Limits()


UNKNOWN_MOMENT = datetime(1970, 1, 1, tzinfo=UTC)
"""When something was decided of which nobody can read when that was: before all else."""


@dataclass(frozen=True)
class Decision:
    """What somebody decided about a user, a board, a submission or everything: one row of the audit log.

    `number` is its place in the log, 0 where it is not asked for. Where not all of the row can be read, it is not
    `readable`: what can be read of it is here, and `reason` says what cannot.
    """

    action: str
    kind: str
    subject: str
    by_user: str
    at: datetime
    reason: str = ""
    detail: str = ""
    number: int = field(default=0, compare=False)
    readable: bool = field(default=True, compare=False)

    @property
    def known_at(self) -> datetime | None:
        """When it was decided; None where that cannot be read."""
        return None if self.at == UNKNOWN_MOMENT else self.at

    @property
    def ends_at(self) -> datetime | None:
        """When a ban ends by itself; None where only another decision ends it."""
        try:
            return stored_moment(self.detail) if self.action == BAN and self.detail else None
        except TermsError:
            return None


@dataclass(frozen=True)
class Remark:
    """A note that somebody put on a submission after it was sent."""

    text: str
    by_user: str
    at: datetime


@dataclass(frozen=True)
class Rerun:
    """That a submission is another one, sent again by an admin for the task's present version."""

    of_submission: int
    by_user: str
    at: datetime


@dataclass(frozen=True)
class Removal:
    """That a submission does not count in the standings any more."""

    by_user: str
    at: datetime
    reason: str


@dataclass(frozen=True)
class Remarks:
    """What was said of a submission since it was sent: notes, oldest first, and what admins did with it."""

    notes: tuple[Remark, ...] = ()
    rerun: Rerun | None = None
    removal: Removal | None = None


NO_REMARKS = Remarks()


def limit_of(text: str) -> int | None:
    """The limit that somebody has typed, None for "none" or nothing.

    Raises:
        ValueError: it is none.
    """
    words = text.strip().lower()
    if words in ("", "none"):
        return None
    if not (words.isascii() and words.isdecimal() and len(words) < 10 and int(words) <= LIMIT_MAX):
        raise ValueError(f"{one_line(text, 40)!r} is neither a number from 0 to {LIMIT_MAX} nor none")
    return int(words)


def stop_refusal(stop: Decision) -> str:
    """What a participant is told while the board takes no submissions."""
    said = "The board is currently not accepting any new submissions, please try again later."
    return said + _because(stop.reason)


def ban_refusal(ban: Decision) -> str:
    """What a banned user is told."""
    until = "" if ban.ends_at is None else f" until {moment_words(ban.ends_at)}"
    return f"You are banned from making submissions{until}." + _because(ban.reason)


def _because(reason: str) -> str:
    return f"\nReason: {one_line(reason, REASON_CHARACTERS_MAX)}" if reason else ""


def limit_refusal(
    task: str, category: Category, limit: int, newest: Sequence[datetime], count: int, new: int, now: datetime
) -> str:
    """Why `new` more submissions are too many at the time `now`; empty where they are not.

    `newest` are the moments of the newest submissions within the hour, newest first, at least `limit - new + 1` of
    them where there are as many; `count` is how many there were in all.
    """
    if count + new <= limit:
        return ""
    if limit == 0:
        return f"{task} is closed for {category.words}: its limit is 0 an hour."
    if new > limit:
        return (
            f"Rate limit exceeded: {new} {category.words} to {task} at once, and its limit is {limit} an hour for "
            f"each user. Send fewer at a time."
        )
    # There is room when all but `limit - new` of them are older than an hour.
    wait = newest[limit - new] + LIMITED_PERIOD - now
    these = "" if new == 1 else f", and these are {new}"
    return (
        f"Rate limit exceeded: you have sent {count} of at most {limit} {category.words} to {task} within an hour"
        f"{these}. Try again in {wait_text(wait)}."
    )


def wait_text(wait: timedelta) -> str:
    """How long to wait, in words and, where these are not seconds, in seconds too: "12 min 5 s (725 s)"."""
    seconds = max(1, -int(-wait.total_seconds() // 1))
    if seconds < 60:
        return f"{seconds} s"
    minutes, rest = divmod(seconds, 60)
    return f"{minutes} min{f' {rest} s' if rest else ''} ({seconds} s)"


def may_read_code(reader: str, owner: str, *, admin: bool, shown_to_others: bool) -> bool:
    """Whether `reader` may read a submission of `owner`.

    `shown_to_others` says that the board shows its submissions, which it does only after its deadline.
    """
    return reader == owner or admin or shown_to_others
