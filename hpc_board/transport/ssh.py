"""A login node over SSH: a kept connection for commands and files."""

import contextlib
import re
import secrets
import shlex
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hpc_board.errors import SchedulerError
from hpc_board.model.gpu import Login
from hpc_board.model.text import one_line
from hpc_board.transport import CommandMissing, CommandStopped, CommandTimeout, Completed
from hpc_board.transport.this_host import OUTPUT_BYTES_MAX, scrubbed_environment
from hpc_board.transport.time_budget import RetryDelay, close_quietly, closed_after, counted, without_budget

if TYPE_CHECKING:
    from paramiko import Channel

    from hpc_board.transport.ssh_login import Link

REFUSED_SECONDS: Final = 120.0
"""The pause after a host refused the login: sites block clients that try again and again."""

_SESSIONS_MAX = 4
"""The maximum number of commands at the same time: servers allow ten sessions on a connection, files need one."""

_LINKS_MAX = _SESSIONS_MAX + 1
"""The maximum number of connections, to a host that allows one session on each."""

RETIRED_SECONDS: Final = 120.0
"""The time for running commands to end on a connection that opens no further session."""

_OPEN_SECONDS = 15.0
_FULL_SECONDS = 2.0
"""The wait for a session where all connections are full: one counts until its last process has ended."""

_ENVIRONMENT_SECONDS = 30.0
_LOOK_SECONDS = 0.05
_GRACE_SECONDS = 10.0
_CHUNK_BYTES = 64 * 1024
_NOISE_BYTES_KEPT = 1000
_MISSING, _NO_FOLDER = "missing", "no-folder"

_WITH_VARIABLES = (
    'while IFS= read -r hb_line && [ "$hb_line" ]; do export "$hb_line"; done; '
    'exec /usr/bin/env -u PWD -u OLDPWD -u SHLVL -u _ "$@"'
)
"""The sh script that runs its arguments with the variables that its input begins with, and without sh's own."""


class Connection:
    """The connection to a login node for all threads, made when it is first needed and again when it was lost.

    A host that limits the sessions on a connection gets further connections for those that it refuses. A host that
    could not be reached, or refused the login, is left alone for a while: the same error comes at once. The connections
    end with this object.
    """

    def __init__(self, login: Login) -> None:
        self.login = login
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._links: list[Link] = []
        self._retry_delay = RetryDelay()
        weakref.finalize(self, _close, self._links).atexit = False

    @property
    def name(self) -> str:
        """Return the account for a reader."""
        return one_line(f"{self.login.user}@{self.login.host}" if self.login.user else self.login.host, 120)

    def link(self, but: "Sequence[Link]" = ()) -> "Link":
        """Return the first connection that is open and none of `but`, else a new one.

        Raises:
            SchedulerError: the host cannot be reached, or refuses the login.
        """
        from hpc_board.transport.ssh_login import LoginRefused, log_in

        with self._lock:
            for link in tuple(self._links):
                if not link.alive:
                    self._links.remove(link)
                    close_quietly(link)
                elif link not in but:
                    return link
            self._retry_delay.check()
            began = time.monotonic()
            try:
                link = log_in(self.login)
            except LoginRefused as error:
                self._retry_delay.begin(error, began, at_least_seconds=REFUSED_SECONDS)
                raise
            except SchedulerError as error:
                self._retry_delay.begin(error, began)
                raise
            self._retry_delay.end()
            self._links.append(link)
            return link

    def channel(self, seconds: float = _OPEN_SECONDS) -> "tuple[Link, Channel]":
        """Open a session; a connection that opens none within `seconds` is replaced, once.

        Raises:
            SchedulerError: the host cannot be reached, refuses the login, or opens no session.
        """
        import paramiko

        full: list[Link] = []
        lost = 0
        deadline = time.monotonic() + _FULL_SECONDS
        while True:
            try:
                # One at a time: the library keeps only the error of one session.
                with self._opening:
                    link = self.link(full)
                    return link, link.open_session(min(seconds, _OPEN_SECONDS))
            except paramiko.ChannelException as error:
                full.append(link)
                if len(full) < _LINKS_MAX:
                    continue
                if time.monotonic() > deadline:
                    raise SchedulerError(
                        f"{self.name} does not open another session: {one_line(str(error), 100)}",
                        hint="Nothing was changed. Try again later; the host may limit sessions with MaxSessions.",
                    ) from error
                time.sleep(_LOOK_SECONDS)
                full.clear()
            except (paramiko.SSHException, EOFError, OSError) as error:
                lost += 1
                self._retire(link)
                if lost == 2:
                    raise SchedulerError(
                        f"the connection to {self.name} was lost twice: {one_line(str(error) or 'it was closed', 100)}",
                        hint="Nothing was changed. Try again later.",
                    ) from error

    def _retire(self, link: "Link") -> None:
        """Make the next use connect anew; commands on `link` may end there."""
        with self._lock, contextlib.suppress(ValueError):
            self._links.remove(link)
        timer = threading.Timer(RETIRED_SECONDS if link.alive else 0, close_quietly, [link])
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """End the connections; the next use makes a new one."""
        with self._lock:
            _close(self._links)


