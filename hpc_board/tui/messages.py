"""Every message of the app.

An answer comes from a worker thread and stays on the screen that asked. `Open` rises from a screen to the app, which
opens another one. A beat goes from the app to the screen in front, about once a second; what the screens show of the
app's own state flows down by `data_bind`.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec
from textual.message import Message

from hpc_board.errors import BoardError
from hpc_board.tui.targets import Target

if TYPE_CHECKING:
    from hpc_board.tui.choice import Choice

T = TypeVar("T")


class Answer(Message, Generic[T], bubble=False):
    """The answer of a worker thread to the question `number` on `subject`: a value, or the failure to find one."""

    def __init__(
        self, subject: str, number: int = 0, value: T | None = None, failure: BoardError | None = None
    ) -> None:
        super().__init__()
        self.subject = subject
        self.number = number
        self.value = value
        self.failure = failure


class RunsState(msgspec.Struct, frozen=True):
    """What the app knows of the user's runs: those in flight, when their schedulers were last asked, what failed.

    `silent_since` is when one of them was first asked in vain since it last answered.
    """

    in_flight: tuple[int, ...] = ()
    asked_at: datetime | None = None
    failure: BoardError | None = None
    silent_since: datetime | None = None


class Tick(Message, bubble=False):
    """The passage of about a second: the screen in front looks again."""


class Open(Message):
    """A wish for another place in the app."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target


class SideChosen(Message):
    """The user wants this submission to be compared with the one chosen before, or with the next one.

    `task` is the one that it was sent for, where that is known.
    """

    def __init__(self, submission: int, task: str | None) -> None:
        super().__init__()
        self.submission = submission
        self.task = task


class Chosen(Message):
    """The user has chosen this to submit; it is what the next submission begins with."""

    def __init__(self, choice: "Choice") -> None:
        super().__init__()
        self.choice = choice
