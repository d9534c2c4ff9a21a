"""Targets that screens open without knowing other screens: `Runs` is that of `RunsScreen` in `screens/runs.py`."""

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from hpc_board.domain.roles import Role
    from hpc_board.domain.run import Run
    from hpc_board.model.task import Mode
    from hpc_board.tui.choice import Choice


class Target(msgspec.Struct, frozen=True):
    """A screen, or an editor, that the app opens."""


class Tasks(Target, frozen=True):
    """The list of tasks, below all other screens."""

    first: str = ""
    """The task to select."""


class Submit(Target, frozen=True):
    """The submit form, with a task, GPUs, a mode and a file if given."""

    task: str | None = None
    gpus: tuple[str, ...] = ()
    mode: "Mode | None" = None
    file: Path | None = None
    of_run: "Run | None" = None
    """The user's own run if all of this is that run's, which has no other file; only a changed form is a draft then."""
    latest: bool = False
    """True if GPUs, mode and file are those of the user's latest run of the task, before which a draft goes."""
    choice: "Choice | None" = None
    """The first contents of the form, in which the app completes the above."""


class Edit(Target, frozen=True):
    """The user's editor with `file`, and then the form with it; task, GPUs and mode as in the form."""

    file: Path
    task: str | None = None
    gpus: tuple[str, ...] = ()
    mode: "Mode | None" = None
    watched: bool = False
    """True if the watch of the file goes on afterwards, in the place of the form."""
    is_new: bool = False
    """True for a starter, or a copy of a run's file, made for the editor and removed unless it is saved there."""
    line: str = ""
    """The line to begin at, if it is known."""


class Watch(Target, frozen=True):
    """The watch of a file, which is submitted on every save; `options` are those of its jobs.

    A `mode` that no watch has stands for `test`.
    """

    file: Path
    task: str
    gpus: tuple[str, ...]
    options: str = ""
    mode: "Mode | None" = None


class Cluster(Target, frozen=True):
    """The state of the GPUs as reported by their schedulers."""


class Runs(Target, frozen=True):
    """The list of runs, of all users if `everyone`, optionally on one GPU."""

    gpu: str | None = None
    everyone: bool = False
    first: int | None = None
    """The run to select first."""


class Sent(Target, frozen=True):
    """The runs of a new submission."""

    runs: tuple[int, ...]


class Report(Target, frozen=True):
    """The report of one run."""

    run: int


class Standings(Target, frozen=True):
    """The standings of a task, with those on `gpu` in front if given, and there the row of `user` or of their team."""

    task: str
    gpu: str | None = None
    user: str | None = None


class Code(Target, frozen=True):
    """The file of a run."""

    run: int


class Compare(Target, frozen=True):
    """The comparison of two runs."""

    first: int
    second: int


class Trend(Target, frozen=True):
    """The scores of a user on one board over time."""

    task: str
    gpu: str
    user: str


class User(Target, frozen=True):
    """The ranks and the newest runs of a user."""

    name: str


class Competition(Target, frozen=True):
    """The overall standings of the competition of this name."""

    name: str


class Feed(Target, frozen=True):
    """The recent changes of all standings, or of one task's."""

    task: str | None = None


class Admin(Target, frozen=True):
    """The Admin screen, for a user with this role."""

    role: "Role"
