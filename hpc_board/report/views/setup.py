"""The JSON of `admin init`: the files of a new board and the steps that are left."""

from hpc_board.report.views import View


class ThingView(View, frozen=True):
    """A file or folder of a new board."""

    what: str
    """its part: `board`, `service`, `settings`, `participants' settings`, `account's unit`
    or `database`"""
    path: str
    """its full path"""
    made: bool
    """false if it was there already, and is unchanged"""


class StepView(View, frozen=True):
    """A step that is left to do."""

    what: str
    """its purpose"""
    lines: list[str]
    """its commands, or lines of a file"""


class ReleaseView(View, frozen=True):
    """The installed hpc-board."""

    version: str
    """its version"""


class InitView(View, frozen=True):
    """A new board."""

    settings: str
    """its settings file"""
    socket: str | None
    """the socket of its service; `null` for a personal board"""
    gpus: list[str]
    """the GPUs that were detected"""
    things: list[ThingView]
    """its files and folders"""
    steps: list[StepView]
    """the steps that are left"""
    remarks: list[str]
    """remarks on the detection and the settings"""
