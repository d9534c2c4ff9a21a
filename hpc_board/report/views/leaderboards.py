"""The JSON of boards: their options, changes and competitions."""

from typing import ClassVar

from hpc_board.domain.user_board import Difference, Plan, Synced
from hpc_board.report.views import Lines, Moment, View, moment, view_of


class CompetitionTermsView(View, frozen=True):
    """The competition of a leaderboard."""

    name: str
    """its name"""
    title: str | None
    """its title"""
    score: str | None
    """its score; `null` for the points, or without a rule for the geometric mean of the speedups"""
    points: str | None
    """the [rule](grading.md#rules) of its points"""


class ExtensionView(View, frozen=True):
    """A later deadline on a leaderboard."""

    user: str
    """the user, or the group with a `@`"""
    until: Moment
    """their deadline"""


class OptionsView(View, frozen=True):
    """The options of a board."""

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
    maintainers: list[str]
    """the users, and groups with a `@`, with the creator's rights"""
    competition: CompetitionTermsView | None
    """the [competition](boards.md#competitions) that it belongs to"""
    extensions: list[ExtensionView]
    """the later deadlines; for a participant, their own"""
    late_seconds: int | None
    """the seconds after the deadline in which submissions are accepted as late ones; `null` for no end"""
    freeze_at: Moment | None
    """the time from which users see no later submissions of others; `null` without a freeze"""
    anonymous: bool
    """true if users see others under pseudonyms"""
    teams: list[str]
    """the groups with a `@` that have one rank for their members"""


class ChangeView(View, frozen=True):
    """A difference that a change makes."""

    what: str
    """the option, or the part of the task"""
    before: str | None
    """its value before; a deadline is a moment"""
    after: str | None
    """its value after"""
    restarts: bool
    """true if the standings start over"""

    @classmethod
    def of(cls, difference: Difference, plan: Plan) -> "ChangeView":
        """Return the object of a difference, with a time as a moment, which is the same for every reader."""
        name = {"deadline": "deadline", "freeze": "freeze_at"}.get(difference.what)
        if name is None or plan.before is None:
            return view_of(cls, difference)
        before, after = moment(getattr(plan.before.options, name)), moment(getattr(plan.options, name))
        return view_of(cls, difference, before=before, after=after)


class EntriesView(View, frozen=True):
    """The number of ranked users on a GPU."""

    gpu: str
    users: int
    """the number of users"""


class PlanView(View, frozen=True):
    """A change of a board."""

    ATTRIBUTES: ClassVar = {"version": "task.version", "terms": "options"}
    name: str
    """the name of the board"""
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
        return view_of(cls, plan, stored=stored, changes=_changes(plan))


class BoardChangeView(View, frozen=True):
    """A change of a board in its history."""

    ATTRIBUTES: ClassVar = {"by": "by_user", "version": "task_version", "terms": "options"}
    name: str
    """the name of the board"""
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


class DeletionView(View, frozen=True):
    """A deleted board."""

    name: str
    """the name of the board"""
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
    reason: Lines
    changes: list[ChangeView]
    """the differences"""

    @classmethod
    def of(cls, synced: Synced) -> "SyncedView":
        return view_of(cls, synced, changes=_changes(synced.plan) if synced.plan else [])


def _changes(plan: Plan) -> list[ChangeView]:
    return [ChangeView.of(each, plan) for each in plan.differences]
