"""Answers: the value of a question by its route, within the bounds of a service."""

from collections.abc import Collection, Mapping
from typing import Any

from hpc_board.board import Board
from hpc_board.errors import BoardError, InputError, Refused
from hpc_board.model.text import one_line
from hpc_board.service import routes, wire
from hpc_board.service.lines import parsed_args
from hpc_board.service.published import holds_secrets, published

ROWS_MAX = 10_000
"""The largest `limit` of a question, whose answer is made whole before it is sent, and the most items of its lists."""

ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""The maximum size of a list in an answer, which takes that much memory until its client has read it."""


def route_of(request: wire.Request) -> routes.Route:
    """Return the route of a question.

    Raises:
        InputError: the service has no such route.
    """
    route = routes.ROUTES.get(request.route)
    if route is None:
        raise InputError(
            f"the service has no route {one_line(request.route, 80)!r}.", hint="Use a client of the service's version."
        )
    return route


def arguments(request: wire.Request) -> dict[str, Any]:
    """Return the arguments of a question by name, within their bounds.

    Raises:
        InputError: they are not those of its route, or out of their bounds.
    """
    args = parsed_args(request, routes.arguments_type(request.route))
    given = {field: getattr(args, field) for field in args.__struct_fields__}
    given |= _limited(given)
    _check_lengths(given)
    return given


def answer_of(board: Board, request: wire.Request, given: Mapping[str, Any]) -> object:
    """Return the answer to a question with these arguments, as far as it may leave the service."""
    part, name = request.route.split(".")
    with board.session():
        value = getattr(getattr(board, part), name)(**given)
    return published(value) if _secretive(request.route) else value


def outcome_of(error: Exception) -> str:
    """Return the outcome of a question that ended in `error`, for the counts."""
    if isinstance(error, Refused):
        return "refused"
    return "error" if isinstance(error, BoardError) else "fault"


def _limited(given: Mapping[str, Any]) -> dict[str, int]:
    """Return the bounded `limit` among these arguments, if they have one; None is ROWS_MAX.

    Raises:
        InputError: it is out of range. A negative one would be no limit in SQL.
    """
    if "limit" not in given:
        return {}
    limit = ROWS_MAX if given["limit"] is None else given["limit"]
    if not 0 <= limit <= ROWS_MAX:
        raise InputError(f"a service sends at most {ROWS_MAX} rows at once, not {limit}.", hint="Ask for fewer.")
    return {"limit": limit}


def _check_lengths(given: Mapping[str, Any]) -> None:
    """Require that no list among these arguments has more than ROWS_MAX items.

    Raises:
        InputError: one has more. Each may cost a statement, and a line has room for a million numbers.
    """
    for name, value in given.items():
        if isinstance(value, Collection) and not isinstance(value, str | bytes) and len(value) > ROWS_MAX:
            raise InputError(
                f"a service takes at most {ROWS_MAX:,} {name} in a question, not {len(value):,}.",
                hint="Ask in several parts.",
            )


def answer_text(value: object) -> bytes:
    """Return `value` as JSON of at most ANSWER_BYTES_MAX; the items of a list may share values, such as their task."""
    if not isinstance(value, list | tuple) or hasattr(value, "_fields"):
        return wire.encoded(value)
    items: list[bytes] = []
    size = 0
    for item in value:
        items.append(wire.encoded(item))
        size += len(items[-1])
        if size > ANSWER_BYTES_MAX:
            raise InputError(
                f"the answer has over {ANSWER_BYTES_MAX:,} bytes.", hint="Ask for fewer rows, or send fewer files."
            )
    return b"[" + b",".join(items) + b"]"


_secretive_routes: dict[str, bool] = {}


def _secretive(route: str) -> bool:
    if route not in _secretive_routes:
        _secretive_routes[route] = holds_secrets(routes.answer_type(route))
    return _secretive_routes[route]