def _close(links: "list[Link]") -> None:
    while links:
        close_quietly(links.pop())


class SshHost:
    """Host that runs commands on a login node; safe to use from several threads.

    Random marks tell the command's output from the output of the user's shells when they start. A command gets the
    variables that `scrubbed_environment` keeps of a login shell's environment there, where sites put Slurm's commands
    into `PATH`; the commands themselves run without the login shell's rest.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._environment: tuple[Link, dict[str, str], bool] | None = None
        self._asking = threading.Lock()
        self._sessions = threading.BoundedSemaphore(_SESSIONS_MAX)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_seconds: float,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: str = "",
        until: Sequence[str] = (),
    ) -> Completed:
        """Run `argv` as `Host.run` does; it is also killed when the connection is lost, as soon as the host notices."""
        with self._sessions:
            # The login is slow on some hosts, and is not a question to the scheduler.
            with self._asking, without_budget():
                found, whole = self._login_environment()
            link, channel = self._connection.channel(timeout_seconds)
            try:
                with counted(timeout_seconds) as seconds:
                    variables = {**found, **(env or {})}
                    return self._execute(link, channel, argv, seconds, variables, cwd, stdin, until)
            except CommandMissing as error:
                if whole:
                    raise
                raise SchedulerError(
                    f"{argv[0]} is not in PATH on {self._connection.name}; its login shell did not answer in time",
                    hint=f"Check that `{link.destination.command} 'bash -lc true'` ends; the host may be busy.",
                ) from error

    def _login_environment(self) -> tuple[dict[str, str], bool]:
        """Return the user's scrubbed environment there, read once for each connection.

        False beside it says that a login shell did not answer, which may be due to a busy host.
        """
        link = self._connection.link()
        known = self._environment
        if known is not None and known[0] is link:
            return known[1:]
        plain = self._read_environment(["env", "-0"])
        mark = secrets.token_hex(16)
        inner = f"printf '%s\\0' {mark}; env -0"
        # A login shell may be one that does not know this language; bash reads the site's start-up files as well.
        outer = 'case "${SHELL##*/}" in bash|zsh|ksh|dash|sh) ;; *) SHELL=bash;; esac; exec "$SHELL" -l -c "$1"'
        try:
            login = self._read_environment(["sh", "-c", outer, "sh", inner]).partition(f"{mark}\0")[2]
        except CommandTimeout:
            login = ""
        found = scrubbed_environment({**_variables(plain), **_variables(login)})
        if login:
            # After one slow answer the next call asks again.
            self._environment = (link, found, True)
        return found, bool(login)

    def _read_environment(self, argv: Sequence[str]) -> str:
        return self._execute(*self._connection.channel(), argv, _ENVIRONMENT_SECONDS, None, None, "").stdout

    def _execute(
        self,
        link: "Link",
        channel: "Channel",
        argv: Sequence[str],
        seconds: float,
        environment: Mapping[str, str] | None,
        cwd: str | None,
        stdin: str,
        until: Sequence[str] = (),
    ) -> Completed:
        import paramiko

        begin, end = secrets.token_hex(16), secrets.token_hex(16)
        script = _script(argv, begin, end, max(seconds, 0) + _GRACE_SECONDS, environment, cwd, stdin)
        deadline = time.monotonic() + seconds
        out, err = _Framed(begin, end), _Framed(begin, end)
        ended = False
        with closed_after(max(seconds, 0) + _GRACE_SECONDS, link):
            try:
                # Every login shell understands this; the script is only for sh.
                channel.exec_command("exec /bin/sh")
                channel.settimeout(_LOOK_SECONDS)
                _send(channel, script.encode(), deadline)
                ended = _read_frames(channel, out, err, deadline, until)
            except (paramiko.SSHException, EOFError, OSError) as error:
                raise self._connection_lost(f"{argv[0]} ran") from error
            finally:
                # This ends a command that still runs.
                close_quietly(channel)
        if out.complete:
            return _completed_command(argv, self._connection.name, out, err)
        if not ended and err.has(until):
            raise CommandStopped(f"{argv[0]} was stopped: {one_line(err.read.decode(errors='replace'), 200)}")
        if not ended:
            raise CommandTimeout(f"{argv[0]} did not finish within {seconds:g} s on {self._connection.name}")
        if link.alive and not out.begun:
            words = one_line(f"{out.noise} {err.noise}", 200)
            raise SchedulerError(
                f"{self._connection.name} does not run commands: {words or 'its login shell exits immediately'}",
                hint=f"Check that `{link.destination.command} true` ends without a prompt.",
            )
        raise self._connection_lost(f"{argv[0]} ran")

    def _connection_lost(self, while_: str) -> SchedulerError:
        return SchedulerError(
            f"the connection to {self._connection.name} was lost while {while_}",
            hint="It is reopened with the next request; a job is looked up by its name before it is sent again.",
        )


def _script(
    argv: Sequence[str],
    begin: str,
    end: str,
    seconds: float,
    environment: Mapping[str, str] | None,
    cwd: str | None,
    stdin: str,
) -> str:
    """Return the sh script for the host: marks around the command, and a watch that kills it if the client is gone.

    It is one function, called in the last line, so that an incomplete script does nothing. The script has the marks in
    halves: a tracing shell prints them in another form than the command's frame. The
    client closes the session to end the command, and the watch's `cat` then sees the end of the session's input.

    The environment, whose values have no line breaks, comes before the command's own input: all users of the host can
    read arguments, and SLURM_JWT opens the account. printf is a builtin of sh, so its values are no arguments.
    """
    found = f"command -v {shlex.quote(argv[0])} >/dev/null 2>&1"
    if environment is None:
        command = shlex.join(argv)
        source = f"printf %s {shlex.quote(stdin)} | " if stdin else ""
        no_source = "" if stdin else " </dev/null"
    else:
        run = _WITH_VARIABLES + ("" if stdin else " </dev/null")
        command = shlex.join(["env", "-i", "/bin/sh", "-c", run, "sh", *argv])
        lines = shlex.join([*(f"{name}={value}" for name, value in environment.items()), ""])
        source = f"{{ printf '%s\\n' {lines}; printf %s {shlex.quote(stdin)}; }} | "
        no_source = ""
        found = f"(PATH={shlex.quote(environment.get('PATH', ''))}; {found})"
    begin_halves, end_halves = (f"{mark[:8]} {mark[8:]}" for mark in (begin, end))
    return f"""hb_run() {{
printf '%s%s\\n' {begin_halves}
printf '%s%s\\n' {begin_halves} >&2
if ! cd {shlex.quote(cwd or ".")}; then
hb_status={_NO_FOLDER}
elif {found}; then
exec 3<&0
{source}setsid {command}{no_source} 3<&- &
hb_pid=$!
(timeout {int(seconds) + 1} cat <&3 >/dev/null 2>&1; kill -s KILL -- "-$hb_pid") >/dev/null 2>&1 &
hb_watch=$!
wait "$hb_pid"
hb_status=$?
kill -s KILL "$hb_watch" >/dev/null 2>&1
else
hb_status={_MISSING}
fi
printf '%s%s\\n' {end_halves} >&2
printf '%s%s %s\\n' {end_halves} "$hb_status"
}}
hb_run; exit
"""


class _Framed:
    """An output stream: the part between two marks, up to a limit."""

    def __init__(self, begin: str, end: str) -> None:
        self._begin, self._end = f"{begin}\n".encode(), end.encode()
        self._pending = bytearray()
        self._kept = bytearray()
        self._noise = bytearray()
        self.begun = False
        self.ended = False
        self.truncated = False

    @property
    def complete(self) -> bool:
        """Return whether the whole frame has been read, and the line behind it."""
        return self.ended and b"\n" in self._pending

    @property
    def text(self) -> str:
        return self._kept.decode(errors="replace")

    @property
    def read(self) -> bytes:
        """Return the part of the frame that has been read, of which the end may belong to its mark."""
        return bytes(self._kept + self._pending) if self.begun else b""

    def has(self, texts: Sequence[str]) -> bool:
        """Return whether one of these texts has been read within the frame."""
        return any(text.encode() in self.read for text in texts)

    @property
    def noise(self) -> str:
        """Return the output before the frame, or in its place."""
        return (self._noise if self.begun else self._noise + self._pending).decode(errors="replace")

    @property
    def status(self) -> str:
        """Return the word behind the frame."""
        return bytes(self._pending).partition(b"\n")[0].decode(errors="replace").strip()

    def feed(self, data: bytes) -> None:
        """Add data that was read; output after the frame comes from the command's leftovers and is dropped."""
        if self.ended:
            self._pending += data[: max(0, 100 - len(self._pending))]
            return
        self._pending += data
        if not self.begun:
            before, mark, after = self._pending.partition(self._begin)
            self.begun = bool(mark)
            cut = len(before) if mark else max(0, len(before) - len(self._begin))
            self._noise += before[: min(cut, _NOISE_BYTES_KEPT - len(self._noise))]
            self._pending = bytearray(after if mark else before[cut:])
        if self.begun:
            inside, mark, after = self._pending.partition(self._end)
            self.ended = bool(mark)
            cut = len(inside) if mark else max(0, len(inside) - len(self._end))
            kept = inside[: min(cut, OUTPUT_BYTES_MAX - len(self._kept))]
            self._kept += kept
            self.truncated |= len(kept) < cut
            self._pending = bytearray(after[:100] if mark else inside[cut:])


