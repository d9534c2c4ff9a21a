"""The JSON of moderation: limits, the audit log, and reruns."""

from typing import Any, ClassVar

from msgspec import UNSET, UnsetType

from hpc_board.domain.draft import RerunCandidate
from hpc_board.domain.moderation import Decision, GpuLimit, Limits, Link
from hpc_board.model.text import one_line
from hpc_board.report.views import Moment, View, moment, view_of
from hpc_board.report.views.runs import RunView


class LimitsView(View, frozen=True):
    """Limits of a board for each user and period, or that of the installation on GPU time; `null` for none."""

    board: str | None
    """the name of the board; `null` for the limit on GPU time"""
    ranked: int | None
    """ranked submissions"""
    other: int | None
    """other submissions"""
    gpu_seconds: int | None
    """the GPU-seconds of each user"""
    per: str | None
    """the period of the numbers: `hour`, `day`, `week` or `all`; `null` for each of them, after `admin limit --none`"""
    user: str | None
    """the user to whom they apply; `null` for others, too"""
    role: str | None
    """the role of the users to whom they apply; `null` for others, too"""
    by: str | UnsetType = UNSET
    """the admin who set them, in `admin limits`"""
    at: Moment | UnsetType | None = UNSET
    """the time of that, in `admin limits`"""

    @classmethod
    def of(
        cls, board: str, limits: Limits, decision: Decision | None = None, *, all_periods: bool = False
    ) -> "LimitsView":
        """Return the object of a board's limits, with the decision that set them, if given."""
        per = None if all_periods else str(limits.per)
        return view_of(cls, limits, board=one_line(board), gpu_seconds=None, per=per, **_set_by(decision))

    @classmethod
    def of_gpus(cls, limit: GpuLimit, decision: Decision | None = None) -> "LimitsView":
        """Return the object of the limit on GPU time, with the decision that set it, if given."""
        return view_of(cls, limit, board=None, ranked=None, other=None, user=None, role=None, **_set_by(decision))


def _set_by(decision: Decision | None) -> dict[str, Any]:
    by, at = (UNSET, UNSET) if decision is None else (one_line(decision.by_user), moment(decision.at))
    return {"by": by, "at": at}


class LinkView(View, frozen=True):
    """A link to the live page of a board."""

    board: str
    """the name of the board"""
    name: str
    """the name of the link"""
    until: Moment
    """its end"""
    by: str
    """the user who made it"""
    at: Moment
    """the time of that"""
    fault: str | None
    """the reason for which it shows no page: it is expired, or its maker does not manage the board any more"""
    path: str | UnsetType = UNSET
    """its path below the address of the live page, with the secret, in `admin link` only"""

    @classmethod
    def of(cls, link: Link, path: str | UnsetType = UNSET) -> "LinkView":
        return view_of(cls, link, path=path)


class SwitchView(View, frozen=True):
    """A ban, a stop, or the end of one."""

    action: str
    """`ban`, `unban`, `stop` or `start`"""
    user: str | None
    """the user of a ban; `null` for a stop, which holds for all boards"""
    changed: bool
    """false if it already held"""


class RemovalsView(View, frozen=True):
    """Submissions that were removed from the standings, or put back."""

    action: str
    """`remove` or `readmit`"""
    submissions: list[int]
    """the numbers of the submissions"""


class DecisionView(View, frozen=True):
    """A row of the audit log."""

    ATTRIBUTES: ClassVar = {"by": "by_user"}
    at: Moment | None
    by: str
    """the admin, or the user of the runner; empty for the board itself"""
    action: str
    """the action"""
    kind: str
    """the kind of its subject: `user`, `board`, `submission`, `gpu`, or empty for everything"""
    subject: str
    """its subject"""
    detail: str
    """its values"""
    reason: str


class CodeFileView(View, frozen=True):
    """A file of a near copy."""

    ATTRIBUTES: ClassVar = {"run": "id", "submitted_at": "created_at"}
    run: int
    """a run of the file"""
    submission: int
    """the first submission of the file by its user"""
    user: str
    """its user"""
    file_name: str
    """the name of the file"""
    submitted_at: Moment


class NearCopyView(View, frozen=True):
    """Two similar files of different users on a task: a hint, and no verdict."""

    ATTRIBUTES: ClassVar = {"task": "older.task"}
    task: str
    older: CodeFileView
    """the file that was submitted first"""
    newer: CodeFileView
    """the other one"""
    share: float
    """the share of the fingerprints of the file with fewer that is in the other, from 0 to 1"""
    fingerprints: int
    """the number of these fingerprints"""


class RerunCandidateView(View, frozen=True):
    """A submission that is to be sent again."""

    ATTRIBUTES: ClassVar = {
        "submission": "submission.id",
        "user": "submission.user",
        "file_name": "submission.file_name",
        "left_out": "why",
    }
    submission: int
    user: str
    """its user"""
    file_name: str
    """the name of its file"""
    gpus: list[str]
    """the GPUs"""
    left_out: str
    """the reason why it is not sent"""

    @classmethod
    def of(cls, candidate: RerunCandidate) -> "RerunCandidateView":
        return view_of(cls, candidate, gpus=[gpu.name for gpu in candidate.gpus])


class RerunsView(View, frozen=True):
    """A rerun of a task's best submissions."""

    runs: list[RunView]
    """the new runs"""
    left_out: list[RerunCandidateView]
    """the submissions that were not sent"""
