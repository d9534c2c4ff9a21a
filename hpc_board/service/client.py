"""The board behind a service: `RemoteBoard` has the parts of `Board`, whose methods ask the service."""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import structs

from hpc_board.board import Board
from hpc_board.domain.change import Change
from hpc_board.domain.pause import Pause
from hpc_board.domain.roles import Role
from hpc_board.domain.run import Run, silence_words
from hpc_board.errors import BoardError, InputError
from hpc_board.model.text import one_line
from hpc_board.service import routes, wire
from hpc_board.service.doors import InDoubtError, ServiceError, door_to
from hpc_board.service.doors.unix import UnixDoor, fault_of, reason_of

if TYPE_CHECKING:
    from hpc_board.admin.export import Written
    from hpc_board.domain.draft import SubmissionRequest
    from hpc_board.domain.service_address import SshAddress
    from hpc_board.model.gpu import Gpu
    from hpc_board.model.task import Task
    from hpc_board.service.doors.ssh import SshDoor
    from hpc_board.store.backup import Contents

T = TypeVar("T")

ANSWER_SECONDS = 120.0
"""The time for an answer: a question to a hanging scheduler has its own, shorter limit."""

_IDLE_SECONDS = 120.0
"""The age at which an unused connection is replaced: the service closes it later, and maybe beneath a question."""

RETURN_SECONDS = 20.0
"""The time for which a submission without an answer awaits the service's return: its unit restarts it after 10 s."""

_IN_DOUBT = "The service may have accepted it: check its effect, e.g. with `hpc-board runs`, before you retry."

GPUS_SECONDS = 60.0
"""The lifetime of the list of GPUs in a client."""

_LISTEN_SECONDS = 0.25
"""The interval at which a listener looks if it is still wanted."""

_PAUSE_SECONDS = 1.0
"""The pause before the first try to reach a lost service again; each further one is longer."""

_PAUSE_SECONDS_MAX = 30.0


class _Line:
    """A connection to the service, for one question at a time."""

    def __init__(self, door: "UnixDoor | SshDoor") -> None:
        self._stream = door.open(ANSWER_SECONDS)
        self._rest = bytearray()
        self._answered_at = 0.0
        self.in_doubt = False
        """True while the service may have carried out a question without an answer on this connection yet."""
        try:
            self._stream.send(wire.HELLO + b"\n")
            self.welcome = self._welcome()
        except BaseException:
            self.close()
            raise

    def _welcome(self) -> wire.Welcome:
        line = self.read()
        with suppress(msgspec.MsgspecError):
            told = msgspec.json.decode(line, type=wire.Reply)
            if told.error is not None:
                raise wire.raised(told.error)
        return msgspec.json.decode(line, type=wire.Welcome)

    def ask(self, route: str, args: dict[str, Any]) -> None:
        """Send a question; all lines of the answer come before the next one."""
        try:
            line = wire.encoded(wire.Request(1, route, msgspec.Raw(wire.encoded(args))))
        except UnicodeEncodeError as error:
            raise InputError(
                f"invalid text {one_line(str(error.object), 80)!r}.",
                hint="Correct the name.",
            ) from error
        creator = Role(self.welcome.role).may_act_as(Role.CREATOR)
        most = wire.SOURCE_BYTES_MAX if creator else wire.REQUEST_BYTES_MAX
        if len(line) >= most:
            raise InputError(
                f"the request is too large: {len(line):,} bytes (limit {most:,}).",
                hint="Send fewer files at once.",
            )
        self.in_doubt = route in routes.ROUTES and routes.ROUTES[route].writes
        self._stream.send(line + b"\n")

    def read(self) -> bytes:
        """Return the next line."""
        searched = 0
        while (end := self._rest.find(b"\n", searched)) < 0:
            searched = len(self._rest)
            if searched > wire.REPLY_BYTES_MAX:
                raise ConnectionResetError("the service sent a line that is too long")
            self._rest += self._more()
        self._answered_at = time.monotonic()
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        return line

    def _more(self) -> bytes:
        data = self._stream.receive()
        if not data:
            raise ConnectionResetError("the service has closed the connection")
        return data

    def reply(self) -> wire.Reply:
        """Return the next line of the answer to the question that was sent."""
        reply = msgspec.json.decode(self.read(), type=wire.Reply)
        if reply.error is not None:
            raise wire.raised(reply.error)
        return reply

    def is_open(self) -> bool:
        """Return whether the service has not closed the connection, nor is about to: it sends nothing unasked."""
        fresh = time.monotonic() - self._answered_at < _IDLE_SECONDS
        return fresh and not self._rest and self._stream.is_open()

    def await_line(self, seconds: float | None) -> None:
        """Wait for the beginning of the next line.

        Raises:
            TimeoutError: it has not begun after `seconds`; a later wait may follow.
        """
        self._stream.limit(seconds)
        try:
            self._rest += b"" if self._rest else self._more()
        finally:
            self._stream.limit(ANSWER_SECONDS)

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()


