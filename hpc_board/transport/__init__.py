"""Transports: commands and files on this host, or on a login node over SSH behind the same protocols."""

import errno
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from hpc_board.domain.task_rules import is_plain_path
from hpc_board.model.text import one_line

RENEW_SECONDS = 86_400.0
"""The age at which a file in use gets the present time, see `Files.ensure`."""


ENTRIES_MAX = 10_000
"""The number of entries of a folder that are read: a job may make any number."""


class Completed(msgspec.Struct, frozen=True):
    """A command that ended: its exit status and its output, bounded and decoded with replacement.

    `truncated` says that its output exceeded the bound.
    """

    returncode: int
    stdout: str
    stderr: str
    truncated: bool = False


class CommandTimeout(Exception):
    """The command did not end in its time; whether it did its work is unknown."""


class CommandStopped(CommandTimeout):
    """The command wrote one of the words for which it was to be stopped."""


class CommandMissing(Exception):
    """A program that is missing on the host."""


class Entry(msgspec.Struct, frozen=True):
    """An entry of a folder; one that is not a regular file has no size and time. Links are not followed."""

    name: str
    is_folder: bool = False
    size: int | None = None
    modified_at: float = 0.0


class Host(Protocol):
    """A machine on which commands run."""

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
        """Run `argv` without a shell, with the scrubbed environment plus `env`, and wait for its end.

        Raises:
            CommandTimeout: it did not finish within `timeout_seconds` and was killed; a CommandStopped if that was
                because its standard error had one of the texts of `until`.
            CommandMissing: the program is not there.
            SchedulerError: the machine cannot be reached, or was lost meanwhile; whether the command did its work is
                unknown.
        """


class Files(Protocol):
    """The files of a machine, by absolute paths as that machine sees them.

    FileNotFoundError says that a file is missing; every other OSError, with its `strerror`, that its existence is
    unknown at the moment.
    """

    def write_folder(self, folder: Path, contents: Mapping[str, bytes]) -> None:
        """Make `folder` with these files in it, by their paths below it, whole or not at all; one that is there stays.

        The folder is for this account only; missing parent folders are created.

        Raises:
            OSError: it cannot be written, or a path leads out of the folder.
            SchedulerError: the machine cannot be reached; whether the folder is there now is unknown.
        """

    def write(self, path: Path, data: bytes) -> None:
        """Put a file with this data at `path`, whole or not at all.

        Raises:
            OSError: it cannot be written.
        """

    def ensure(self, path: Path, data: bytes) -> bool:
        """Write a complete file with this data to `path`, unless a regular file of its size exists.

        Missing parent folders are created for this account only. The time of an existing file is renewed at
        RENEW_SECONDS, so that its age is the time since its last use.

        Returns:
            True if the file was written, or its time renewed.

        Raises:
            OSError: it cannot be written.
            SchedulerError: the machine cannot be reached; whether the file is there now is unknown.
        """

    def entries(self, folder: Path, *, most: int | None = ENTRIES_MAX) -> "Sequence[Entry]":
        """Return the entries of a folder, of more than `most` some; on another machine at most ENTRIES_MAX.

        The list has a network file system query its server anew.

        Raises:
            NotADirectoryError: it is a link.
            OSError: it is not there, or cannot be read at the moment.
        """

    def remove(self, path: Path) -> None:
        """Remove a file.

        Raises:
            OSError: it cannot be removed.
        """

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file in one step: of several clients that rename it, one succeeds.

        Raises:
            FileNotFoundError: the file is not there, or the folder of `target` is not.
            OSError: it cannot be renamed, or the machine cannot be reached; then it may have been renamed.
        """

    def remove_folder(self, folder: Path, *, alone: bool = False) -> None:
        """Remove a folder with all that is in it, and unless `alone` the one above it if it is empty then.

        Links are not followed: one in place of the folder stays.

        Raises:
            OSError: something of it may be left.
        """

    def bytes_in(self, folder: Path) -> int:
        """Return the size of all files below a folder; links are not followed.

        Raises:
            OSError: it is not there, or cannot be read at the moment.
        """

    def read(self, path: Path, limit: int, *, start: int = 0, end: bool = False) -> bytes:
        """Return `limit` bytes of a job's file from `start` on, and one more of a longer one; the last ones, if `end`.

        Raises:
            NotRegularFileError: it is a link, a folder, a device or a pipe, and was not opened for reading.
            NotADirectoryError: its folder is a link.
            OSError: it is not there, or cannot be read at the moment.
        """

    def is_file(self, path: Path) -> bool:
        """Return whether the path is a visible regular file: a job may have closed its folder."""


def check_paths(folder: Path, names: Iterable[str]) -> None:
    """Check that the paths of files of a folder stay below it.

    Raises:
        OSError: one does not.
    """
    for name in names:
        if not is_plain_path(name):
            raise OSError(errno.EINVAL, f'"{one_line(name, 80)}" is not a path below {folder.name}')


def draft_of(folder: Path, contents: Mapping[str, bytes]) -> Path:
    """Return the path at which `folder` is written before it gets its name.

    The path depends on the contents, with a run's secret among them: another user cannot guess it and put a file there
    beforehand. A retry after an interruption finds the first attempt's files.
    """
    import hashlib

    digest = hashlib.sha256()
    for name, data in contents.items():
        digest.update(hashlib.sha256(name.encode()).digest() + hashlib.sha256(data).digest())
    return folder.with_name(f".{folder.name}.{digest.hexdigest()[:32]}")
