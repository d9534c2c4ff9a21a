"""Every message of the app.

Answers come from worker threads and stay on the screen that asked. Wishes rise from a screen to the app, which opens
another one. A beat goes from the app to the screen in front, about once a second.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from textual.message import Message

from hpc_board.board import Preview
from hpc_board.catalog import Catalog
from hpc_board.errors import BoardError
from hpc_board.intake import Draft
from hpc_board.model.gpu import Gpu, GpuStatus
from hpc_board.model.result import Result
from hpc_board.model.run import Progress, Run, Status
from hpc_board.model.standings import Standing
from hpc_board.model.submission import Directives
from hpc_board.tui.choice import Choice


class Answer(Message, bubble=False):
    """What a worker found out for the screen that asked."""


@dataclass
class Answered(Answer):
    """A question is no longer open: its answer, or why there is none."""

    subject: str
    answer: Answer | None
    failure: BoardError | None


@dataclass
class TasksArrived(Answer):
    """The tasks that there are."""

    catalog: Catalog


@dataclass
class PlacesArrived(Answer):
    """The boards of one task, by GPU."""

    task: str
    boards: tuple[tuple[str, tuple[Standing, ...]], ...]


@dataclass
class GpusArrived(Answer):
    """What is free of each GPU."""

    statuses: tuple[GpuStatus, ...]


@dataclass
class AllowedGpusArrived(Answer):
    """The GPUs on which a task may run."""

    task: str
    gpus: tuple[Gpu, ...]


@dataclass
class HeaderRead(Answer):
    """What the header of a submission's file asks for."""

    file: Path
    directives: Directives


@dataclass
class DraftChecked(Answer):
    """A submission that could be sent as it is, and what would be sent."""

    draft: Draft
    previews: tuple[Preview, ...]


@dataclass
class Sent(Answer):
    """The runs of a submission, now on their way."""

    runs: tuple[Run, ...]


@dataclass
class RunsArrived(Answer):
    """The newest runs."""

    everyone: bool
    runs: tuple[Run, ...]


@dataclass
class CancelRequested(Answer):
    """A run after its end was asked for."""

    run: Run


@dataclass
class RunRead(Answer):
    """All that is known of one run."""

    run: Run
    result: Result | None
    history: tuple[Status, ...]
    progress: tuple[Progress, ...]
    rank: int | None
    log: str


@dataclass
class StandingsArrived(Answer):
    """The rows of one board, or of the user alone."""

    gpu: str
    own: bool
    rows: tuple[Standing, ...]


@dataclass(frozen=True)
class Pulse:
    """What the app knows of the user's runs: those in flight, when their schedulers were last asked, what failed."""

    in_flight: tuple[int, ...] = ()
    asked_at: datetime | None = None
    failure: BoardError | None = None


@dataclass
class Followed(Answer):
    """The runs in flight were carried on; `ended` are those that came to their end, with their ranks."""

    pulse: Pulse
    ended: tuple[tuple[Run, int | None], ...]


@dataclass
class Beat(Message, bubble=False):
    """Time has passed: look again."""

    pulse: Pulse


@dataclass
class OpenSubmit(Message):
    """The user wants to submit, perhaps for a given task."""

    task: str | None = None


@dataclass
class OpenRuns(Message):
    """The user wants to see the runs."""


@dataclass
class OpenSent(Message):
    """The user has sent these runs and wants to see how they go."""

    runs: tuple[int, ...]


@dataclass
class OpenReport(Message):
    """The user wants to read about one run."""

    run: int


@dataclass
class OpenStandings(Message):
    """The user wants to see the boards of a task, perhaps of a given GPU first."""

    task: str
    gpu: str | None = None


@dataclass
class Chosen(Message):
    """The user has chosen this to submit; it is what the next submission begins with."""

    choice: Choice
