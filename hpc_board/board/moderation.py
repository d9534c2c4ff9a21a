"""Moderation of a board: bans, stops, limits, removals, and users' notes on their submissions."""

import hashlib
import re
import secrets
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hpc_board.accounts import is_user
from hpc_board.board.context import Context
from hpc_board.domain.clock import utc_now
from hpc_board.domain.draft import RerunCandidate, Source
from hpc_board.domain.moderation import (
    BAN,
    BOARD,
    EVERYTHING,
    GPU_SECONDS_MAX,
    LIMIT_MAX,
    LINK,
    LINK_DAYS_MAX,
    START,
    STOP,
    UNBAN,
    UNLINK,
    USER,
    Category,
    Decision,
    GpuLimit,
    Limits,
    Link,
    Period,
)
from hpc_board.domain.origin import author_of, entrant_of
from hpc_board.domain.roles import Role
from hpc_board.domain.submission import Submission, unknown_submission
from hpc_board.errors import InputError
from hpc_board.model.gpu import Gpu
from hpc_board.model.names import NAME, NAME_WORDS, suggestion
from hpc_board.model.task import Mode, Task
from hpc_board.model.text import one_line
from hpc_board.runs import drafts
from hpc_board.store import Store
from hpc_board.store.listing import RunQuery

if TYPE_CHECKING:
    from hpc_board.store.moderation import ModerationGateway

LINK_SECRET_BYTES = 16
_NAME_CHARACTERS_MAX = 64


