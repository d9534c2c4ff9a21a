"""Every message of the app.

Answers come from worker threads and stay on the screen that asked. `Open` rises from a screen to the app, which opens
another one. A beat goes from the app to the screen in front, about once a second.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from textual.message import Message

from hpc_board.boards.moderation import Again
from hpc_board.catalog.folders import Catalog
from hpc_board.domain.feed import FeedEntry
from hpc_board.domain.moderation import Decision
from hpc_board.domain.roles import Role
from hpc_board.domain.run import Progress, Run, Status
from hpc_board.domain.standing import Page as BoardPage
from hpc_board.domain.standing import Place, Placing
from hpc_board.domain.submission import Directives
from hpc_board.errors import BoardError
from hpc_board.model.gpu import Gpu, GpuStatus
from hpc_board.model.result import Result
from hpc_board.report import Block
from hpc_board.runs.dispatch import Preview
from hpc_board.runs.drafts import Draft
from hpc_board.tui.choice import Choice
from hpc_board.tui.file_watcher import Saves
from hpc_board.tui.leader import Best
from hpc_board.tui.listing import Part
from hpc_board.tui.targets import Target


class Answer(Message, bubble=False):
    """What a worker found out for the screen that asked."""


@dataclass
class Answered(Answer):
    """The question of this number is no longer open: its answer, or why there is none."""

    subject: str
    number: int
    answer: Answer | None
    failure: BoardError | None


@dataclass
class TasksArrived(Answer):
    """The tasks that there are."""

    catalog: Catalog


@dataclass
class PlacesArrived(Answer):
    """The first row of each board of one task, with how many there are and the user's own."""

    task: str
    boards: tuple[BoardPage, ...]


@dataclass
class OwnPlacesArrived(Answer):
    """Where the user stands on each board that has a passing ranked run of theirs."""

    places: tuple[Place, ...]


@dataclass
class StarterWritten(Answer):
    """The starter of a task is in this file now."""

    path: Path


@dataclass
class GpusArrived(Answer):
    """What is free of each GPU, and when the last of the runs that wait for it is expected to start, where told."""

    statuses: tuple[GpuStatus, ...]
    expected: Mapping[str, datetime]


@dataclass
class ClusterArrived(Answer):
    """What is free of each GPU, and the user's own runs in flight."""

    statuses: tuple[GpuStatus, ...]
    own: tuple[Run, ...]


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
    """Parts of the runs that fit a filter, how far those that run have come, and since when they have run."""

    everyone: bool
    words: str
    parts: tuple[Part[Run], ...]
    progress: Mapping[int, Progress]
    started: Mapping[int, datetime]


@dataclass
class Saved(Answer):
    """A watched file was looked at; `is_new` says that it holds something that was not sent yet."""

    saves: Saves
    is_new: bool


@dataclass
class SavesSent(Answer):
    """The runs of a watched file that was saved, and when it was seen to be."""

    runs: tuple[Run, ...]
    at: datetime


@dataclass
class WatchedRead(Answer):
    """How the runs of a watched file stand, and what is to be said of the newest."""

    runs: tuple[Run, ...]
    steps: Mapping[int, Progress]
    blocks: tuple[Block, ...]


@dataclass
class CancelRequested(Answer):
    """A run after its end was asked for."""

    run: Run


@dataclass
class RunRead(Answer):
    """All that is known of one run, with the best of its board where the two can be drawn below one roof."""

    run: Run
    result: Result | None
    history: tuple[Status, ...]
    progress: tuple[Progress, ...]
    placing: Placing | None
    log: str
    best: Best | None = None


@dataclass
class StandingsArrived(Answer):
    """A page of each board in sight, or of the user's own runs there, with their runs that were removed from it."""

    own: bool
    boards: tuple[tuple[BoardPage, tuple[Run, ...]], ...]


@dataclass
class CodeRead(Answer):
    """The file of a submission."""

    file_name: str
    text: str


@dataclass
class BlocksRead(Answer):
    """A report to be shown as it is."""

    blocks: tuple[Block, ...]


@dataclass
class ComparisonRead(Answer):
    """Two submissions beside each other: their times, and the lines that differ in their files, or why not."""

    blocks: tuple[Block, ...]
    difference: tuple[str, ...]
    refused: str


@dataclass
class FeedArrived(Answer):
    """At most `limit` entries of the feed, newest first: the newest, or those before the entry `before`."""

    task: str | None
    before: int | None
    limit: int
    entries: tuple[FeedEntry, ...]


@dataclass
class ListRead(Answer):
    """Parts of a list of the Admin screen, as far as they fit some words; and the stop of submissions if it holds."""

    page: str
    words: str
    parts: tuple[Part[Any], ...]
    stopped: Decision | None


@dataclass
class Decided(Answer):
    """What the user decided is done; `words` say what it was."""

    words: str


@dataclass
class RerunPlanned(Answer):
    """What would be sent again for a task."""

    task: str
    plan: tuple[Again, ...]


@dataclass
class RoleKnown(Answer):
    """What the user may do here."""

    role: Role


@dataclass(frozen=True)
class Pulse:
    """What the app knows of the user's runs: those in flight, when their schedulers were last asked, what failed.

    `silent_since` is when one of them was first asked in vain since it last answered.
    """

    in_flight: tuple[int, ...] = ()
    asked_at: datetime | None = None
    failure: BoardError | None = None
    silent_since: datetime | None = None


@dataclass
class Followed(Answer):
    """The runs in flight were carried on; `ended` are those that came to their end, with their ranks."""

    pulse: Pulse
    ended: tuple[tuple[Run, int | None], ...]


@dataclass
class Beat(Message, bubble=False):
    """Time has passed: look again.

    `marked` is the submission that was chosen to be compared, `asking_since` when the schedulers were asked where they
    have not answered yet.
    """

    pulse: Pulse
    marked: int | None = None
    asking_since: datetime | None = None


@dataclass
class Open(Message):
    """A wish for another place in the app."""

    target: Target


@dataclass
class SideChosen(Message):
    """The user wants this submission to be compared with the one chosen before, or with the next one.

    `task` is the one that it was sent for, where that is known.
    """

    submission: int
    task: str | None


@dataclass
class Chosen(Message):
    """The user has chosen this to submit; it is what the next submission begins with."""

    choice: Choice
