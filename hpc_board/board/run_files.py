"""The files of a run, brought into a folder of the user."""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hpc_board.domain.run_files import LeftOut, RunFile, within_bounds
from hpc_board.domain.task_rules import is_plain_name
from hpc_board.errors import BoardError, InputError
from hpc_board.files import shown_path, user_errors, write_whole
from hpc_board.model.files import whole_file
from hpc_board.model.text import one_line

if TYPE_CHECKING:
    from hpc_board.board.runs import Runs
    from hpc_board.domain.run import Run
    from hpc_board.model.result import Result

_MARK = ".hpc-board-run"
"""The file with the name of the run's job, which is unique: it tells a folder of the run from any other."""

Say = Callable[[RunFile, int], object]
"""Callback for progress: a file, and the number of its bytes that have arrived."""


class Brought(msgspec.Struct, frozen=True):
    """A file of a run on this machine."""

    path: Path
    bytes: int
    sha256: str


class BroughtFiles(msgspec.Struct, frozen=True):
    """The files of a run in `folder`, and those that exceed a bound and stay where they are."""

    folder: Path
    files: tuple[Brought, ...]
    left_out: tuple[LeftOut, ...]


def fetch_run_files(runs: "Runs", number: int, parent: Path, say: Say = lambda *_: None) -> BroughtFiles:
    """Write the files of a run, with the texts in its result, into the folder `run-NUMBER` in `parent`.

    Each file is written whole. A folder of the same run is filled again.

    Raises:
        InputError: the folder is in use for something else or cannot be written, or the run has no files any more.
        Refused: the run is another user's.
        BoardError: its files cannot be read at the moment.
    """
    whole, found = runs.whole(number), runs.files(number)
    run = whole.run
    # A service may claim any sizes.
    bounded = within_bounds(found.files)
    folder = parent / f"run-{number}"
    with user_errors(folder):
        _make(folder, run)
    brought = [_brought(runs, run, file, folder / file.name, say) for file in bounded.files]
    for name, text in _texts(whole.result):
        data, path = text.encode(), folder / name
        with user_errors(path):
            write_whole(path, data, mode=None)
        brought.append(Brought(path, len(data), hashlib.sha256(data).hexdigest()))
    return BroughtFiles(folder, tuple(brought), found.left_out + bounded.left_out)


def _make(folder: Path, run: "Run") -> None:
    """Make the folder of a run, which only this user may read, unless it is there.

    Raises:
        InputError: a folder of something else is there.
        OSError: it cannot be made.
    """
    mark, token = folder / _MARK, f"{run.token}\n"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
        write_whole(mark, token.encode(), mode=None)
    # Others know the token, which is the job's name, and may have made the folder in a shared place.
    is_own = folder.lstat().st_uid == os.getuid() and not folder.is_symlink()
    if not is_own or not mark.is_file() or mark.read_text(errors="replace") != token:
        raise InputError(
            f"{shown_path(folder)} already exists, but is not a folder with files of this run",
            hint=f"Choose another folder: `hpc-board run {run.id} --files DIR`.",
        )


def _brought(runs: "Runs", run: "Run", file: RunFile, path: Path, say: Say) -> Brought:
    if not is_plain_name(file.name) or file.name.startswith("."):
        raise BoardError(
            f"the service sent an unsafe file name for run {run.id}: {one_line(file.name, 80)!r}",
            hint="Nothing was written; report this to the service's admin.",
        )
    digest, done = hashlib.sha256(), 0
    with user_errors(path), whole_file(path, mode=None) as sink:
        while done < file.bytes:
            part = runs.file_part(run.id, file.name, done)[: file.bytes - done]
            if not part:
                raise BoardError(
                    f"{file.name} of run {run.id} was truncated while it was read: {done} of {file.bytes} bytes.",
                    hint="Retry once the run has ended.",
                )
            sink.write(part)
            digest.update(part)
            done += len(part)
            say(file, done)
    return Brought(path, done, digest.hexdigest())


def _texts(result: "Result | None") -> list[tuple[str, str]]:
    """Return the names and the texts of the files that come from the result."""
    texts = [] if result is None else [("build.txt", result.build.text), ("profile.txt", result.profile.text)]
    return [(name, text) for name, text in texts if text]
