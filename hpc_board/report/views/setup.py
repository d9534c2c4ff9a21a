"""The JSON of setup: detected settings, the files of a new board, the steps that are left, backups, the release."""

from typing import ClassVar

from hpc_board.domain.pruned import Pruned
from hpc_board.report.views import Lines, Moment, Unchanged, View, view_of
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
    lines: list[Lines]
    """its commands, or lines of a file"""


class ReleaseView(View, frozen=True):
    """The installed hpc-board."""

    version: str


class DetectionView(View, frozen=True):
    """The settings of a detected cluster."""

    text: Unchanged
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

    ATTRIBUTES: ClassVar = {"contents": "now", "former": "before"}
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


class ClusterPrunedView(View, frozen=True):
    """The removed job folders of a cluster."""

    cluster: str
    """the name of the cluster"""
    folders: int
    """the number of job folders"""
    harness_files: int
    """the number of unused files of the harness"""
    bytes: int
    """the size of their files"""
    problem: str
    """the reason why others stayed; empty without any"""


class PrunedView(View, frozen=True):
    """The removed job folders of runs that ended long ago."""

    before: Moment
    """the time before which the runs ended"""
    dry_run: bool
    """true if nothing was removed: the numbers are those of a removal"""
    bytes: int
    """the space that is freed on all clusters"""
    clusters: list[ClusterPrunedView]
    """the clusters of the settings"""

    @classmethod
    def of(cls, pruned: Pruned) -> "PrunedView":
        clusters = [view_of(ClusterPrunedView, each, cluster=name) for name, each in pruned.clusters.items()]
        return view_of(cls, pruned, bytes=sum(each.bytes for each in clusters), clusters=clusters)
