"""The machine that hpc-board runs on."""

import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, cast

from hpc_board.errors import SchedulerError
from hpc_board.model.text import one_line
from hpc_board.transport import CommandMissing, CommandStopped, CommandTimeout, Completed
from hpc_board.transport.time_budget import counted

OUTPUT_BYTES_MAX = 8 * 1024 * 1024
"""The part of each output stream that is kept; the rest is read and dropped, so that the command never blocks."""

_CHUNK_BYTES = 64 * 1024
_LOOK_SECONDS = 0.05
_EXIT_SECONDS = 0.002
_LEFTOVER_SECONDS = 1.0

_KEPT = frozenset(
    {
        # the user, and the folders of programs
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "TZ",
        # libraries of commands that come from the site's modules
        "LD_LIBRARY_PATH",
        # the ticket without which home folders on AFS or on NFS with Kerberos cannot be read
        "KRB5CCNAME",
        # the address of the cluster, and access to it: Slurm's three variables that are no options of its commands
        "SLURM_CONF",
        "SLURM_CONF_SERVER",
        "SLURM_JWT",
    }
)


def scrubbed_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `environ` that a command may see: an allow-list, and a fixed locale.

    A job inherits the environment of sbatch, so the list applies to both. Variables such as SBATCH_PARTITION or
    SQUEUE_FORMAT silently change the acts and the output of Slurm's commands; SLURM_CPU_BIND, inherited from a job in
    which the client runs, would pin every kernel to a few cores; TMPDIR, XDG_RUNTIME_DIR and SSH_AUTH_SOCK name paths
    on the login node; PYTHON* would change the interpreter of the harness. The list has the required variables only;
    the settings can add others to a job.
    """
    return {name: value for name, value in environ.items() if name in _KEPT} | {"LC_ALL": "C.UTF-8"}


class ThisHost:
    """Host that runs commands on this machine; safe to use from several threads.

    The commands' environment is taken from `environ`, by default this process's own.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environment = scrubbed_environment(os.environ if environ is None else environ)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_seconds: float,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: str = "",
        until: Sequence[str] = (),
        stop: Callable[[int], object] | None = None,
    ) -> Completed:
        """Run `argv` as `Host.run` does.

        The command leads a process group of its own. SIGKILL ends the group at the time-out, and after the command's
        end with its remaining processes. `stop` gets the session of a command that wrote one of the texts of `until`,
        before that: a command of another account takes no signals from this one.
        """
        with counted(timeout_seconds) as seconds, self._started(argv, env or {}, cwd, stdin) as process:
            deadline = time.monotonic() + seconds
            outputs = _Outputs(process, until)
            try:
                ended = outputs.read_until_end(deadline)
                if stop is not None and not ended and outputs.stopped:
                    stop(process.pid)
            finally:
                # The leader is not reaped yet, so no other group can have its number. The processes of sudo are root's.
                with suppress(PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                outputs.close()
        if not ended and outputs.stopped:
            raise CommandStopped(f"{argv[0]} was stopped: {one_line(outputs.stderr, 200)}")
        if not ended:
            raise CommandTimeout(f"{argv[0]} did not finish within {seconds:g} s")
        return Completed(process.returncode, outputs.stdout, outputs.stderr, outputs.truncated)

    def _started(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str | None, stdin: str
    ) -> "subprocess.Popen[bytes]":
        with _source(stdin) as source:
            try:
                return subprocess.Popen(
                    list(argv),
                    stdin=source,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd=cwd,
                    env={**self._environment, **env},
                    start_new_session=True,
                )
            except OSError as error:
                if shutil.which(argv[0], path=self._environment.get("PATH", os.defpath)) is None:
                    raise CommandMissing(_missing_text(argv[0], error)) from error
                raise SchedulerError(
                    f"{argv[0]} cannot be started now: {error.strerror or error}",
                    hint="This machine may have too many processes or too little memory. Try again later.",
                ) from error


@contextmanager
def _source(text: str) -> Iterator[int]:
    """Yield a descriptor with `text`; it needs no disk, which may be full or read-only."""
    if not text:
        yield subprocess.DEVNULL
        return
    with os.fdopen(os.memfd_create("stdin"), "wb") as file:
        file.write(text.encode())
        file.seek(0)
        yield file.fileno()


class _Outputs:
    """Both output streams of a process, read as they come and kept up to a limit."""

    def __init__(self, process: subprocess.Popen[bytes], until: Sequence[str]) -> None:
        self._pid = process.pid
        self._until = until
        self._selector = selectors.DefaultSelector()
        self._stdout, self._stderr = bytearray(), bytearray()
        self.truncated = False
        self._selector.register(cast("IO[bytes]", process.stdout), selectors.EVENT_READ, self._stdout)
        self._selector.register(cast("IO[bytes]", process.stderr), selectors.EVENT_READ, self._stderr)

    @property
    def stdout(self) -> str:
        return self._stdout.decode(errors="replace")

    @property
    def stderr(self) -> str:
        return self._stderr.decode(errors="replace")

    @property
    def stopped(self) -> bool:
        """Return whether the standard error has one of the texts for which the process is to be stopped."""
        return any(text.encode() in self._stderr for text in self._until)

    def read_until_end(self, deadline: float) -> bool:
        """Read until the process has ended; False if it is to be stopped, or did not end before `deadline`.

        Processes of the command may keep the streams open after its end: they are read for a moment only.
        """
        ended_at: float | None = None
        while True:
            now = time.monotonic()
            if ended_at is None and self._has_ended():
                ended_at = now
            if ended_at is not None and (not self._open or now - ended_at > _LEFTOVER_SECONDS):
                return True
            if ended_at is None and (now >= deadline or self.stopped):
                return False
            self._read()

    def close(self) -> None:
        """Stop reading."""
        self._selector.close()

    @property
    def _open(self) -> bool:
        return bool(self._selector.get_map())

    def _has_ended(self) -> bool:
        return os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def _read(self) -> None:
        if not self._open:
            time.sleep(_EXIT_SECONDS)
        for key, _ in self._selector.select(_LOOK_SECONDS if self._open else 0):
            data = os.read(key.fd, _CHUNK_BYTES)
            if not data:
                self._selector.unregister(key.fileobj)
            kept = data[: OUTPUT_BYTES_MAX - len(key.data)]
            key.data.extend(kept)
            self.truncated |= len(kept) < len(data)


def _missing_text(program: str, error: OSError) -> str:
    if "/" in program:
        return f"{program} cannot be started: {error.strerror or error}"
    return f"no {program} on PATH"