class Connection:
    """The connections of this process to a service; each is used by one thread at a time.

    `origin` is the place that names the address, "" if it is not known.
    """

    def __init__(self, address: "Path | SshAddress", warn: Callable[[str], object], origin: str = "") -> None:
        self._address = address
        self._origin = origin
        self._door = door_to(address)
        self._warn = warn
        self._lock = threading.Lock()
        self._idle: list[_Line] = []
        self._closed_times = 0

    @property
    def welcome(self) -> wire.Welcome:
        """The service's greeting."""
        with self._line() as line:
            return line.welcome

    def ask(self, route: str, args: dict[str, Any]) -> Any:
        """Return the answer to a question.

        Raises:
            BoardError: the service's own error, or that it cannot be reached.
        """
        with self._line() as line:
            line.ask(route, args)
            while not bytes((reply := line.reply()).value):
                self._warn(reply.warning)
            return wire.decoded(reply.value, routes.answer_type(route))

    @contextmanager
    def stream(self, route: str, args: dict[str, Any], type_: type[Any]) -> Iterator[Callable[[float | None], Any]]:
        """Yield a function that returns the next event, None at the end; it raises TimeoutError after its seconds."""
        with self._line(keep=False) as line:
            line.ask(route, args)

            def following(seconds: float | None) -> Any:
                line.await_line(seconds)
                reply = line.reply()
                return None if not bytes(reply.event) else wire.decoded(reply.event, type_)

            yield following

    def fetch(self, route: str, args: dict[str, Any], sink: IO[bytes], type_: type[T]) -> T:
        """Write the file that the service sends to `sink`, and return the value at its end.

        Raises:
            OSError: `sink` cannot be written.
            BoardError: as of `ask`.
        """
        # Written outside of `_line`, which takes an OSError for one of the connection.
        pieces = self._pieces(route, args)
        piece = next(pieces)
        while isinstance(piece, bytes):
            sink.write(piece)
            piece = next(pieces)
        return wire.decoded(piece.value, type_)

    def _pieces(self, route: str, args: dict[str, Any]) -> Iterator[bytes | wire.Reply]:
        with self._line() as line:
            line.ask(route, args)
            while not bytes((reply := line.reply()).value):
                yield wire.decoded(reply.event, bytes)
        yield reply

    @contextmanager
    def _line(self, *, keep: bool = True) -> Iterator[_Line]:
        line, closed_times, is_kept = None, self._closed_times, False
        try:
            line = self._free_line()
            yield line
            is_kept = keep
        except BoardError:
            is_kept = keep
            raise
        except (OSError, msgspec.MsgspecError) as error:
            raise self._unreachable(error, in_doubt=line is not None and line.in_doubt) from error
        finally:
            if line is not None:
                self._give_back(line, closed_times) if is_kept else line.close()

    def _free_line(self) -> _Line:
        with self._lock:
            while self._idle:
                line = self._idle.pop()
                if line.is_open():
                    return line
                line.close()
        return _Line(self._door)

    def _give_back(self, line: _Line, closed_times: int) -> None:
        """Keep a line for later questions, unless `close` was called since it was taken."""
        with self._lock:
            if closed_times == self._closed_times:
                self._idle.append(line)
                return
        line.close()

    def close(self) -> None:
        """Close all connections, those in use after their answer, and their common resources."""
        with self._lock:
            self._closed_times += 1
            while self._idle:
                self._idle.pop().close()
        self._door.close()

    def _unreachable(self, error: Exception, *, in_doubt: bool) -> ServiceError:
        if isinstance(error, TimeoutError):
            reason, hint = f"no answer within {ANSWER_SECONDS:g} s", self._door.hint
        elif isinstance(self._address, Path):
            reason, hint = fault_of(self._address, error, self._origin)
        else:
            reason, hint = reason_of(error), self._door.hint
        message = f"{self._address}: {reason}."
        return InDoubtError(message, hint=_IN_DOUBT) if in_doubt else ServiceError(message, hint=hint)


_COMMANDS_ON_FILES = {"check_gpus": "admin check", "check_nodes": "admin check", "restore": "admin restore FILE"}
"""The commands without a route, by the methods that carry them out."""


