"""Answers of a service to questions, each on the board as its user sees it."""

import traceback
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from operator import is_
from pathlib import Path
from typing import Any

import msgspec

from hpc_board.board import Board
from hpc_board.errors import BoardError, InputError, Refused
from hpc_board.model.gpu import Gpu
from hpc_board.model.task import Task
from hpc_board.model.text import one_line
from hpc_board.model.value import Value
from hpc_board.service import routes, wire
from hpc_board.service.counts import Counts

ROWS_MAX = 10_000
"""The largest `limit` of a question, whose answer is made whole before it is sent, and the most items of its lists."""

ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""The maximum size of a list in an answer, which takes that much memory until its client has read it."""


class Answers:
    """Answers from the board that `board_of` returns for a user.

    `written` is called after each question of a route that writes.
    """

    def __init__(
        self, board_of: Callable[..., Board], log: Callable[..., None], counts: Counts, written: Callable[[], object]
    ) -> None:
        self._board_of = board_of
        self._log = log
        self._counts = counts
        self._written = written

    def answer(self, uid: int, user: str, request: wire.Request) -> list[wire.Reply]:
        """Return the replies to a question, the last of which ends the answer."""
        warnings: list[str] = []
        try:
            board = self._board_of(user, warnings.append)
            value = self._value(board, request)
            last = wire.Reply(request.id, value=msgspec.Raw(_answer_text(value)))
            self._counts.answered(request.route, "ok")
        except Exception as error:  # noqa: BLE001 - a fault of the service is told only to its log
            last = self.failed(uid, request, error)
        return [*(wire.Reply(request.id, warning=text) for text in warnings), last]

    def failed(self, uid: int, request: wire.Request, error: Exception) -> wire.Reply:
        """Return the last reply to a question that ended in `error`, and log a refusal or a fault."""
        # A client's own text is not a label.
        self._counts.answered(request.route if request.route in routes.KNOWN else "unknown", _outcome(error))
        if isinstance(error, Refused):
            self._log("refused", uid=uid, route=request.route, reason=error.message)
        if isinstance(error, BoardError):
            return wire.Reply(request.id, error=wire.failure(error))
        self._log("fault", uid=uid, route=request.route, traceback="".join(traceback.format_exception(error)))
        fault = BoardError("internal error of the service.", hint="Its log has the reason; contact its admin.")
        return wire.Reply(request.id, error=wire.failure(fault))

    def _value(self, board: Board, request: wire.Request) -> object:
        route = routes.ROUTES.get(request.route)
        if route is None:
            name = one_line(request.route, 80)
            raise InputError(f"unknown route {name!r}.", hint="Use a client of the service's version.")
        board.context.require(route.role, route.purpose)
        args = parsed_args(request, routes.arguments_type(request.route))
        given = {field: getattr(args, field) for field in args.__struct_fields__}
        given |= _limited(given)
        _check_lengths(given)
        part, name = request.route.split(".")
        try:
            with board.session():
                value = getattr(getattr(board, part), name)(**given)
        finally:
            if route.writes:
                self._written()
        return published(value) if _secretive(request.route) else value

    def write_file(self, user: str, request: wire.Request, file: Path) -> object:
        """Write the file of an EXPORT or BACKUP, and return its contents in numbers."""
        admin = self._board_of(user).admin
        if request.route == routes.BACKUP:
            parsed_args(request, routes.NoArguments)
            return admin.backup(file)
        export = admin.export(**msgspec.structs.asdict(parsed_args(request, routes.arguments_type(routes.EXPORT))))
        with file.open("wb") as sink:
            return export.write(sink)


def _outcome(error: Exception) -> str:
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
        raise InputError(f"too many rows requested: {limit} (limit {ROWS_MAX}).", hint="Request fewer rows.")
    return {"limit": limit}


def _check_lengths(given: Mapping[str, Any]) -> None:
    """Require that no list among these arguments, or in a value among them, has more than ROWS_MAX items.

    Raises:
        InputError: one has more. Each may cost a statement, and a line has room for a million numbers.
    """
    for name, value in given.items():
        if isinstance(value, msgspec.Struct):
            _check_lengths(msgspec.structs.asdict(value))
        if isinstance(value, Collection) and not isinstance(value, str | bytes) and len(value) > ROWS_MAX:
            raise InputError(
                f"too many {name} in a request: {len(value):,} (limit {ROWS_MAX:,}).",
                hint="Split the request.",
            )


def _answer_text(value: object) -> bytes:
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
                f"the answer exceeds the limit of {ANSWER_BYTES_MAX:,} bytes.",
                hint="Request fewer rows, or send fewer files.",
            )
    return b"[" + b",".join(items) + b"]"


_secretive_routes: dict[str, bool] = {}


def _secretive(route: str) -> bool:
    if route not in _secretive_routes:
        _secretive_routes[route] = holds_secrets(routes.answer_type(route))
    return _secretive_routes[route]


def parsed_args(request: wire.Request, type_: type[Any]) -> Any:
    """Return the arguments of a question.

    Raises:
        InputError: they do not fit.
    """
    try:
        return wire.decoded(request.args, type_)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InputError(
            f"invalid request {request.route}: {one_line(str(error), 300)}.",
            hint="Use a client of the service's version.",
        ) from error


def published(value: Any) -> Any:
    """Return `value` with every task and GPU in it as its users may see it.

    A task keeps its description, templates, public cases and the names of its files. The reference, the checks, the
    hidden cases and the milestones stay with the service, and so do the settings by which jobs reach a GPU's cluster.
    """
    if isinstance(value, Task):
        return replace(
            value,
            files=tuple(replace(file, text=None if file.text is None else "") for file in value.files),
            milestones=tuple(replace(each, text="") for each in value.milestones),
            hidden_tests=({},) * len(value.hidden_tests),
            hidden_benchmarks=({},) * len(value.hidden_benchmarks),
            published_version=value.version,
        )
    if isinstance(value, Gpu):
        cluster = replace(value.cluster, ssh=None, account="", board_folder="", scheduler_options=None)
        return replace(value, cluster=cluster, env={}, scheduler_options=None)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        items = [published(item) for item in value]
        return value if all(map(is_, items, value)) else type(value)(items)
    if isinstance(value, Mapping):
        return {**value, **_changed(value)}
    if isinstance(value, msgspec.Struct):
        changed = _changed({name: getattr(value, name) for name in value.__struct_fields__})
        return msgspec.structs.replace(value, **changed) if changed else value
    if isinstance(value, Value):
        changed = _changed(vars(value))
        return replace(value, **changed) if changed else value
    return value


def _changed(fields: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the published values of those fields that differ from them."""
    found = {name: published(value) for name, value in fields.items()}
    return {name: value for name, value in found.items() if value is not fields[name]}


def holds_secrets(type_: Any) -> bool:
    """Return whether a value of `type_` may have a task or a GPU in it, so that it must be `published`."""
    return _reaches(msgspec.inspect.type_info(type_), set())


def _reaches(info: Any, seen: set[type]) -> bool:
    kind = getattr(info, "cls", None)
    if kind in (Task, Gpu):
        return True
    if kind in seen:
        return False
    if kind is not None:
        seen.add(kind)
    inner = [getattr(info, name, None) for name in ("item_type", "key_type", "value_type")]
    inner += [*getattr(info, "types", ()), *getattr(info, "item_types", ())]
    inner += [field.type for field in getattr(info, "fields", ())]
    return any(_reaches(each, seen) for each in inner if each is not None)
