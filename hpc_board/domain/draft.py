"""Drafts: checked submissions before they are stored, their batch scripts, and submissions to send again."""

import msgspec

from hpc_board.domain.job_options import NO_OPTIONS, JobOptions
from hpc_board.domain.origin import NO_ORIGIN, Origin
from hpc_board.domain.submission import Submission
from hpc_board.model.gpu import Gpu
from hpc_board.model.task import Mode, Task


class Source(msgspec.Struct, frozen=True):
    """The one file of a submission; its name has no folder and no control characters."""

    file_name: str
    text: str

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        return self.text.encode()


class Draft(msgspec.Struct, frozen=True):
    """A checked submission with resolved names; `milestone` is set if it measures one of a task's milestones.

    `options` are the job options that apply: those of the request and those of the file.
    """

    source: Source
    task: Task
    gpus: tuple[Gpu, ...]
    mode: Mode
    note: str = ""
    milestone: str = ""
    options: JobOptions = NO_OPTIONS
    origin: Origin = NO_ORIGIN


class SubmissionRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file to submit, with the unchecked names of its task, GPUs and mode, a note and job options.

    A task and GPUs that are not given come from the file's header, and so does the entrant of `origin`.
    """

    source: Source
    task: str | None = None
    gpus: tuple[str, ...] = ()
    mode: str | None = None
    note: str = ""
    options: JobOptions = NO_OPTIONS
    origin: Origin = NO_ORIGIN


class Preview(msgspec.Struct, frozen=True):
    """The batch script of a draft on one GPU, and the command that submits it.

    For a member of a job array, `array` is the array's script, which the command submits and which runs `script`.
    `runner` is the number of the user's runner that would judge the run instead, None without one. The scheduler ends
    the job after `time_limit_seconds`.
    """

    gpu: Gpu
    script: str
    command: tuple[str, ...]
    file_name: str = ""
    array: str = ""
    runner: int | None = None
    time_limit_seconds: int = 0


class RerunCandidate(msgspec.Struct, frozen=True):
    """A submission to send again and its GPUs; or the reason `why` not.

    `unless_ranked` skips a file that has passed at the present version.
    """

    submission: Submission
    source: Source | None
    gpus: tuple[Gpu, ...]
    why: str = ""
    unless_ranked: bool = False
