"""Overviews for admins: leaderboards, and users with the decisions about them."""

from collections.abc import Collection
from datetime import datetime

from hpc_board.board.context import Context
from hpc_board.board.tasks import Tasks
from hpc_board.domain.admin_views import BoardState, HourCount, LimitUse, PersonState
from hpc_board.domain.board_options import Visibility
from hpc_board.domain.clock import utc_now
from hpc_board.domain.moderation import LIMITED_PERIOD, NO_LIMITS, Category, Decision, Limits
from hpc_board.domain.roles import GROUP, Role


class AdminViews:
    """Overviews for a user: an admin sees everything, a creator the leaderboards that they manage."""

    def __init__(self, context: Context, tasks: Tasks) -> None:
        self._context = context
        self._tasks = tasks

    def stop(self) -> Decision | None:
        """Return the decision that stopped submissions; None while the board takes them."""
        return self._context.store.moderation.stopped()

    def boards(self) -> tuple[BoardState, ...]:
        """Return the leaderboards that the user may change, by name.

        Raises:
            Refused: the user is not a creator.
        """
        self._context.require(Role.CREATOR, "administer boards")
        made = {board.name: board for board in self._context.editor.visible() if self._context.manages(board.name)}
        tasks = [task for task in self._tasks.catalog().tasks if self._context.role is Role.ADMIN or task.name in made]
        limits = {decision.subject: each for decision, each in self._context.store.moderation.limits()}
        sent = self._context.store.moderation.sent_since(utc_now() - LIMITED_PERIOD)
        boards = []
        for task in tasks:
            here = [each for each in sent if each.board == task.name]
            terms = made[task.name].options if task.name in made else None
            boards.append(
                BoardState(
                    task.name,
                    task.gpus,
                    task.deadline,
                    "" if terms is None else terms.creator,
                    Visibility.PUBLIC if terms is None else terms.visibility,
                    limits.get(task.name, NO_LIMITS),
                    sum(each.submissions for each in here),
                    len({each.user for each in here}),
                )
            )
        return tuple(boards)

    def people(self, *, limit: int = 1_000, part: str = "") -> tuple[PersonState, ...]:
        """Return the users who have submitted, have decisions about them or are in the settings, by name.

        At most `limit` of them, with `part` in their names.

        Raises:
            Refused: the user is not an admin.
        """
        self._context.require(Role.ADMIN, "administer users")
        now, moderation, roles = utc_now(), self._context.store.moderation, self._context.settings.roles
        named = {name for name in (*roles.admins, *roles.creators, *roles.participants) if not name.startswith(GROUP)}
        newest = dict.fromkeys(name for name in named if part.lower() in name.lower())
        newest |= moderation.people(limit=limit, part=part)
        limits = {decision.subject: each for decision, each in moderation.limits()}
        bans = {ban.subject: ban for ban in moderation.bans(now)}
        sent: dict[str, list[HourCount]] = {}
        for each in moderation.sent_since(now - LIMITED_PERIOD):
            sent.setdefault(each.user, []).append(each)
        people, names = [], sorted(newest)[:limit]
        gpu_uses = self._gpu_uses(names, now)
        for name in names:
            own = sent.get(name, [])
            role = self._context.role_of(name)
            people.append(
                PersonState(
                    name,
                    role,
                    bans.get(name),
                    newest[name],
                    sum(each.submissions for each in own),
                    sum(each.runs for each in own),
                    () if role is Role.ADMIN else (*_uses(own, limits), *gpu_uses.get(name, ())),
                )
            )
        return tuple(people)

    def _gpu_uses(self, users: Collection[str], now: datetime) -> dict[str, tuple[LimitUse, ...]]:
        """Return the use of the limit on GPU time by those of these users who have used any."""
        found = self._context.store.moderation.gpu_limit()
        if found is None:
            return {}
        _, limit = found
        used = self._context.store.moderation.gpu_seconds(users, now - limit.per.length)
        most = limit.gpu_seconds or 0
        return {user: (LimitUse("GPU-seconds", int(seconds), most),) for user, seconds in used.items() if seconds}


def _uses(own: Collection[HourCount], limits: dict[str, Limits]) -> tuple[LimitUse, ...]:
    uses = []
    for board, limit in limits.items():
        for category in Category:
            most = limit.of(category)
            used = sum(each.limited for each in own if (each.board, each.category) == (board, category))
            if most is not None and used:
                uses.append(LimitUse(f"{board} {category}", used, most))
    return tuple(uses)
