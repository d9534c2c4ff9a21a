"""Pruning: job folders of runs that ended long ago are removed, since the database has all that reports show.

A folder goes only if its name is that of a run of this board on this cluster, that run has ended, and the folder is no
link. The end of the job's output is stored before.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from hpc_board.domain.pruned import ClusterPruned
from hpc_board.domain.run import Run
from hpc_board.errors import BoardError
from hpc_board.model.job_environment import log_name
from hpc_board.model.text import one_line, printable
from hpc_board.runs.job_folder import Folders
from hpc_board.store import Store

KEPT_LOG_BYTES = 256 * 1024
"""The length of the stored end of a job's output: as much as `hpc-board run ID --log` shows."""

PASS_FOLDERS_MAX = 50
"""The number of folders that are removed at most while the lock of their cluster is held."""

BUSY: Final = "another client is busy with the cluster"

_RUN_FOLDER = re.compile(r"([0-9]{1,18})(?:-hb-[0-9a-f]{1,40})?")
_TASK_FOLDER = re.compile(r"(hb-[0-9a-f]{1,40})\.[0-9]{1,7}")
_ARRAY_FOLDER = re.compile(r"hb-[0-9a-f]{1,40}")


class Prunable(msgspec.Struct, frozen=True):
    """The names of job folders that may go, each with the runs whose newest job it was.

    `problem` says why they are not known; empty if they are.
    """

    folders: Sequence[tuple[str, Sequence[Run]]] = ()
    problem: str = ""

    def lots(self) -> Iterator["Prunable"]:
        """Yield the folders, PASS_FOLDERS_MAX at a time."""
        for start in range(0, len(self.folders), PASS_FOLDERS_MAX):
            yield Prunable(self.folders[start : start + PASS_FOLDERS_MAX])


class Pruning(msgspec.Struct, frozen=True):
    """Pruning of the job folders of one cluster.

    A run counts if `takes` is true of its cluster, and it ended `before` that time.
    """

    folders: Folders
    store: Store
    takes: Callable[[str], bool]
    before: datetime

    def find(self) -> Prunable:
        """Return the folders that may go; they still may later, since a run that has ended stays so."""
        try:
            return Prunable([*self._removable(self.folders.folder_names())])
        except FileNotFoundError:
            return Prunable()
        except (OSError, BoardError) as error:
            return Prunable(problem=_words(error))

    def sizes(self, found: Prunable) -> ClusterPruned:
        """Count the folders that would go, and their bytes."""
        return self._each(found.folders, lambda _: None, found.problem)

    def in_lots(self, lock: Callable[[], AbstractContextManager[bool]]) -> ClusterPruned:
        """Remove all folders that may go. The `lock` is free in between, so that a long pruning delays no run."""
        found = self.find()
        done = ClusterPruned(problem=found.problem)
        for lot in found.lots():
            with lock() as mine:
                if not mine:
                    return replace(done, problem=BUSY)
                more = self.remove(lot)
                done = ClusterPruned(
                    done.folders + more.folders, done.bytes + more.bytes, 0, done.problem or more.problem
                )
        return done

    def one_lot(self) -> int:
        """Remove some of the folders that may go, by a caller that holds the lock; return their number."""
        # Folders that cannot be removed do not stand in the way of the others.
        return next(filter(None, (self.remove(lot).folders for lot in self.find().lots())), 0)

    def remove(self, found: Prunable) -> ClusterPruned:
        """Remove folders, by a caller that holds the lock of their cluster; one that cannot be removed stays.

        The ends of their jobs' outputs are stored before, in one transaction.
        """
        logs: dict[int, str] = {}
        problem = found.problem
        for name, runs in found.folders:
            try:
                logs |= {run.id: self._log(run) for run in runs}
            except (OSError, BoardError) as error:
                problem = problem or f"{name}: {_words(error)}"
        kept = [(name, runs) for name, runs in found.folders if all(run.id in logs for run in runs)]
        try:
            self.store.runs.prune(logs)
        except BoardError as error:
            return ClusterPruned(problem=problem or _words(error))
        return self._each(kept, self.folders.remove, problem)

    def _each(
        self, folders: Sequence[tuple[str, Sequence[Run]]], act: Callable[[str], object], problem: str
    ) -> ClusterPruned:
        """Count the folders for which `act` succeeds, and the bytes of their files."""
        count, freed = 0, 0
        for name, _ in folders:
            try:
                size = self.folders.bytes_of(name)
                act(name)
            except FileNotFoundError:
                continue
            except (OSError, BoardError, RecursionError) as error:
                problem = problem or f"{name}: {_words(error)}"
            else:
                count, freed = count + 1, freed + size
        return ClusterPruned(folders=count, bytes=freed, problem=problem)

    def _removable(self, names: Sequence[str]) -> Iterator[tuple[str, Sequence[Run]]]:
        """Yield the names of folders that may go, each with the runs whose newest job it was.

        A run that was sent again has a folder for each of its jobs. The folder of an array, with its script, goes with
        the last task. That of a runner has a name like an array's.
        """
        numbers = {int(match[1]) for name in names if (match := _RUN_FOLDER.fullmatch(name))}
        arrays = {match[1] for name in names if (match := _TASK_FOLDER.fullmatch(name))}
        arrays |= {name for name in names if _ARRAY_FOLDER.fullmatch(name)}
        members = {array: self.store.runs.of_array(array) for array in sorted(arrays)}
        found = self.store.runs.numbered(numbers)
        found |= {run.id: run for runs in members.values() for run in runs}
        ended = [run for run in found.values() if self._may_go(run)]
        tokens = self.store.runs.tokens([run.id for run in ended])
        present = set(names)
        for run in ended:
            newest = self.folders.of(run).name
            jobs = (replace(run, token=token, retry=retry) for retry, token in enumerate(tokens[run.id]))
            for name in dict.fromkeys(self.folders.of(job).name for job in jobs):
                if name in present:
                    yield name, [run] if name == newest else []
        for array, runs in members.items():
            if runs and array in present and all(map(self._may_go, runs)):
                yield array, []
        for runner in sorted(self.store.runners.ended(arrays, self.before)):
            yield runner, []

    def _may_go(self, run: Run) -> bool:
        return run.state.ended and run.status.at < self.before and self.takes(run.cluster)

    def _log(self, run: Run) -> str:
        with suppress(FileNotFoundError):
            data = self.folders.read(run, log_name(run.status.job_id), KEPT_LOG_BYTES, end=True)
            return printable(data.decode(errors="replace"), KEPT_LOG_BYTES)
        return ""


def _words(error: OSError | BoardError | RecursionError) -> str:
    if isinstance(error, BoardError):
        return error.message
    return one_line((isinstance(error, OSError) and error.strerror) or str(error), 200)
