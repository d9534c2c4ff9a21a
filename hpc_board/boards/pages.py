"""Pages of standings: a range of rows, the reader's own row, and marks beside the ranks."""

from datetime import datetime

from msgspec.structs import replace

from hpc_board.domain.board_options import BoardOptions, is_past
from hpc_board.domain.standing import Page, Rows
from hpc_board.errors import InputError
from hpc_board.model.task import Task
from hpc_board.model.text import one_line
from hpc_board.store import Store

PREVIOUS = "previous"
"""The word for the version of a task that was ranked last before the present one."""

_VERSION_CHARACTERS_MIN = 4
_SHORT_VERSION = 12


def version_called(word: str | None, task: Task, store: Store) -> str:
    """Return the version that `word` names: its beginning, "previous", or None for the present one.

    Raises:
        InputError: no submission has such a version, no user was ranked at another one, or the beginning is ambiguous.
    """
    if word is None:
        return task.version
    hint = f"`hpc-board show {task.name} --versions` lists them."
    if word == PREVIOUS:
        former = store.standings.version_before(task.name, task.version)
        if former is None:
            raise InputError(f"no earlier version of {task.name} with standings", hint=hint)
        return former
    if len(word) < _VERSION_CHARACTERS_MIN:
        raise InputError(f'"{one_line(word)}" is too short: a version needs at least 4 characters', hint=hint)
    known = [each.version for each in store.standings.versions(task.name)]
    fitting = [version for version in dict.fromkeys([task.version, *known]) if version.startswith(word.casefold())]
    if len(fitting) != 1:
        several = f": {', '.join(version[:_SHORT_VERSION] for version in fitting)}" if fitting else ""
        raise InputError(
            f'"{one_line(word, 80)}" matches {len(fitting) or "no"} versions of {task.name}{several}', hint=hint
        )
    return fitting[0]


def definition(store: Store, task: Task, version: str) -> Task:
    """Return the task as it was at `version`; the present one is known without submissions too."""
    return task if version == task.version else store.submissions.task(task.name, version)


def with_terms(page: Page, terms: BoardOptions, now: datetime) -> Page:
    """Return a page with the restrictions that the terms of its leaderboard set for its readers."""
    frozen_at = terms.freeze_at if is_past(terms.freeze_at, now) else None
    return replace(page, frozen_at=frozen_at, anonymous=terms.anonymous)


def page(
    store: Store,
    present: Task,
    shown: Task,
    gpu: str,
    user: str,
    *,
    rows: Rows,
    limit: int | None,
    offset: int,
) -> Page:
    """Return a page of the standings of `shown`, a version of the task `present`, for the reader `user`."""
    found = store.standings.page(shown.name, shown.version, gpu, rows, user, limit=limit, offset=offset)
    milestones = found.milestones
    if shown.version == present.version:
        # A GPU that the task no longer names has left its leaderboards.
        named = {each.name for each in present.milestones if each.shown_on(gpu)}
        milestones = tuple(mark for mark in milestones if mark.name in named)
    late = store.standings.late(shown.name, shown.version, gpu) if rows is Rows.USERS else ()
    return Page(
        gpu=gpu,
        version=shown.version,
        rows=tuple(replace(row, harness=shown.harness) for row in found.rows),
        total=found.total,
        offset=offset,
        own=found.own and replace(found.own, harness=shown.harness),
        milestones=milestones,
        late=late,
        reference=found.reference,
    )
