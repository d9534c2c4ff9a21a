"""Dispatch: the jobs of drafts, their grouping into job arrays, and their rows in the database."""

import secrets
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from functools import cached_property

import msgspec
from msgspec.structs import replace

from hpc_board.domain.clock import utc_now
from hpc_board.domain.draft import Draft, Preview
from hpc_board.domain.job_options import JobOptions
from hpc_board.domain.moderation import Rerun
from hpc_board.domain.runner import Runner
from hpc_board.errors import InputError
from hpc_board.model.gpu import Gpu
from hpc_board.runs import job_folder
from hpc_board.runs.clusters import Clusters
from hpc_board.schedulers import Job, kind_of
from hpc_board.store.submissions import NewRun, NewSubmission

ARRAY_LEAST = 3
"""The number of jobs from which an array is cheaper: it takes two queries (the largest array size, sbatch)."""


class Sent(msgspec.Struct, frozen=True):
    """A draft that is about to be stored, and its author; for a rerun, see `NewSubmission`."""

    draft: Draft
    user: str
    rerun: Rerun | None = None
    unless_ranked: bool = False


class _Work(msgspec.Struct, frozen=True, dict=True):
    """A draft on one of its GPUs."""

    draft: Draft
    gpu: Gpu
    script: job_folder.Script

    @property
    def max_running(self) -> int:
        """The most tasks of its job array that run at a time; 0 for any number."""
        return int(self.draft.options.max_running or 0)

    @cached_property
    def array_script(self) -> job_folder.ArrayScript | None:
        """The script of a job array that may hold this job; None if the job cannot be a member of an array."""
        return job_folder.array_script(self.script, self.gpu)


class DispatchPlan:
    """The jobs of some drafts: one for each draft and GPU, in that order.

    Jobs with equal scheduler options form a job array where the scheduler supports arrays: from two jobs on if `array`
    is true or the jobs have the option max-running, never if it is false, from ARRAY_LEAST on if it is None. An array
    has at most `together_max` jobs.

    Raises:
        InputError: a batch script cannot be rendered, or jobs with max-running can be no array.
    """

    def __init__(
        self, drafts: Sequence[Draft], clusters: Clusters, array: bool | None = None, together_max: int | None = None
    ) -> None:
        self._clusters = clusters
        self._works = [
            _Work(draft, gpu, job_folder.script(draft.task, gpu, draft.mode))
            for draft in drafts
            for gpu in (kind_of(each.cluster).with_job_options(each, draft.options) for each in draft.gpus)
        ]
        if array is None and any(work.max_running for work in self._works):
            array = True
        self._array = array
        self._together_max = together_max
        if any(work.max_running for work in self._works):
            for batch in self._batches:
                self._check_throttle(batch)

    def _check_throttle(self, batch: Sequence[int]) -> None:
        work = self._works[batch[0]]
        alike = [each for each in self._works if (each.gpu.name, each.max_running) == (work.gpu.name, work.max_running)]
        if work.max_running and len(batch) < len(alike) > work.max_running:
            raise InputError(
                f"--max-running {work.max_running} requires a job array, but the {len(alike)} jobs on "
                f"{work.gpu.name} cannot be sent as one.",
                hint="Omit --max-running or --no-array; the jobs of an array must have the same GPU and identical "
                "requests.",
            )

    def previews(self, closed: Collection[str] = (), runners: Sequence[Runner] = ()) -> list[Preview]:
        """Return the batch script and the command of each job; no command has the name of a `closed` board.

        `runners` are those of the user that take runs.
        """
        previews: dict[int, Preview] = {}
        for batch in self._batches:
            for number in batch:
                previews[number] = self._preview(self._works[number], len(batch), closed, runners)
        return [previews[number] for number in sorted(previews)]

    def _preview(self, work: _Work, together: int, closed: Collection[str], runners: Sequence[Runner]) -> Preview:
        gpu, script = work.gpu, work.script
        board = self._clusters.folders_on(gpu.cluster.name).board
        folder = job_folder.folder(board, "RUN")
        job = Job("hb-TOKEN", folder, job_folder.SCRIPT, gpu, script.options, script.time_limit_seconds)
        array = ""
        if together > 1 and work.array_script is not None:
            array = work.array_script.text
            job = replace(
                job,
                folder=job_folder.folder(board, job.name),
                indexes=range(together),
                max_running=work.max_running if work.max_running < together else 0,
            )
        named = [work.draft.task.name] if work.draft.task.name not in closed else []
        job = replace(job, comment=job_folder.comment(script, "run RUN", *named))
        command = tuple(self._clusters.schedulers[gpu.cluster.name].command(job))
        wanted = gpu.name, job_folder.request(script, gpu) if runners else "", script.time_limit_seconds, utc_now()
        runner = next((each.id for each in runners if each.fits(*wanted)), None)
        name, seconds = work.draft.source.file_name, script.time_limit_seconds
        return Preview(gpu, script.text, command, name, array, runner, seconds)

    def scripts(self) -> list[str]:
        """Return the batch script of each job as JSON."""
        return [msgspec.json.encode(work.script).decode() for work in self._works]

    def tokens(self) -> list[str]:
        """Return a unique name for each job; a member of an array is named after the array, a dot and its index."""
        tokens = drawn_tokens(self._batches)
        return [tokens[number] for number in range(len(self._works))]

    @cached_property
    def _batches(self) -> list[list[int]]:
        """The indexes in `_works` of each array's members, and of each single job."""
        least = ARRAY_LEAST if self._array is None else 2
        alike: dict[object, list[int]] = {}
        for number, work in enumerate(self._works):
            together = self._array is not False and len(self._works) >= least and work.array_script is not None
            key = (work.gpu.name, work.array_script, work.max_running) if together else number
            alike.setdefault(key, []).append(number)
        batches: list[list[int]] = []
        sizes: dict[str, int] = {}
        for numbers in alike.values():
            cluster = self._works[numbers[0]].gpu.cluster.name
            size = 1
            if len(numbers) >= least:
                if cluster not in sizes:
                    sizes[cluster] = max(1, self._clusters.array_size(cluster))
                size = min(sizes[cluster], self._together_max or sizes[cluster])
            batches += [numbers[start : start + size] for start in range(0, len(numbers), size)]
        return batches