class _Part:
    """A part of the board: each attribute asks the route of its name."""

    def __init__(self, connection: Connection, part: str) -> None:
        self._connection = connection
        self._part = part

    def __getattr__(self, name: str) -> Callable[..., Any]:
        route = f"{self._part}.{name}"
        if name.startswith("_"):
            raise AttributeError(name)
        if route not in routes.ROUTES:
            raise InputError(
                "this command requires the board's own settings and files, which a client of a service does not have.",
                hint="Run it under the service's account on the service's machine, with the service's settings file: "
                f"`hpc-board --config SETTINGS {_COMMANDS_ON_FILES.get(name, '...')}`.",
            )
        return partial(_ask, self._connection, route)


def _ask(connection: Connection, route: str, *args: Any, **named: Any) -> Any:
    names = routes.method(route).__code__.co_varnames[1:]
    return connection.ask(route, {**dict(zip(names, args, strict=False)), **named})


class _Gpus(_Part):
    """The GPUs of the service, which are read once in a while."""

    _known: "tuple[float, tuple[Gpu, ...]]" = (-math.inf, ())

    def all(self) -> "tuple[Gpu, ...]":
        """Return the GPUs, as they were within the last GPUS_SECONDS."""
        at, gpus = self._known
        if time.monotonic() - at > GPUS_SECONDS:
            gpus = self._connection.ask("gpus.all", {})
            self._known = time.monotonic(), gpus
        return gpus

    def get(self, name: str) -> "Gpu":
        """Return the GPU called `name`."""
        from hpc_board.domain.gpus import gpu

        return gpu(name, self.all())

    def allowed(self, task: "Task") -> "tuple[Gpu, ...]":
        """Return the GPUs that `task` allows."""
        from hpc_board.domain.gpus import allowed_gpus

        return allowed_gpus(task, self.all())


class _Submissions(_Part):
    """The submissions, each of which can be sent again: it has a key, or `if_new`."""

    def submit(self, requests: "Sequence[SubmissionRequest]", **options: Any) -> list[Run]:
        """Submit as the service does, once more if the connection breaks off before the answer."""
        import secrets

        has_name = bool(options.get("key") or options.get("if_new"))
        if not has_name:
            options["key"] = secrets.token_hex(16)
        ask = partial(self._connection.ask, "submissions.submit", {"requests": requests, **options})
        try:
            runs: list[Run] = ask()
        except InDoubtError as error:
            runs = self._again(ask, error, options.get("key", ""))
        # Nothing else has a key that was drawn here.
        return runs if has_name else [structs.replace(run, reused=False) for run in runs]

    def _again(self, ask: Callable[[], list[Run]], error: InDoubtError, key: str) -> list[Run]:
        """Ask once more as soon as the service is there.

        Raises:
            InDoubtError: it does not return, or breaks off again.
        """
        deadline = time.monotonic() + RETURN_SECONDS
        while time.monotonic() < deadline:
            try:
                return ask()
            except InDoubtError:
                break
            except ServiceError:
                time.sleep(_PAUSE_SECONDS)
        words = f"with `--key {key}`" if key else "as it is"
        hint = f"The service may have accepted it. Repeat it {words}: nothing is sent twice."
        raise InDoubtError(error.message, hint=hint) from error


class _Runs(_Part):
    """The runs: the service advances them, and tells of changes."""

    def advance(self, _watched: object = None, *, within_seconds: float | None = None) -> bool:
        """Return True: the service advances all runs."""
        del within_seconds
        return True

    def wait(
        self,
        ids: Sequence[int],
        *,
        timeout_seconds: float | None = None,
        poll_seconds: float = 0.5,  # noqa: ARG002 - the service tells of changes
        say: Callable[[str], object] = lambda _: None,
    ) -> "Iterator[list[Run]]":
        """Yield the runs whenever they change, until all have ended."""
        from hpc_board.runs.wait import expired

        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        user, runs, silent = self._connection.welcome.user, list[Run](), dict[str, object]()
        with _hint_to_watch(ids), self._connection.stream(routes.CHANGES, {}, Change) as following:
            shown = False
            while not shown or not all(run.state.ended for run in runs):
                # Even a wait of no time shows the runs once.
                least = 0.001 if shown else ANSWER_SECONDS
                try:
                    change = following(None if deadline is None else max(deadline - time.monotonic(), least))
                except TimeoutError:
                    if not shown:
                        raise
                    raise expired([run for run in runs if not run.state.ended], timeout_seconds, served=True) from None
                if change.anew:
                    stale = [*ids]
                else:
                    # Changes name only the user's own runs.
                    going = [run for run in runs if not run.state.ended]
                    stale = [run.id for run in going if run.id in change.runs or (change.facts and run.user != user)]
                if not stale and shown:
                    continue
                known = {run.id: run for run in runs} | {run.id: run for run in self.get_each(stale)}
                runs = [known[id_] for id_ in ids]
                # A run that is not sent yet shows the silence itself.
                sent = [run for run in runs if not run.state.ended and not run.blocked_by]
                for cluster in dict.fromkeys(run.cluster for run in sent):
                    since = self.silent_since(cluster)
                    if since is not None and silent.get(cluster) is None:
                        say(silence_words(cluster, since))
                    silent[cluster] = since
                shown = True
                yield runs


