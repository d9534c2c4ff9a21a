"""Routes: the promises of the facade that cross the wire, each with the least role that may ask.

A route is named after a part of `Board` and a method of it; the method's annotations are the schema of its arguments
and of its answer.
"""

import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import msgspec
from msgspec import structs

from hpc_board.domain.roles import Role

PARTS: Mapping[str, str] = {
    "tasks": "hpc_board.board.tasks:Tasks",
    "gpus": "hpc_board.board.gpus:Gpus",
    "runs": "hpc_board.board.runs:Runs",
    "runners": "hpc_board.board.runners:Runners",
    "standings": "hpc_board.board.standings:Standings",
    "leaderboards": "hpc_board.board.leaderboards:Leaderboards",
    "submissions": "hpc_board.board.submissions:Submissions",
    "moderation": "hpc_board.board.moderation:Moderation",
    "admin_views": "hpc_board.board.admin_views:AdminViews",
    "admin": "hpc_board.board.administration:Administration",
}
"""The classes of the parts of `Board`, by attribute."""


class Route(msgspec.Struct, frozen=True):
    """The least role that may ask, and whether an answer may have changed the board.

    `purpose` completes "you may not ..." for a user with a lower role. `types` are modules whose names the method's
    annotations need besides its own module's.
    """

    role: Role
    purpose: str
    types: tuple[str, ...] = ()
    writes: bool = False


_ANYONE = Route(Role.NONE, "use this service")
_PARTICIPANT = Route(Role.PARTICIPANT, "use this board")
_CREATOR = Route(Role.CREATOR, "create or change boards")
_MANAGER = Route(Role.CREATOR, "manage boards")
_ADMIN = Route(Role.ADMIN, "administer this board")
_ANYONE_WRITES, _PARTICIPANT_WRITES, _CREATOR_WRITES, _MANAGER_WRITES, _ADMIN_WRITES = (
    structs.replace(route, writes=True) for route in (_ANYONE, _PARTICIPANT, _CREATOR, _MANAGER, _ADMIN)
)

