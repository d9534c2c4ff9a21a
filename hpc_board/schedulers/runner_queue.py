"""The queue of a runner as clients see it: files in the runner's folder, by the protocol of `model/runner.py`."""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import msgspec

from hpc_board.domain.run import JobState
from hpc_board.model.files import NotRegularFileError
from hpc_board.model.runner import DONE, QUEUE, RELEASE, STATE, STOP, TAKEN, WITHDRAWN, End, State, decoded, encoded
from hpc_board.model.text import one_line
from hpc_board.model.value import Value
from hpc_board.transport import ENTRIES_MAX, Files

_FILE_BYTES_MAX = 64 * 1024
_REASON_MAX = 200
_STATES = {"ended": JobState.ENDED, "cancelled": JobState.CANCELLED, "timeout": JobState.TIMEOUT}


class RunnerQueue(msgspec.Struct, frozen=True):
    """The folder of a runner among `files`, whose files are the runner's and the clients'.

    The errors of all methods are those of `Files`.
    """

    files: Files
    folder: Path

    def parts(self, names: Collection[str]) -> dict[str, str]:
        """Return these files' parts of the folder; a file in no part is missing, one in several has the last.

        They are in the order of a run's way, but for WITHDRAWN: a withdrawn entry may have been added again.
        """
        found: dict[str, str] = {}
        for part in (WITHDRAWN, QUEUE, TAKEN, DONE):
            # The runner makes some of its folders when it starts. A link in the place of one is none of them.
            with suppress(FileNotFoundError, NotADirectoryError):
                entries = self.files.entries(self.folder / part)
                if len(entries) < ENTRIES_MAX:
                    there = {entry.name for entry in entries}.intersection(names)
                else:
                    # A submission that may write there has filled it.
                    there = {name for name in names if self.files.is_file(self.folder / part / name)}
                found |= dict.fromkeys(there, part)
        return found

    def has_begun(self) -> bool:
        """Return whether the runner has described itself."""
        return self.files.is_file(self.folder / QUEUE / STATE)

    def add(self, name: str, entry: Value) -> None:
        """Append a run to the queue."""
        self.files.write(self.folder / QUEUE / name, encoded(entry))

    def lacks(self, name: str) -> bool:
        """Return whether a run is in no part of the folder; False if that cannot be told now."""
        try:
            return name not in self.parts([name])
        except OSError:
            return False

    def withdraw(self, name: str) -> bool:
        """Take a run out of the queue; return False if the runner has taken it."""
        try:
            self.files.rename(self.folder / QUEUE / name, self.folder / WITHDRAWN / name)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def stop(self, name: str) -> None:
        """Have the runner end a run that it has taken."""
        self.files.write(self.folder / QUEUE / f"{name}{STOP}", b"\n")

    def is_stopped(self, name: str) -> bool:
        """Return whether the runner is to end a run."""
        return self.files.is_file(self.folder / QUEUE / f"{name}{STOP}")

    def release(self) -> None:
        """Have the runner take no more runs."""
        self.files.write(self.folder / QUEUE / RELEASE, b"\n")

    def end_of(self, name: str) -> End | None:
        """Return the end of a run, None before it."""
        try:
            end = decoded(self.files.read(self.folder / DONE / name, _FILE_BYTES_MAX), End)
        except FileNotFoundError:
            return None
        except (NotRegularFileError, ValueError):
            return End("ended", "the record of its end cannot be read")
        return End(end.state, one_line(end.reason, _REASON_MAX))

    def state(self) -> State | None:
        """Return the runner's description of itself, None if there is none that can be read."""
        try:
            told = decoded(self.files.read(self.folder / QUEUE / STATE, _FILE_BYTES_MAX), State)
        except (OSError, ValueError):
            return None
        return State(told.started_at, told.at, told.place, one_line(told.retired, _REASON_MAX))

    def retired(self) -> str:
        """Return the reason for which the runner takes no more runs; empty if it has told none."""
        state = self.state()
        return "" if state is None else state.retired


def job_state(end: End) -> JobState:
    """Return the state of the job of a run with this end."""
    return _STATES.get(end.state, JobState.NODE_FAIL)