@contextmanager
def _hint_to_watch(ids: Sequence[int]) -> Iterator[None]:
    """Have the error for a service that breaks off say that the runs go on, and how to wait for them."""
    try:
        yield
    except ServiceError as error:
        numbers = one_line(" ".join(map(str, ids)), 80)
        hint = f"{error.hint} The runs continue without this command; `hpc-board watch {numbers}` waits for them again."
        raise ServiceError(error.message, hint=hint) from error


class _Administration(_Part):
    """Administration: the service sends exports and backups, and this process writes the files."""

    def export(self, form: str, **options: Any) -> "_Export":
        """Return an export, which asks the service when it is written."""
        return _Export(self._connection, {"form": form, **options})

    def backup(self, target: Path, *, force: bool = False) -> "Contents":
        """Write a copy of the service's database to `target`, and return its contents."""
        from hpc_board.files import new_file
        from hpc_board.store.backup import Contents

        # It holds all users' code.
        with new_file(target, force=force, most=0o600) as file:
            return self._connection.fetch(routes.BACKUP, {}, file, Contents)


class _Export(msgspec.Struct, frozen=True):
    connection: Connection
    args: dict[str, Any]

    def write(self, sink: IO[bytes]) -> "Written":
        """Write the export to `sink` as it arrives, and return the numbers of its runs and boards."""
        from hpc_board.admin.export import Written

        return self.connection.fetch(routes.EXPORT, self.args, sink, Written)


class RemoteBoard(Board):
    """A board behind a service, at a socket of this machine or an address, with the promises of `Board`.

    `origin` is the place that names the address, for errors.
    """

    def __init__(
        self,
        address: "Path | SshAddress",
        *,
        warn: Callable[[str], object] = lambda _: None,
        origin: str = "",
    ) -> None:
        self.warn = warn
        self.address = address
        connection = self._connection = Connection(address, self._warn, origin)
        own = {"gpus": _Gpus, "runs": _Runs, "submissions": _Submissions, "admin": _Administration}
        for part in routes.PARTS:
            setattr(self, part, own.get(part, _Part)(connection, part))

    served = True

    @property
    def exists(self) -> bool:
        """Return True: a service has made its board."""
        return True

    @cached_property
    def user(self) -> str:
        """The user, as the service's kernel tells it."""
        return self._connection.welcome.user

    @cached_property
    def version(self) -> str:
        """The service's version."""
        return self._connection.welcome.version

    @cached_property
    def role(self) -> Role:
        """The user's role, as the service tells it."""
        return Role(self._connection.welcome.role)

    @contextmanager
    def session(self) -> Iterator[None]:
        """Keep connections open for later questions, and close them at the end."""
        try:
            yield
        finally:
            self._connection.close()

    def changes(self, wanted: Callable[[], bool]) -> "Iterator[Change | BoardError]":
        """Yield the changes of the board while `wanted`, and the error of each loss of the service."""
        return _listen(self._connection, wanted)


def _listen(connection: Connection, wanted: Callable[[], bool]) -> Iterator[Change | BoardError]:
    """Yield the changes of the board while `wanted`, and the error of each loss of the service, once.

    The first change after a loss stands for all that came meanwhile.
    """
    pause = Pause()
    while wanted():
        try:
            for change in _changes(connection, wanted):
                pause = Pause()
                yield change
        except BoardError as error:
            if not pause.seconds:
                yield error
            pause = pause.longer(time.monotonic(), _PAUSE_SECONDS, _PAUSE_SECONDS_MAX)
            _rest(pause.seconds, wanted)


def _changes(connection: Connection, wanted: Callable[[], bool]) -> Iterator[Change]:
    with connection.stream(routes.CHANGES, {}, Change) as following:
        while wanted():
            try:
                yield following(_LISTEN_SECONDS)
            except TimeoutError:
                continue


def _rest(seconds: float, wanted: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while wanted() and (left := end - time.monotonic()) > 0:
        time.sleep(min(_LISTEN_SECONDS, left))