ROUTES: Mapping[str, Route] = {
    "tasks.catalog": _PARTICIPANT,
    "tasks.get": _PARTICIPANT,
    "gpus.all": _PARTICIPANT,
    "gpus.statuses": _PARTICIPANT,
    # A user who has lost the role keeps the sight of their own runs and submissions: the methods check the owner.
    "runs.cancel_each": _ANYONE_WRITES,
    "runs.get": _ANYONE,
    "runs.get_each": _ANYONE,
    "runs.whole": _ANYONE,
    "runs.list": _ANYONE,
    "runs.count": _ANYONE,
    "runs.started": _ANYONE,
    "runs.in_flight": _ANYONE,
    "runs.followed": _ANYONE,
    "runs.cases": _ANYONE,
    "runs.cases_each": _ANYONE,
    "runs.progress": _ANYONE,
    "runs.log": _ANYONE,
    "runs.files": _ANYONE,
    "runs.file_part": _ANYONE,
    "runs.asked_at": _PARTICIPANT,
    "runs.silent_since": _ANYONE,
    "runners.rules": _PARTICIPANT,
    "runners.preview": _PARTICIPANT,
    "runners.hold": _PARTICIPANT_WRITES,
    # As with runs, a user who has lost the role may still release a GPU.
    "runners.release": _ANYONE_WRITES,
    "runners.get": _ANYONE,
    "runners.live": _PARTICIPANT,
    "runners.recent": _ANYONE,
    "standings.uncounted": _PARTICIPANT,
    "standings.pages": _PARTICIPANT,
    "standings.records": _PARTICIPANT,
    "standings.at_rank": _PARTICIPANT,
    "standings.versions": _PARTICIPANT,
    "standings.feed": structs.replace(_PARTICIPANT, types=("hpc_board.domain.feed",)),
    "standings.places": _ANYONE,
    "standings.of_user": _PARTICIPANT,
    "standings.users": _PARTICIPANT,
    "standings.grades": _MANAGER,
    "standings.competitions": _PARTICIPANT,
    "standings.overall": _PARTICIPANT,
    "standings.placing": _ANYONE,
    "standings.placing_each": _ANYONE,
    "leaderboards.get": _PARTICIPANT,
    "leaderboards.list": _PARTICIPANT,
    "leaderboards.manages": _PARTICIPANT,
    "leaderboards.limits": _PARTICIPANT,
    "leaderboards.history": _PARTICIPANT,
    "leaderboards.plan": _CREATOR,
    "leaderboards.plan_sync": _ADMIN,
    "leaderboards.carry_out": _CREATOR_WRITES,
    "leaderboards.plan_deletion": _CREATOR,
    "leaderboards.delete": _CREATOR_WRITES,
    "submissions.option_rules": _PARTICIPANT,
    "submissions.again": _ANYONE,
    "submissions.preview": _PARTICIPANT,
    "submissions.submit": _PARTICIPANT_WRITES,
    "submissions.submit_milestones": _CREATOR_WRITES,
    "submissions.near_copies": structs.replace(_MANAGER, types=("hpc_board.domain.near_copies",)),
    "submissions.rerun_plan": _MANAGER,
    "submissions.rerun": _MANAGER_WRITES,
    "submissions.entrants": _ANYONE,
    "submissions.budget_left": _PARTICIPANT,
    "submissions.code": _ANYONE,
    "submissions.note": _ANYONE_WRITES,
    "submissions.compare": structs.replace(_PARTICIPANT, types=("hpc_board.domain.comparison",)),
    "submissions.get": _ANYONE,
    "moderation.ban": _ADMIN_WRITES,
    "moderation.unban": _ADMIN_WRITES,
    "moderation.bans": _ADMIN,
    "moderation.stop": _ADMIN_WRITES,
    "moderation.start": _ADMIN_WRITES,
    "moderation.limit": _MANAGER_WRITES,
    "moderation.limits": _PARTICIPANT,
    "moderation.limit_gpu_time": _ADMIN_WRITES,
    "moderation.gpu_limit": _PARTICIPANT,
    "moderation.link": _MANAGER_WRITES,
    "moderation.unlink": _MANAGER_WRITES,
    "moderation.links": _MANAGER,
    "moderation.remove": _MANAGER_WRITES,
    "moderation.readmit": _MANAGER_WRITES,
    "moderation.decisions": _MANAGER,
    "admin_views.stop": _PARTICIPANT,
    "admin_views.boards": _CREATOR,
    "admin_views.people": _ADMIN,
    "admin.prune": structs.replace(_ADMIN, types=("hpc_board.domain.pruned",)),
    "admin.statistics": structs.replace(_MANAGER, types=("hpc_board.domain.statistics",)),
}
"""The routes by name. The role is checked before anything runs, and by the method again."""

EXPORT, BACKUP = "admin.export", "admin.backup"
"""The routes of streams of bytes: a file, and at the end its contents in numbers."""


CHANGES = "changes"
"""The route of a stream without an end: the changes of the board that the user may see, as `Change`."""


KNOWN = frozenset((*ROUTES, EXPORT, BACKUP, CHANGES))
"""The names of all routes, those of streams included."""


class NoArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of the routes BACKUP and CHANGES."""


def method(route: str) -> Callable[..., Any]:
    """Return the function of the facade that `route` names."""
    part, name = route.split(".")
    module, class_name = PARTS[part].split(":")
    found: Callable[..., Any] = getattr(getattr(import_module(module), class_name), name)
    return found


@cache
def answer_type(route: str) -> Any:
    """Return the type of a route's answer."""
    return _annotation(route, "return")


@cache
def arguments_type(route: str) -> type[msgspec.Struct]:
    """Return a Struct of a route's arguments, which refuses unknown ones."""
    import inspect

    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in list(inspect.signature(method(route)).parameters.values())[1:]:
        if parameter.default is parameter.empty:
            fields.append((parameter.name, _annotation(route, parameter.name)))
        else:
            fields.append((parameter.name, _annotation(route, parameter.name), parameter.default))
    return msgspec.defstruct(f"Arguments of {route}", fields, forbid_unknown_fields=True, kw_only=True)


def _annotation(route: str, name: str) -> Any:
    """Return an annotation of a route's method, evaluated in its module and in the modules that the route names."""
    found = method(route)
    kind = found.__annotations__[name]
    names = dict(vars(sys.modules[found.__module__]))
    for module in ROUTES[route].types if route in ROUTES else ():
        names |= vars(import_module(module))
    return eval(kind, names) if isinstance(kind, str) else kind  # noqa: S307 - the source of this package
