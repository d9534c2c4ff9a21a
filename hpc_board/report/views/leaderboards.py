"""The JSON of leaderboards: their options, changes and competitions."""

from collections.abc import Sequence

from hpc_board.domain.board_options import BoardOptions
from hpc_board.domain.user_board import BoardChange, Difference, Entries, Plan
from hpc_board.model.text import one_line, printable
from hpc_board.report.views import LINE_CHARACTERS_MAX, MESSAGE_CHARACTERS_MAX, Moment, View, moment, moment_of


class OptionsView(View, frozen=True):
    """The options of a leaderboard."""

    creator: str
    """its creator"""
    deadline: Moment | None
    """its deadline"""
    gpus: list[str]
    """its GPUs; empty for every GPU of the settings"""
    visibility: str
    """`public` or `closed`"""
    members: list[str]
    """the users, and groups with a `@`, who see a closed one"""
    code_shown: str
    """`never`, or `after_deadline`: the time from which participants see each other's files"""

    @classmethod
    def of(cls, terms: BoardOptions) -> "OptionsView":
        """Return the object of a leaderboard's options."""
        return cls(
            creator=one_line(terms.creator),
            deadline=moment(terms.deadline),
            gpus=[one_line(name) for name in terms.gpus],
            visibility=str(terms.visibility),
            members=[one_line(name) for name in terms.members],
            code_shown=str(terms.code_shown),
        )


class ChangeView(View, frozen=True):
    """A difference that a change makes."""

    what: str
    """the option, or the part of the task"""
    before: str | None
    """its value before; a deadline is a moment"""
    after: str | None
    """its value after"""
    restarts: bool
    """true where the standings start anew"""

    @classmethod
    def of(cls, difference: Difference, plan: Plan) -> "ChangeView":
        """Return the object of a difference, with a deadline as a moment, which is the same for every reader."""
        before: str | None = difference.before
        after: str | None = difference.after
        if difference.what == "deadline" and plan.before is not None:
            before, after = moment(plan.before.options.deadline), moment(plan.options.deadline)
        return cls(what=difference.what, before=before, after=after, restarts=difference.restarts)


class EntriesView(View, frozen=True):
    """The number of ranked users on a GPU."""

    gpu: str
    users: int
    """the number of users"""


class PlanView(View, frozen=True):
    """A change of a leaderboard."""

    name: str
    """the name of the leaderboard"""
    action: str
    """`create`, `update` or `delete`"""
    stored: bool
    """false with `--dry-run`, and where nothing changes"""
    version: str | None
    """the version of the task after the change"""
    terms: OptionsView
    """the options after the change"""
    changes: list[ChangeView]
    """the differences"""
    left: list[EntriesView]
    """the users on the standings that the change leaves"""
    joined: list[EntriesView]
    """the users on the standings that it joins"""

    @classmethod
    def of(cls, plan: Plan, *, stored: bool) -> "PlanView":
        """Return the object of a planned change."""
        return cls(
            name=plan.name,
            action=str(plan.action),
            stored=stored,
            version=None if plan.task is None else plan.task.version,
            terms=OptionsView.of(plan.options),
            changes=_differences(plan),
            left=_entries(plan.left),
            joined=_entries(plan.joined),
        )


class BoardChangeView(View, frozen=True):
    """A change of a leaderboard in its history."""

    name: str
    """the name of the leaderboard"""
    action: str
    """`create`, `update` or `delete`"""
    by: str
    """its author"""
    at: Moment
    version: str | None
    """the version of the task; `null` for a deletion"""
    terms: OptionsView
    """the options after the change"""
    reason: str

    @classmethod
    def of(cls, change: BoardChange) -> "BoardChangeView":
        """Return the object of a change."""
        return cls(
            name=change.name,
            action=str(change.action),
            by=one_line(change.by_user),
            at=moment_of(change.at),
            version=change.task_version,
            terms=OptionsView.of(change.options),
            reason=one_line(change.reason, LINE_CHARACTERS_MAX),
        )


class DeletionView(View, frozen=True):
    """A deleted leaderboard."""

    name: str
    """the name of the leaderboard"""
    action: str
    """`delete`"""
    kept: str
    """the file that keeps its standings"""


class SyncedView(View, frozen=True):
    """A task of a competition."""

    name: str
    """the name of the task"""
    result: str
    """`created`, `updated`, `unchanged`, `skipped` or `error`"""
    reason: str
    changes: list[ChangeView]
    """the differences"""

    @classmethod
    def of(cls, name: str, result: str, reason: str, plan: Plan | None) -> "SyncedView":
        """Return the object of a task of a competition, with the change of its leaderboard."""
        return cls(
            name=name,
            result=result,
            reason=printable(reason, MESSAGE_CHARACTERS_MAX),
            changes=[] if plan is None else _differences(plan),
        )


def _differences(plan: Plan) -> list[ChangeView]:
    return [ChangeView.of(each, plan) for each in plan.differences]


def _entries(entries: Sequence[Entries]) -> list[EntriesView]:
    return [EntriesView(gpu=one_line(each.gpu), users=each.users) for each in entries]