def _send(channel: "Channel", data: bytes, deadline: float) -> None:
    rest = memoryview(data)
    while rest and time.monotonic() < deadline and not channel.closed:
        try:
            rest = rest[channel.send(rest[:_CHUNK_BYTES]) :]
        except TimeoutError:
            continue


def _read_frames(channel: "Channel", out: _Framed, err: _Framed, deadline: float, until: Sequence[str]) -> bool:
    """Read both streams until their frames are whole or the session is over.

    False means that the time is over before, or that the standard error has one of the texts of `until`.
    """
    patience = deadline
    while time.monotonic() < patience:
        while channel.recv_stderr_ready() and time.monotonic() < patience:
            err.feed(channel.recv_stderr(_CHUNK_BYTES))
            if until and err.has(until):
                return False
        if out.complete:
            if err.ended or channel.closed:
                return True
            patience = min(patience, time.monotonic() + 2)
        try:
            data = channel.recv(_CHUNK_BYTES)
        except TimeoutError:
            continue
        if not data:
            while channel.recv_stderr_ready():
                err.feed(channel.recv_stderr(_CHUNK_BYTES))
            return True
        out.feed(data)
    return False


def _completed_command(argv: Sequence[str], name: str, out: _Framed, err: _Framed) -> Completed:
    if out.status == _MISSING:
        raise CommandMissing(f"{argv[0]} is not in the PATH of a login shell on {name}")
    if out.status == _NO_FOLDER:
        raise SchedulerError(
            f"{name} cannot enter the folder for {argv[0]}: {one_line(err.text, 200)}",
            hint="Check that the folder `board_folder` of the settings exists on the login node.",
        )
    if not re.fullmatch("[0-9]{1,3}", out.status):
        raise SchedulerError(f"{name} printed the status {one_line(out.status, 40)!r} for {argv[0]}")
    return Completed(int(out.status), out.text, err.text, out.truncated or err.truncated)


def _variables(text: str) -> dict[str, str]:
    """Parse the variables of `env -0`."""
    pairs = (entry.partition("=") for entry in text.split("\0"))
    return {name: value for name, mark, value in pairs if mark and value.isprintable()}
