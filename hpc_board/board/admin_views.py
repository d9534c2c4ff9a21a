"""Overviews for admins: leaderboards, and users with the decisions about them."""

from collections.abc import Collection, Mapping
from datetime import datetime

from hpc_board.board.context import Context
from hpc_board.board.tasks import Tasks
from hpc_board.domain.admin_views import BoardState, LimitUse, PersonState, SentCount
from hpc_board.domain.clock import utc_now
from hpc_board.domain.moderation import Category, Decision, Limits, Period, limits_for
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
        limits = _by_board(self._context.store.moderation.limits())
        sent = self._context.store.moderation.sent_since(Period.HOUR.start(utc_now()))
        boards = []
        for task in tasks:
            here = [each for each in sent if each.board == task.name]
            boards.append(
                BoardState(
                    task.name,
                    task.gpus,
                    task.deadline,
                    made[task.name].options if task.name in made else None,
                    limits.get(task.name, ()),
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
        limits = _by_board(moderation.limits())
        bans = {ban.subject: ban for ban in moderation.bans(now)}
        periods = {Period.HOUR, *(each.per for theirs in limits.values() for each in theirs)}
        sent: dict[tuple[str, Period], list[SentCount]] = {}
        for period in periods:
            for each in moderation.sent_since(period.start(now)):
                sent.setdefault((each.user, period), []).append(each)
        people, names = [], sorted(newest)[:limit]
        gpu_uses = self._gpu_uses(names, now)
        for name in names:
            own = sent.get((name, Period.HOUR), [])
            role = self._context.role_of(name)
            theirs = {board: limits_for(each, name, role) for board, each in limits.items()}
            by_period = {period: sent.get((name, period), []) for period in periods}
            people.append(
                PersonState(
                    name,
                    role,
                    bans.get(name),
                    newest[name],
                    sum(each.submissions for each in own),
                    sum(each.runs for each in own),
                    () if role is Role.ADMIN else (*_uses(by_period, theirs), *gpu_uses.get(name, ())),
                )
            )
        return tuple(people)

    def _gpu_uses(self, users: Collection[str], now: datetime) -> dict[str, tuple[LimitUse, ...]]:
        """Return the use of the limit on GPU time by those of these users who have used any."""
        found = self._context.store.moderation.gpu_limit()
        if found is None:
            return {}
        _, limit = found
        used = self._context.store.moderation.gpu_seconds(users, limit.per.start(now))
        most = limit.gpu_seconds or 0
        return {user: (LimitUse("GPU-seconds", int(seconds), most),) for user, seconds in used.items() if seconds}


def _by_board(found: Collection[tuple[Decision, Limits]]) -> dict[str, tuple[Limits, ...]]:
    by_board: dict[str, tuple[Limits, ...]] = {}
    for decision, each in found:
        by_board[decision.subject] = (*by_board.get(decision.subject, ()), each)
    return by_board


def _uses(
    own: Mapping[Period, Collection[SentCount]], limits: Mapping[str, Collection[Limits]]
) -> tuple[LimitUse, ...]:
    uses = []
    for board, limit in ((board, limit) for board, theirs in limits.items() for limit in theirs):
        for category in Category:
            most = limit.of(category)
            used = sum(each.limited for each in own[limit.per] if (each.board, each.category) == (board, category))
            if most is not None and used:
                uses.append(LimitUse(f"{board} {category} {limit.per.per}", used, most))
    return tuple(uses)
