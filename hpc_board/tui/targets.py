"""The places in the app that a screen can lead to; screens name a place and do not know the screen behind it."""

from dataclasses import dataclass
from pathlib import Path

from hpc_board.model.task import Mode


@dataclass(frozen=True)
class Submit:
    """The form, for a task, on GPUs and in a mode where they are given."""

    task: str | None = None
    gpus: tuple[str, ...] = ()
    mode: Mode | None = None


@dataclass(frozen=True)
class Watch:
    """The watch of a file, which is tested each time that it is saved; `file` is its path where that is known."""

    file_name: str
    task: str
    gpus: tuple[str, ...]
    file: Path | None = None


@dataclass(frozen=True)
class Cluster:
    """The GPUs in the state that their schedulers report."""


@dataclass(frozen=True)
class Runs:
    """The runs, all or those on one GPU; those of all users if `everyone`."""

    gpu: str | None = None
    everyone: bool = False


@dataclass(frozen=True)
class Sent:
    """The runs that were submitted just now."""

    runs: tuple[int, ...]


@dataclass(frozen=True)
class Report:
    """The report of one run."""

    run: int


@dataclass(frozen=True)
class Standings:
    """The standings of a task, on `gpu` first where it is given."""

    task: str
    gpu: str | None = None


@dataclass(frozen=True)
class Code:
    """The file of a submission, and its task where that is known."""

    submission: int
    task: str | None = None


@dataclass(frozen=True)
class Trend:
    """The ranked runs of a user on one board, one after the other."""

    task: str
    gpu: str
    user: str


@dataclass(frozen=True)
class Feed:
    """The changes of all boards, or of those of one task."""

    task: str | None = None


@dataclass(frozen=True)
class Admin:
    """The boards, users and decisions that admins look after."""


Target = Submit | Watch | Cluster | Runs | Sent | Report | Standings | Code | Trend | Feed | Admin
