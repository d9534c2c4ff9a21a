"""The wire between a client and the service: one JSON object a line, with the facade's own types as the schema."""

from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from hpc_board import __version__, errors
from hpc_board.errors import BoardError, DocumentError, Fault

PROTOCOL = 1
"""The number of this protocol. Client and service must have the same."""

REQUEST_BYTES_MAX = 2 * 1024 * 1024
"""The maximum length of a client's line: a submission of a megabyte whose every second character is escaped."""

SOURCE_BYTES_MAX = 48 * 1024 * 1024
"""The maximum length of a creator's line: the largest archive of tasks, in base64."""

REPLY_BYTES_MAX = 256 * 1024 * 1024
"""The maximum length of a service's line."""

NONE = msgspec.Raw()
"""The absence of a value, which is not JSON; `null` is a value."""

T = TypeVar("T")


class Hello(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a client."""

    protocol: int
    version: str = ""


class Welcome(msgspec.Struct, frozen=True):
    """The first line of the service: its version, the client's user as the kernel tells it, and the user's role."""

    protocol: int
    version: str
    user: str = ""
    role: str = ""


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question: the name of a route, and its arguments by name. `id` returns in each line of the answer."""

    id: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    route: str
    args: msgspec.Raw = msgspec.Raw(b"{}")


class Failure(msgspec.Struct, frozen=True):
    """A BoardError: the name of its class, its texts, and the faults of a document."""

    kind: str
    message: str
    hint: str = ""
    file: str = ""
    faults: tuple[Fault, ...] = ()


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of an answer: an event of a stream, a warning to show, or the last line, which has a value or an error."""

    id: int
    value: msgspec.Raw = NONE
    error: Failure | None = None
    event: msgspec.Raw = NONE
    warning: str = ""


_KINDS: dict[str, type[BoardError]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, BoardError)
}

HELLO = msgspec.json.encode(Hello(PROTOCOL, __version__))


def encoded(value: object) -> bytes:
    """Return `value` as JSON on one line."""
    return msgspec.json.encode(value, enc_hook=_plain)


def decoded(data: bytes | msgspec.Raw, type_: type[T]) -> T:
    """Return the value of `type_` in `data`.

    Raises:
        msgspec.MsgspecError: `data` is not such a value.
    """
    return msgspec.json.decode(data, type=type_, dec_hook=_rich)


def failure(error: BoardError) -> Failure:
    """Return `error` for the wire."""
    kind = next(each.__name__ for each in type(error).__mro__ if _KINDS.get(each.__name__) is each)
    if isinstance(error, DocumentError):
        return Failure(kind, error.message, error.hint, error.file, error.faults)
    return Failure(kind, error.message, error.hint)


def raised(told: Failure) -> BoardError:
    """Return the error that `told` describes; an unknown kind, of another version, becomes a BoardError."""
    kind = _KINDS.get(told.kind, BoardError)
    if kind is DocumentError:
        return DocumentError(told.file, told.faults, hint=told.hint)
    return kind(told.message, hint=told.hint)


def _plain(value: object) -> Any:
    if isinstance(value, BoardError):
        return failure(value)
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} does not cross the wire")


def _rich(type_: type, value: Any) -> Any:
    if issubclass(type_, BoardError):
        return raised(msgspec.convert(value, Failure))
    if issubclass(type_, Path):
        return type_(value)
    if type_ is object:
        return None  # the scheduler's options, which stay with the service
    raise NotImplementedError(f"{type_.__name__} does not cross the wire")
