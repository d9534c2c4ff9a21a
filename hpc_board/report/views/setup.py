"""The JSON of setup: detected settings, the files of a new board, the steps that are left, backups, the release."""

from hpc_board.report.views import View
from hpc_board.report.views.diagnostics import DiagnosticView


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

    number: str
    """its number; several ways to the same end share one, with a letter each: `2a`, `2b`"""
    what: str
    """its purpose"""
    lines: list[str]
    """its commands, or lines of a file"""


class ReleaseView(View, frozen=True):
    """The installed hpc-board."""

    version: str
    """its version"""


class DetectionView(View, frozen=True):
    """The settings of a detected cluster."""

    text: str
    """the text of a settings file"""
    gpus: list[str]
    """the GPUs that it has; empty where all entries are comments"""
    diagnostics: list[DiagnosticView]
    """remarks on the detection"""


class ContentsView(View, frozen=True):
    """The contents of a database."""

    submissions: int
    """the number of submissions"""
    runs: int
    """the number of runs"""
    in_flight: int
    """the number of runs in flight"""


class BackupView(View, frozen=True):
    """A backup of a board's database."""

    file: str
    """its path"""
    contents: ContentsView
    """its contents"""


class RestoredView(View, frozen=True):
    """A restored database."""

    contents: ContentsView
    """its contents"""
    former: ContentsView
    """the contents of the former database"""
    kept: str
    """the path of the file that keeps the former database"""


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