class Moderation:
    """Moderation by one user, as far as their role permits.

    Methods about everything are for admins, those about a leaderboard or its submissions also for its creator and
    maintainers. They raise Refused for others; methods with a reason raise InputError for one that is too long or not
    one line.
    """

    def __init__(self, context: "Context") -> None:
        self._context = context

    @property
    def _decisions(self) -> "ModerationGateway":
        return self._context.store.moderation

    # Users and the whole board

    def ban(self, user: str, reason: str, until: str = "") -> bool:
        """Ban `user` from submitting and return whether the ban is new; their runs in flight continue.

        `until` is the end of the ban, in the words of deadlines; never, if it is empty or "none".

        Raises:
            InputError: no user can have this name, or the end is not in the future.
        """
        self._context.require(Role.ADMIN, "ban users")
        self._check_known(user)
        because, now = _reason(reason, needed=True), utc_now()
        ends_at = drafts.end_given(until, now, what="end of the ban", option="--until") if until.strip() else None
        end = "" if ends_at is None else ends_at.isoformat()
        return self._decisions.switch(Decision(BAN, USER, user, self._context.user, now, because, end))

    def unban(self, user: str, reason: str = "") -> bool:
        """End the ban of `user` and return whether one held.

        Raises:
            InputError: no user can have this name.
        """
        self._context.require(Role.ADMIN, "unban users")
        _check_name(user)
        return self._switch(UNBAN, USER, user, _reason(reason))

    def bans(self) -> tuple[Decision, ...]:
        """Return the bans that hold, by user."""
        self._context.require(Role.ADMIN, "list bans")
        return self._decisions.bans(utc_now())

    def stop(self, reason: str = "") -> bool:
        """Refuse the submissions of all but admins, and return whether the board took them before."""
        self._context.require(Role.ADMIN, "stop the board")
        return self._switch(STOP, EVERYTHING, "", _reason(reason))

    def start(self, reason: str = "") -> bool:
        """Take all submissions again, and return whether the board was stopped."""
        self._context.require(Role.ADMIN, "start the board")
        return self._switch(START, EVERYTHING, "", _reason(reason))

    def _switch(self, action: str, kind: str, subject: str, reason: str) -> bool:
        return self._decisions.switch(Decision(action, kind, subject, self._context.user, utc_now(), reason))

    def _check_known(self, user: str) -> None:
        _check_name(user)
        if not is_user(user) and user not in (known := self._decisions.people()):
            raise InputError(
                f"unknown user {user}, without submissions.{suggestion(user, known)}",
                hint="`hpc-board runs --all` lists users with runs.",
            )

    # Limits

    def limit(self, board: str, limits: Sequence[Limits], kept: Collection[Category] = ()) -> tuple[Limits, ...]:
        """Set limits of a leaderboard, but those of `kept` categories, and return the new ones.

        Raises:
            InputError: a limit is out of range, or no user can have a name.
        """
        self._context.require_manager([board], "limit submissions")
        for each in limits:
            for limit in (each.ranked, each.other):
                if limit is not None and not 0 <= limit <= LIMIT_MAX:
                    raise InputError(f"invalid limit {limit}.", hint=f"Use a number from 0 to {LIMIT_MAX}, or `none`.")
            if each.user:
                account, entrant = author_of(each.user)
                self._check_known(account)
                if entrant is not None:
                    entrant_of(each.user, account)
        return self._decisions.set_limits(board, limits, kept, self._context.user, utc_now())

    def limits(self) -> tuple[tuple[Decision, Limits], ...]:
        """Return the limits of visible leaderboards, by name, each with the decision that set them.

        Those of other users are for the managers of the leaderboard.
        """
        hidden = self._context.editor.hidden()
        return tuple(
            (decision, limits)
            for decision, limits in self._decisions.limits()
            if decision.subject not in hidden
            and (author_of(limits.user)[0] in ("", self._context.user) or self._context.manages(decision.subject))
        )

    def limit_gpu_time(self, gpu_seconds: int | None, per: Period = Period.DAY) -> GpuLimit:
        """Limit the GPU time of each user on the board, or remove the limit by None, and return the new one.

        Raises:
            InputError: it is out of range.
        """
        self._context.require(Role.ADMIN, "limit the GPU time")
        if gpu_seconds is not None and not 0 <= gpu_seconds <= GPU_SECONDS_MAX:
            raise InputError(
                f"invalid limit {gpu_seconds}.", hint=f"Use a number from 0 to {GPU_SECONDS_MAX}, or `none`."
            )
        limit = GpuLimit(gpu_seconds, per)
        self._decisions.set_gpu_limit(limit, self._context.user, utc_now())
        return limit

    def gpu_limit(self) -> tuple[Decision, GpuLimit] | None:
        """Return the limit of the board on GPU time with the decision that set it; None if it has none."""
        return self._decisions.gpu_limit() if self._context.has_database() else None

    # Links to the page of a board

    def link(self, board: str, name: str, until: str) -> tuple[Link, str]:
        """Make a link to the live page of a leaderboard, and return it with its secret, which is stored nowhere.

        A link of the same name is replaced. `until` is its end, in the words of deadlines.

        Raises:
            InputError: the name is invalid, the end is none or not in the next LINK_DAYS_MAX days, or the leaderboard
                is a task of the settings.
        """
        from hpc_board.board.tasks import Tasks
        from hpc_board.boards.editor import not_a_board

        self._context.require_manager([board], "make links")
        if self._context.editor.board(board) is None:
            raise not_a_board(board, self._context.editor.visible(), Tasks(self._context).of_settings())
        if not re.fullmatch(NAME, name):
            raise InputError(f'"{one_line(name, 80)}" is not a valid name of a link.', hint=f"Give {NAME_WORDS}.")
        now = utc_now()
        end = drafts.end_given(until, now, what="end of the link", option="--until")
        if end is None or end > now + timedelta(days=LINK_DAYS_MAX):
            raise InputError(f"a link ends within {LINK_DAYS_MAX} days.", hint="Give --until +30d, or another end.")
        secret = secrets.token_hex(LINK_SECRET_BYTES)
        link = Link(board, name, _sha256(secret), end, self._context.user, now)
        self._decisions.add(Decision(LINK, BOARD, board, link.by, now, detail=link.detail))
        return link, secret

    def unlink(self, board: str, name: str) -> Link:
        """Revoke a link, whose pages do not exist any more, and return it.

        Raises:
            InputError: the leaderboard has no link of this name.
        """
        self._context.require_manager([board], "revoke links")
        links = {link.name: link for link in self.links() if link.board == board}
        if name not in links:
            raise InputError(
                f'no link "{one_line(name, 80)}" to {one_line(board, 80)}.{suggestion(name, links)}',
                hint=f"Links: {', '.join(links) or 'none'}.",
            )
        self._decisions.add(Decision(UNLINK, BOARD, board, self._context.user, utc_now(), detail=name))
        return links[name]

    def links(self) -> tuple[Link, ...]:
        """Return the links to the leaderboards that the user manages, expired ones too, without their secrets."""
        self._context.require(Role.CREATOR, "list links")
        if not self._context.has_database():
            return ()
        now, links = utc_now(), self._decisions.links()
        return tuple(replace(link, fault=self._fault(link, now)) for link in links if self._context.manages(link.board))

    def linked(self, secret: str) -> str | None:
        """Return the leaderboard to which the link with this secret leads; None without one that holds."""
        now, given = utc_now(), _sha256(secret)
        # The time of a comparison of hashes tells nothing of a random secret.
        found = (link for link in self._decisions.links() if link.secret_sha256 == given)
        return next((link.board for link in found if not self._fault(link, now)), None)

    def _fault(self, link: Link, now: datetime) -> str:
        """Return the fault of a link at the time `now`, when its maker has to have the rights to make it."""
        if now >= link.until:
            return "expired"
        maker = Context(self._context.installation, link.by, self._context.warn)
        return "" if maker.manages(link.board) else f"{link.by} does not manage the board"

    # Submissions of others

    def remove(self, numbers: Collection[int], reason: str) -> None:
        """Remove submissions from the standings, all or none; they stay readable, and their authors see the reason.

        Raises:
            InputError: no submission has one of the numbers, one is removed already, or the reason is empty.
        """
        self._require_manager_of(numbers, "remove submissions")
        self._decisions.remove(dict.fromkeys(numbers), self._context.user, utc_now(), _reason(reason, needed=True))

    def readmit(self, numbers: Collection[int], reason: str = "") -> None:
        """Return removed submissions to the standings, all or none.

        Raises:
            InputError: no submission has one of the numbers, or one is not removed.
        """
        self._require_manager_of(numbers, "readmit submissions")
        self._decisions.readmit(dict.fromkeys(numbers), self._context.user, utc_now(), _reason(reason))

    def _require_manager_of(self, submissions: Collection[int], what: str) -> None:
        """Require the rights of an admin on the leaderboards of these submissions.

        Raises:
            InputError: no visible submission has one of the numbers.
        """
        if self._context.is_admin:
            return
        boards = [self._context.store.submissions.get(number).task for number in submissions]
        hidden = self._context.editor.hidden()
        for number, board in zip(submissions, boards, strict=True):
            if board in hidden:
                raise unknown_submission(number)
        self._context.require_manager(boards, what)

    def decisions(
        self, *, user: str | None = None, board: str | None = None, limit: int = 50, offset: int = 0
    ) -> tuple[Decision, ...]:
        """Return decisions, newest first: by or about `user`, and about `board`, with those about submissions.

        These are `limit` ones from the place `offset` on.
        """
        self._context.require_manager([] if board is None else [board], "read the audit log")
        return self._decisions.log(user=user, board=board, limit=limit, offset=offset)


