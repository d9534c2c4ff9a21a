"""The queue of a runner as clients see it: files in the runner's folder, by the protocol of `model/runner.py`."""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import msgspec

from hpc_board.domain.runner import Runner
from hpc_board.model.files import NotRegularFileError
from hpc_board.model.runner import (
    DONE,
    QUEUE,
    RELEASE,
    STATE,
    STOP,
    TAKEN,
    WITHDRAWN,
    End,
    Entry,
    State,
    decoded,
    encoded,
)
from hpc_board.model.text import one_line
from hpc_board.runs.job_folder import Folders
from hpc_board.transport import ENTRIES_MAX

_FILE_BYTES_MAX = 64 * 1024
_REASON_MAX = 200


class RunnerQueue(msgspec.Struct, frozen=True):
    """The folder of a `runner` among `folders`; its files are the runner's and the clients'.

    The errors of all methods are those of `Files`.
    """

    folders: Folders
    runner: Runner

    def parts(self, names: Collection[str]) -> dict[str, str]:
        """Return these files' parts of the folder; a file in no part is missing, one in several has the last.

        They are in the order of a run's way, but for WITHDRAWN: a withdrawn entry may have been added again.
        """
        found: dict[str, str] = {}
        for part in (WITHDRAWN, QUEUE, TAKEN, DONE):
            # The runner makes some of its folders when it starts. A link in the place of one is none of them.
            with suppress(FileNotFoundError, NotADirectoryError):
                entries = self.folders.files.entries(self._path(part))
                if len(entries) < ENTRIES_MAX:
                    there = {entry.name for entry in entries}.intersection(names)
                else:
                    # A submission that may write there has filled it.
                    there = {name for name in names if self.folders.files.is_file(self._path(part, name))}
                found |= dict.fromkeys(there, part)
        return found

    def has_begun(self) -> bool:
        """Return whether the runner has described itself."""
        return self.folders.files.is_file(self._path(QUEUE, STATE))

    def add(self, name: str, entry: Entry) -> None:
        """Append a run to the queue."""
        self.folders.files.write(self._path(QUEUE, name), encoded(entry))

    def lacks(self, name: str) -> bool:
        """Return whether a run is in no part of the folder; False if that cannot be told now."""
        try:
            return name not in self.parts([name])
        except OSError:
            return False

    def withdraw(self, name: str) -> bool:
        """Take a run out of the queue; return False if the runner has taken it."""
        try:
            self.folders.files.rename(self._path(QUEUE, name), self._path(WITHDRAWN, name))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def stop(self, name: str) -> None:
        """Have the runner end a run that it has taken."""
        self.folders.files.write(self._path(QUEUE, f"{name}{STOP}"), b"\n")

    def release(self) -> None:
        """Have the runner take no more runs."""
        self.folders.files.write(self._path(QUEUE, RELEASE), b"\n")

    def end_of(self, name: str) -> End:
        """Return the end of a run.

        Raises:
            ValueError: the file has something else, or is none.
        """
        try:
            return decoded(self.folders.files.read(self._path(DONE, name), _FILE_BYTES_MAX), End)
        except NotRegularFileError as error:
            raise ValueError(str(error)) from error

    def state(self) -> State | None:
        """Return the runner's description of itself, None if there is none that can be read."""
        try:
            return decoded(self.folders.files.read(self._path(QUEUE, STATE), _FILE_BYTES_MAX), State)
        except (OSError, ValueError):
            return None

    def retired(self) -> str:
        """Return the reason for which the runner takes no more runs; empty if it has told none."""
        state = self.state()
        return "" if state is None else one_line(state.retired, _REASON_MAX)

    def _path(self, *parts: str) -> Path:
        return self.folders.of_runner(self.runner).joinpath(*parts)
