"""Overviews for admins: leaderboards, and users with the decisions about them."""

import heapq
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime

from hpc_board.board.context import Context
from hpc_board.board.tasks import Tasks
from hpc_board.domain.admin_views import (
    BY_NAME,
    BoardState,
    HourCount,
    LimitUse,
    PersonColumn,
    PersonKey,
    PersonOrder,
    PersonState,
    ban_value,
)
from hpc_board.domain.board_options import Visibility
from hpc_board.domain.clock import utc_now
from hpc_board.domain.moderation import LIMITED_PERIOD, NO_LIMITS, Category, Decision, Limits
from hpc_board.domain.roles import GROUP, Role

_SORTED_MAX = 100_000
"""The most users that are sorted by another column than their names."""


class AdminViews:
    """Overviews for a user: an admin sees everything, a creator their own leaderboards."""

    def __init__(self, context: Context, tasks: Tasks) -> None:
        self._context = context
        self._tasks = tasks

    def stop(self) -> Decision | None:
        """Return the decision that stopped submissions; None while the board takes them."""
        return self._context.store.moderation.stopped()

    def boards(self) -> tuple[BoardState, ...]:
        """Return the leaderboards that the user may change, by name.

        Raises:
            Refused: the user is no creator.
        """
        self._context.require(Role.CREATOR, "administer boards")
        made = {
            board.name: board
            for board in self._context.editor.visible()
            if board.options.changeable_by(self._context.user, self._context.role)
        }
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

    def people(
        self, *, order: PersonOrder = BY_NAME, behind: PersonKey | None = None, limit: int = 50, part: str = ""
    ) -> tuple[PersonState, ...]:
        """Return the users who have submitted, have decisions about them or are in the settings.

        At most `limit` of them, in `order` behind the key `behind`, with `part` in their names.

        Raises:
            Refused: the user is no admin.
        """
        self._context.require(Role.ADMIN, "administer users")
        now = utc_now()
        chosen = self._names_in_order(order, behind, limit, part, now)
        limits = {decision.subject: each for decision, each in self._context.store.moderation.limits()}
        sent = self._context.store.moderation.sent_since(now - LIMITED_PERIOD, chosen)
        bans = {ban.subject: ban for ban in self._context.store.moderation.bans(now)}
        newest = self._context.store.moderation.last_sent(chosen)
        people = []
        for name in chosen:
            own = [each for each in sent if each.user == name]
            role = self._context.role_of(name)
            people.append(
                PersonState(
                    name,
                    role,
                    bans.get(name),
                    newest.get(name),
                    sum(each.submissions for each in own),
                    sum(each.runs for each in own),
                    () if role is Role.ADMIN else _uses(own, limits),
                )
            )
        return tuple(people)

    def _names_in_order(
        self, order: PersonOrder, behind: PersonKey | None, limit: int, part: str, now: datetime
    ) -> Collection[str]:
        """Return the names that `people` lists, in order."""
        moderation = self._context.store.moderation
        if order == BY_NAME:
            after = "" if behind is None else behind[2]
            known = moderation.user_names(after=after, limit=limit, part=part)
            return sorted({*known, *self._names_in_roles(after, part)})[:limit]
        names = {*moderation.user_names(after="", limit=_SORTED_MAX, part=part), *self._names_in_roles("", part)}
        values: Mapping[str, float] = {}
        match order.by:
            case PersonColumn.BAN:
                values = {ban.subject: ban_value(ban) for ban in moderation.bans(now)}
            case PersonColumn.SUBMISSIONS | PersonColumn.RUNS:
                counts: Counter[str] = Counter()
                for each in moderation.sent_since(now - LIMITED_PERIOD):
                    counts[each.user] += each.runs if order.by is PersonColumn.RUNS else each.submissions
                values = {name: count for name, count in counts.items() if count}
            case PersonColumn.LAST:
                values = {name: -at.timestamp() for name, at in moderation.last_sent(names).items()}
        keys = (order.key_of(name, values.get(name)) for name in names)
        left = (key for key in keys if behind is None or order.is_behind(key, behind))
        first = (heapq.nlargest if order.keys_descend else heapq.nsmallest)(limit, left)
        return [name for _, _, name in first]

    def _names_in_roles(self, after: str, part: str) -> Collection[str]:
        roles = self._context.settings.roles
        names = (*roles.admins, *roles.creators, *roles.participants)
        fitting = (name for name in names if name > after and part.lower() in name.lower())
        return {name for name in fitting if not name.startswith(GROUP)}


def _uses(own: Collection[HourCount], limits: dict[str, Limits]) -> tuple[LimitUse, ...]:
    uses = []
    for board, limit in limits.items():
        for category in Category:
            most = limit.of(category)
            used = sum(each.limited for each in own if (each.board, each.category) == (board, category))
            if most is not None and used:
                uses.append(LimitUse(board, category, used, most))
    return tuple(uses)
