"""The places in the app that a screen can lead to; screens name a place and do not know the screen behind it."""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from hpc_board.model.task import Mode


class Tasks(msgspec.Struct, frozen=True):
    """The tasks, which every other screen lies above."""


class Submit(msgspec.Struct, frozen=True):
    """The form, for a task, on GPUs and in a mode where they are given."""

    task: str | None = None
    gpus: tuple[str, ...] = ()
    mode: "Mode | None" = None


class Watch(msgspec.Struct, frozen=True):
    """The watch of a file, which is tested each time that it is saved; `file` is its path where that is known."""

    file_name: str
    task: str
    gpus: tuple[str, ...]
    file: Path | None = None


class Cluster(msgspec.Struct, frozen=True):
    """The GPUs in the state that their schedulers report."""


class Runs(msgspec.Struct, frozen=True):
    """The runs, all or those on one GPU; those of all users if `everyone`."""

    gpu: str | None = None
    everyone: bool = False
    first: int | None = None
    """The run that is selected at first."""


class Sent(msgspec.Struct, frozen=True):
    """The runs that were submitted just now."""

    runs: tuple[int, ...]


class Report(msgspec.Struct, frozen=True):
    """The report of one run."""

    run: int


class Standings(msgspec.Struct, frozen=True):
    """The standings of a task, on `gpu` first where it is given."""

    task: str
    gpu: str | None = None


class Code(msgspec.Struct, frozen=True):
    """The file of a submission, and its task where that is known."""

    submission: int
    task: str | None = None


class Compare(msgspec.Struct, frozen=True):
    """Two submissions beside each other."""

    first: int
    second: int


class Trend(msgspec.Struct, frozen=True):
    """The ranked runs of a user on one board, one after the other."""

    task: str
    gpu: str
    user: str


class Feed(msgspec.Struct, frozen=True):
    """The changes of all boards, or of those of one task."""

    task: str | None = None


class Admin(msgspec.Struct, frozen=True):
    """The boards, users and decisions that admins look after."""


Target = Tasks | Submit | Watch | Cluster | Runs | Sent | Report | Standings | Code | Compare | Trend | Feed | Admin
