"""Another account of this machine: its commands by sudo rules without a password, and the files of its jobs."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from hpc_board.accounts import user_name
from hpc_board.errors import SchedulerError
from hpc_board.files import write_whole
from hpc_board.model.files import NotRegularFileError
from hpc_board.model.runner import QUEUE, WITHDRAWN
from hpc_board.model.text import one_line
from hpc_board.transport import CommandMissing, CommandTimeout, Completed
from hpc_board.transport.attempt import attempt
from hpc_board.transport.local_files import LocalFiles
from hpc_board.transport.this_host import ThisHost, scrubbed_environment

FOLDER_MODE = 0o2750
"""The mode of a folder that the account may read; files and folders in it get its group."""

_JOB_FOLDER_MODE = 0o3770
"""The mode of a job folder: the account makes files in it, and replaces none that it does not own."""

_QUEUE_MODE = 0o2770
"""The mode of QUEUE and WITHDRAWN in the folder of a runner: both accounts rename the entries of either."""

_FILE_MODE = 0o640

_REMOVE_SECONDS = 120.0
_GRACE_SECONDS = 5.0
_KILLED = (128 + 9, -9)
_NO_PROGRAM = 127
_NO_FOLDER = 126

_DOCTOR = "`hpc-board admin doctor` checks `jobs.account`, its sudo rules and `jobs.folder`."

_TOKENS = frozenset({"SLURM_JWT", "KRB5CCNAME"})

_RUN = 'umask 027; cd "$0" || exit 126; exec "$@"'
"""The sh script that runs its arguments in the folder $0; the group of the folder may read their files."""


def rules(service: str, account: str) -> str:
    """Return the sudo rules by which `service` runs commands as `account`, for a file in /etc/sudoers.d.

    They allow every command: a batch script may run any.
    """
    return f"Defaults:{service} !requiretty\n{service} ALL=({account}) NOPASSWD: ALL\n"


class SudoHost:
    """Host that runs commands of this machine as another account; safe to use from several threads.

    A command gets the scrubbed environment of this process, with the other account's name and home folder.
    """

    def __init__(self, account: str, environ: Mapping[str, str] | None = None) -> None:
        self._account = account
        self._environ = os.environ if environ is None else environ
        self._host = ThisHost(environ)

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
        """Run `argv` as `Host.run` does.

        `timeout`, which runs as the account, ends the command and its process group: this process may send no signals
        to the account's processes. All users of the machine can read the variables, as they can the arguments.
        """
        variables = scrubbed_environment(self._environ) | {
            "HOME": os.path.expanduser(f"~{self._account}"),  # noqa: PTH111 - unchanged for an unknown account
            "USER": self._account,
            "LOGNAME": self._account,
            "SHELL": "/bin/sh",
            **(env or {}),
        }
        # Tokens of this account would let the other one's processes act as this one.
        settings = [f"{name}={value}" for name, value in variables.items() if name not in _TOKENS]
        limit = ["/usr/bin/timeout", "-s", "KILL", f"{max(timeout_seconds, 0.001):.3f}"]
        done = self._host.run(
            self._as_account([*limit, "/usr/bin/env", "-i", *settings, "/bin/sh", "-c", _RUN, cwd or "/", *argv]),
            timeout_seconds=timeout_seconds + _GRACE_SECONDS,
            cwd="/",  # the account may be unable to enter this process's folder
            stdin=stdin,
            until=until,
            stop=self._kill,
        )
        if done.returncode in _KILLED:
            raise CommandTimeout(f"{argv[0]} did not finish within {timeout_seconds:g} s")
        if done.returncode == _NO_PROGRAM:
            raise CommandMissing(f"{argv[0]} is not in PATH")
        if done.returncode == 1 and done.stderr.startswith("sudo: "):
            raise SchedulerError(
                f"sudo does not run commands as {self._account}: {one_line(done.stderr.splitlines()[0][6:], 200)}",
                hint=_DOCTOR,
            )
        if done.returncode == _NO_FOLDER and cwd is not None:
            raise SchedulerError(
                f"{self._account} cannot enter the folder for {argv[0]}: {one_line(done.stderr, 200)}",
                hint=_DOCTOR,
            )
        return done

    def _as_account(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs `argv` as the account, and fails where the rules would ask for a password."""
        return ["sudo", "-n", "-u", self._account, "--", *argv]

    def _kill(self, session: int) -> None:
        """Kill the processes of a command in its session: sudo and the programs below it stay in that of its start."""
        with suppress(CommandTimeout, CommandMissing, SchedulerError):
            argv = self._as_account(["pkill", "-KILL", "-s", str(session)])
            self._host.run(argv, timeout_seconds=_GRACE_SECONDS, cwd="/")


class SharedFiles(LocalFiles):
    """Files of this machine for the jobs of another account, which writes only into job folders and `cache`.

    All folders have the group of the outermost one, in which both accounts are. A job can change no file of this
    account, but a runner moves entries of its queue; and a file in a job folder that does not belong to the jobs'
    account is not read.
    """

    def __init__(self, account: str, cache: Path) -> None:
        self._account = account
        self._cache = cache

    def ensure(self, path: Path, data: bytes) -> bool:
        self._make_folder(self._cache, _JOB_FOLDER_MODE)
        written = super().ensure(path, data)
        asked = attempt(SudoHost(self._account), ["test", "-r", str(path)])
        if not asked.succeeded:
            raise SchedulerError(f"{self._account} cannot read {path.parent.resolve()}: {asked.failure}", hint=_DOCTOR)
        return written

    def write(self, path: Path, data: bytes) -> None:
        write_whole(path, data, mode=_FILE_MODE)

    def bytes_in(self, folder: Path) -> int:
        # The account opens those that it has closed to its group.
        with suppress(CommandTimeout, CommandMissing, SchedulerError):
            opened = ["chmod", "-R", "u+rwX,g+rX", "--", str(folder)]
            SudoHost(self._account).run(opened, timeout_seconds=_REMOVE_SECONDS)
        return super().bytes_in(folder)

    def remove_folder(self, folder: Path, *, alone: bool = False) -> None:
        # The files and folders that belong to the account, which removes them.
        with suppress(CommandTimeout, CommandMissing, SchedulerError):
            SudoHost(self._account).run(["rm", "-rf", "--", str(folder)], timeout_seconds=_REMOVE_SECONDS)
        super().remove_folder(folder, alone=alone)

    def _make_folder(self, folder: Path, mode: int = FOLDER_MODE) -> None:
        if folder.is_dir():
            return
        self._make_folder(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir()
            folder.chmod(mode)

    def _finish(self, draft: Path) -> None:
        for path in draft.rglob("*"):
            path.chmod(FOLDER_MODE if path.is_dir() else _FILE_MODE)
        for name in (QUEUE, WITHDRAWN):
            with suppress(FileNotFoundError):
                (draft / name).chmod(_QUEUE_MODE)
        draft.chmod(_JOB_FOLDER_MODE)

    def _opened(self, path: Path) -> BinaryIO:
        file = super()._opened(path)
        # A link of the file system to a file of another account, which this one may read and the jobs' one may not.
        if user_name(os.fstat(file.fileno()).st_uid) == self._account:
            return file
        file.close()
        raise NotRegularFileError(f"{path.name} does not belong to {self._account}")
