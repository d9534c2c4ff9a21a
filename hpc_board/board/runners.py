"""The runners of a board: a user holds a GPU by one, and releases it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hpc_board.board.context import harness_sha256
from hpc_board.domain.clock import utc_now
from hpc_board.domain.draft import Preview
from hpc_board.domain.roles import Role
from hpc_board.domain.run import RunState
from hpc_board.domain.runner import Runner
from hpc_board.domain.runner_rules import RunnerRules
from hpc_board.errors import InputError, Refused, SchedulerRefused, StorageError
from hpc_board.model.gpu import Gpu
from hpc_board.runs import job_folder
from hpc_board.runs.runners import new_runner
from hpc_board.schedulers import Job
from hpc_board.store.runners import NewRunner, unknown_runner

if TYPE_CHECKING:
    from hpc_board.board.context import Context

_RECENT_MAX = 1000


class Runners:
    """Runners, the jobs by which users hold a GPU for their runs."""

    def __init__(self, context: "Context") -> None:
        self._context = context

    def rules(self) -> RunnerRules:
        """Return the bounds of the settings."""
        return self._context.settings.runners

    def preview(self, gpu: str, seconds: int | None = None, idle_seconds: int | None = None) -> Preview:
        """Return the batch script of a runner and the command that sends it; the parameters are those of `hold`.

        Raises:
            InputError: no GPU has this name, a time is out of the bounds, or the script cannot be rendered.
            Refused: the user may hold no GPU, or their GPU time leaves no room.
        """
        found, new = self._new(gpu, seconds, idle_seconds)
        if self._context.has_database() and not self._context.is_admin:
            self._context.reading.runners.check(new)
        script = job_folder.runner_script(found, new.seconds)
        clusters = self._context.clusters
        folder = job_folder.folder(clusters.folders_on(found.cluster.name).board, "hb-TOKEN")
        comment = job_folder.comment(script, "runner RUNNER")
        job = Job(
            folder.name, folder, job_folder.SCRIPT, found, script.options, script.time_limit_seconds, comment=comment
        )
        command = tuple(clusters.schedulers[found.cluster.name].command(job))
        return Preview(found, script.text, command)

    def hold(
        self, gpu: str, seconds: int | None = None, idle_seconds: int | None = None, *, unless_held: bool = False
    ) -> Runner:
        """Start a runner that holds a GPU for the user's runs, and return it.

        It ends after `seconds`, after `idle_seconds` without a run, both bounded by `RunnerRules.times`, or when it is
        released. If the scheduler does not answer, the runner is not queued yet, and a later pass completes it. With
        `unless_held`, a runner of the user on this GPU is returned instead, as one that is `reused`.

        Raises:
            InputError: no GPU has this name, a time is out of the bounds, or the script cannot be rendered.
            Refused: the user may hold no GPU, or holds as many as the settings permit; their GPU time leaves no room;
                or another process serves the board.
            SchedulerRefused: the scheduler refused the job; no GPU is held.
            StorageError: the board cannot be written; the hint names a runner that is stored nevertheless.
        """
        self._context.installation.require_unserved("holds GPUs")
        _, new = self._new(gpu, seconds, idle_seconds)
        if self._context.store.runners.live(new.cluster):
            # One that has just retired leaves its place.
            self._context.reconciler.advance_runners(new.cluster)
        most, by_rules = self.rules().per_user, self._context.sender.is_bound
        runner = self._context.store.runners.add(new, most=most, by_rules=by_rules, unless_held=unless_held)
        with _naming(f"Runner {runner.id} is stored, and may start later; `hpc-board release {runner.id}` ends it."):
            # The errors are those of all runners of the cluster, also of other users; this one's row has its own.
            self._context.reconciler.advance_runners(runner.cluster)
            now = replace(self._context.store.runners.get(runner.id), reused=runner.reused)
        if now.state is RunState.ERROR:
            hint = "\n".join(filter(None, (now.status.source, f"No {now.gpu} is held.")))
            raise SchedulerRefused(now.status.reason, hint=hint)
        return now

    def _new(self, gpu: str, seconds: int | None, idle_seconds: int | None) -> tuple[Gpu, NewRunner]:
        """Return a runner that the user may start, and its GPU."""
        self._context.require(Role.PARTICIPANT, "hold GPUs of this board")
        if self._context.has_database():
            self._context.store.moderation.check_open(self._context.user, utc_now(), admin=self._context.is_admin)
        rules = self.rules()
        if rules.per_user == 0:
            raise Refused(
                "the settings of this board turn holding off: `runners.per_user` is 0.",
                hint="Submit without `--hold`: each run is a separate job.",
            )
        found, times = self._context.gpu(gpu), rules.times(seconds, idle_seconds)
        account = found.cluster.account or self._context.installation.account
        return found, new_runner(found, self._context.user, account, times, harness_sha256())

    def release(self, runner: int) -> Runner:
        """End a runner of the user, or any for an admin: after the run in hand, or at once if its job waits.

        Runs that wait at it get jobs of their own. If the scheduler does not answer, a later pass ends it.

        Raises:
            InputError: there is no such runner, it has ended, or its cluster has left the settings.
            Refused: it is another user's, or another process serves the board.
            StorageError: the board cannot be written; the hint tells whether the request is stored.
        """
        self._context.installation.require_unserved("releases GPUs")
        found = self.get(runner)
        if found.state.ended:
            raise InputError(f"runner {runner} has ended: {found.why}.")
        self._context.store.runners.request_end(runner, f"released by {self._context.user}")
        with _naming(f"The request to end runner {runner} is stored; a later pass carries it out."):
            errors = self._context.reconciler.advance_runners(found.cluster)
            if found.cluster not in self._context.clusters.schedulers:
                raise errors[0]
            return self._context.store.runners.get(runner)

    def get(self, number: int) -> Runner:
        """Return a runner of the user, or any for an admin, as it is now.

        Raises:
            InputError: there is no such runner.
            Refused: it is another user's.
        """
        if not self._context.has_database():
            raise unknown_runner(number)
        found = self._context.reading.runners.get(number)
        if found.user != self._context.user and not self._context.is_admin:
            owner = found.user or "the board"
            raise Refused(f"runner {number} belongs to {owner}.", hint="`hpc-board status` shows yours.")
        return found

    def live(self) -> tuple[Runner, ...]:
        """Return the runners of all users that have not ended, oldest first."""
        return self._context.reading.runners.live() if self._context.has_database() else ()

    def recent(self, limit: int = 20) -> tuple[Runner, ...]:
        """Return the user's newest runners, ended or not, newest first; an admin's are those of all users."""
        if not self._context.has_database():
            return ()
        user = None if self._context.is_admin else self._context.user
        return self._context.reading.runners.newest(max(0, min(limit, _RECENT_MAX)), user)


@contextmanager
def _naming(hint: str) -> Iterator[None]:
    """Give a StorageError in the block this hint, besides its own."""
    try:
        yield
    except StorageError as error:
        error.hint = "\n".join(filter(None, (error.hint, hint)))
        raise