def drawn_tokens(batches: Iterable[Sequence[int]]) -> dict[int, str]:
    """Return a unique name for the job of each number in `batches`; those of one batch are members of an array."""
    tokens: dict[int, str] = {}
    for batch in batches:
        name = f"hb-{secrets.token_hex(8)}"
        tokens |= {number: f"{name}.{index}" if len(batch) > 1 else name for index, number in enumerate(batch)}
    return tokens


def drawn_nonce() -> str:
    """Return a secret that a job's result has to bring back."""
    return secrets.token_hex(16)


def new_submissions(
    sent: Sequence[Sent],
    tokens: Sequence[str],
    scripts: Sequence[str],
    *,
    account: str,
    served: bool,
    harness_sha256: str,
    at: datetime,
    fresh: bool = False,
) -> list[NewSubmission]:
    """Return the rows of drafts that `account` sends, with one of `tokens` and of `scripts` for each of their GPUs.

    The results of a `served` board are out of its users' reach, so all its runs are `verified`. `fresh` runs go to no
    runner.
    """
    left = zip(tokens, scripts, strict=True)
    return [
        NewSubmission(
            task=each.draft.task,
            user=each.user,
            file_name=each.draft.source.file_name,
            code=each.draft.source.data,
            mode=each.draft.mode,
            note=each.draft.note,
            at=at,
            runs=[
                replace(
                    _new_run(gpu, each.draft.options, *next(left), harness_sha256, each.user, account, served=served),
                    fresh=fresh,
                )
                for gpu in each.draft.gpus
            ],
            rerun=each.rerun,
            unless_ranked=each.unless_ranked,
            milestone=each.draft.milestone,
            origin=each.draft.origin,
        )
        for each in sent
    ]


def _new_run(
    gpu: Gpu,
    options: JobOptions,
    token: str,
    script: str,
    harness_sha256: str,
    user: str,
    account: str,
    *,
    served: bool,
) -> NewRun:
    """Return a run of `user` that `account` sends, which decides the trust: that account can forge results."""
    owner = gpu.cluster.account or account
    return NewRun(
        gpu=gpu.name,
        cluster=gpu.cluster.name,
        partition=gpu.partition,
        token=token,
        nonce=drawn_nonce(),
        trust="self-run" if account == user and not served else "verified",
        emulated=gpu.emulated,
        harness_sha256=harness_sha256,
        account="" if owner == user else owner,
        options=options,
        script=script,
    )
