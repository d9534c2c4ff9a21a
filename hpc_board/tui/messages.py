"""All messages of the app.

A worker thread posts an `Answer` to the screen that asked. `Open` bubbles from a screen to the app, which opens the
target. The app posts a `Tick` to the screen in front about once a second, and `Heard` to all screens when a service
tells a change. The app's own state reaches the screens by `data_bind`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from textual.message import Message

from hpc_board.domain.change import Change
from hpc_board.errors import BoardError
from hpc_board.tui.targets import Target

if TYPE_CHECKING:
    from hpc_board.domain.runner import Runner
    from hpc_board.tui.choice import Choice


@dataclass
class Answer(Message, bubble=False):
    """The answer of a worker thread to the question `asked` on `subject`: a value or an error."""

    subject: str
    asked: object = None
    value: Any = None
    failure: BoardError | None = None


class Answered(Message):
    """An answer that a screen shows by now; keys may have waited for its rows."""


class RunsState(msgspec.Struct, frozen=True):
    """The user's runs in flight, the time of the last answers of their schedulers, and the last failure.

    `silent_since` is the time of a scheduler's first missing answer after its last answer. `runners` are the user's
    own that have not ended.
    """

    in_flight: tuple[int, ...] = ()
    asked_at: datetime | None = None
    failure: BoardError | None = None
    silent_since: datetime | None = None
    runners: "tuple[Runner, ...]" = ()


class Tick(Message, bubble=False):
    """The passage of about a second, upon which the screen in front updates; on a served board, only its ages."""


@dataclass
class Heard(Message, bubble=False):
    """A change of a served board, upon which the screen in front updates, and each other one when it is seen again."""

    change: Change


@dataclass
class Open(Message):
    """A request to open a target."""

    target: Target


@dataclass
class RunnerChanged(Message):
    """A runner that the user has just started or released."""

    runner: "Runner"


@dataclass
class SideChosen(Message):
    """A run for a task marked for a comparison with another marked one."""

    run: int
    task: str


@dataclass
class Chosen(Message):
    """The user's choices in the submit form, with which the next form begins."""

    choice: "Choice"


@dataclass(kw_only=True)
class BackgroundFound(Message, bubble=False):
    """The terminal's answer on its background."""

    is_light: bool