def best_candidates(
    store: Store, task: Task, gpus: Sequence[Gpu], top: int, *, confirm: bool = False
) -> list[RerunCandidate]:
    """Return the best submissions of the `top` users on each of these GPUs, at the previous version of `task`.

    A submission that has passed at the present version, or is in flight, is included with the reason. To `confirm` the
    best ones, they are those at the present version.

    Raises:
        InputError: no user was ranked at another version.
    """
    version = task.version if confirm else store.standings.version_before(task.name, task.version)
    if version is None:
        raise InputError(
            f"no standings on {task.name} at an earlier version.",
            hint="Select submissions with --submission.",
        )
    wanted: dict[int, list[Gpu]] = {}
    for gpu in gpus:
        for row in store.standings.list(task.name, version, gpu.name)[:top]:
            wanted.setdefault(row.submission, []).append(gpu)
    if confirm:
        return [_again(store, store.submissions.get(number), task, chosen) for number, chosen in wanted.items()]
    done = {gpu.name: store.standings.ranked_files(task.name, task.version, gpu.name) for gpu in gpus}
    plans = []
    for number, chosen in wanted.items():
        found = store.submissions.get(number)
        left = [gpu for gpu in chosen if (found.user, found.code_sha256) not in done[gpu.name]]
        if left:
            plans.append(replace(_again(store, found, task, left), unless_ranked=True))
        else:
            plans.append(RerunCandidate(found, None, tuple(chosen), "file already submitted for this version"))
    return plans


def named_candidates(
    store: Store, task: Task, numbers: Sequence[int], gpus: Sequence[Gpu], *, allowed: Sequence[Gpu], confirm: bool
) -> list[RerunCandidate]:
    """Return these submissions, on `gpus`, or on their own GPUs among `allowed`; to `confirm` takes a score.

    Raises:
        InputError: no submission has one of the numbers, or it is to another task, or it measures a milestone.
    """
    going = store.submissions.reruns_in_flight(task.name, task.version)
    plans = []
    for number in dict.fromkeys(numbers):
        found, runs = store.submissions.get(number), store.runs.list(RunQuery(submission=number))
        if found.task != task.name:
            raise InputError(f"submission {number} is for {found.task}, not for {task.name}.", hint="Use that task.")
        drafts.check_no_milestone(found)
        has_run = {run.gpu for run in runs}
        chosen = list(gpus) or [gpu for gpu in allowed if gpu.name in has_run]
        left = [gpu for gpu in chosen if (number, gpu.name) not in going]
        why = ""
        if any(run.remarks.removal for run in runs):
            why = f"removed; `admin readmit {number}` first"
        elif found.mode is not Mode.RANKED:
            why = f"mode {found.mode}; only ranked submissions are rerun"
        elif confirm and all(run.score_s is None for run in runs):
            why = "no score to confirm"
        elif not chosen:
            why = f"no run on the current GPUs of {task.name}; choose with --gpu"
        elif not left:
            why = "rerun in flight"
        plans.append(RerunCandidate(found, None, tuple(chosen), why) if why else _again(store, found, task, left))
    return plans


def _again(store: Store, found: Submission, task: Task, gpus: Sequence[Gpu]) -> RerunCandidate:
    source = Source(found.file_name, store.submissions.code(found.code_sha256).decode(errors="replace"))
    try:
        if hashlib.sha256(source.data).hexdigest() != found.code_sha256:
            raise InputError("not UTF-8 text")
        drafts.check_fit(source, task, gpus, Mode.RANKED)
    except InputError as error:
        return RerunCandidate(found, None, tuple(gpus), error.message)
    return RerunCandidate(found, source, tuple(gpus))


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _check_name(user: str) -> None:
    if not (0 < len(user) <= _NAME_CHARACTERS_MAX and user.isprintable()):
        raise InputError(f"{one_line(user, 80)!r} is not a valid user name.", hint="Use the name of a Unix user.")


def _reason(text: str, *, needed: bool = False) -> str:
    reason = text.strip()
    if needed and not reason:
        raise InputError("the reason is empty.", hint="Give --reason; the user sees it.")
    drafts.check_reason(reason)
    return reason
