"""The comparison of two entrants, or of two tags, by all their runs."""

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from hpc_board.board.parts import in_parts
from hpc_board.domain.comparison import Difference, measured_score, score_difference
from hpc_board.domain.experiment import Best, Experiment, Match, by_board, newest_versions, trajectory
from hpc_board.domain.origin import Tags, author_of, author_text, tags_of
from hpc_board.domain.run import Run
from hpc_board.errors import InputError
from hpc_board.model.names import suggestion
from hpc_board.model.text import one_line

if TYPE_CHECKING:
    from hpc_board.board import Board


class _Side(msgspec.Struct, frozen=True):
    """The runs of one side: those of a user's entrant, or the user's with a tag."""

    name: str
    user: str
    tags: Tags = ()


def experiment(
    board: "Board",
    one: str,
    other: str,
    *,
    tags: Tags = (),
    task: str | None = None,
    gpus: Collection[str] = (),
) -> Experiment:
    """Compare two sides: each is an entrant, such as "agent-a" or "bob/agent-a", or a tag of your runs, "model=small".

    `tags`, `task` and `gpus` restrict the runs of both.

    Raises:
        InputError: a side has no such runs, or both have no board in common.
    """
    name = None if task is None else board.tasks.get(task).name
    names = {board.gpus.get(each).name for each in gpus}
    sides = _side(one, board.user), _side(other, board.user)
    if sides[0] == sides[1]:
        raise InputError(f"both sides are {sides[0].name}.", hint="Compare two entrants, or two values of a tag.")
    found = tuple(_runs(board, side, words, tags, name) for side, words in zip(sides, (one, other), strict=True))
    versions = newest_versions(run for runs in found for run in runs)
    first, second = (
        by_board(run for run in runs if run.task_version == versions[run.task] and (not names or run.gpu in names))
        for runs in found
    )
    common = sorted(first.keys() & second.keys())
    if not common:
        tried = [", ".join(f"{task} on {gpu}" for task, gpu in sorted(each)) or "nothing" for each in (first, second)]
        raise InputError(
            f"{sides[0].name} and {sides[1].name} have no ended runs on a common board.",
            hint=f"{sides[0].name} has {tried[0]}; {sides[1].name} has {tried[1]}.",
        )
    matches = []
    for key in common:
        trajectories = trajectory(sides[0].name, first[key]), trajectory(sides[1].name, second[key])
        bests = trajectories[0].best, trajectories[1].best
        difference = None if None in bests else _difference(board, key[0], bests)
        matches.append(Match(key[0], versions[key[0]], key[1], trajectories, difference))
    return Experiment((sides[0].name, sides[1].name), tuple(matches))


def _side(words: str, user: str) -> _Side:
    if "=" in words:
        tags = tags_of([words])
        return _Side("=".join(tags[0]), user, tags)
    owner, entrant = author_of(words)
    name = words if entrant is not None else author_text(user, owner)
    return _Side(one_line(name, 100), name)


def _runs(board: "Board", side: _Side, words: str, tags: Tags, task: str | None) -> Sequence[Run]:
    """Return the runs of a side, newest first.

    Raises:
        InputError: there are none.
    """
    both = tuple(dict.fromkeys((*side.tags, *tags)))
    read = partial(board.runs.list, user=side.user, tags=both, task=task)
    found = in_parts(lambda size, before: read(limit=size, before=before[-1].id if before else None), None)
    if found:
        return found
    near = ""
    if not side.tags:
        owner, entrant = author_of(side.user)
        known = board.submissions.entrants(owner)
        near = "" if entrant in known else suggestion(entrant or "", known)
    kinds = f"with the tag {one_line(words, 80)}" if side.tags else f"of the entrant {side.name}"
    where = f" for {task}" if task else ""
    with_tags = f" and {', '.join(map('='.join, tags))}" if tags else ""
    raise InputError(
        f"no runs {kinds}{with_tags}{where}.{near}",
        hint="`hpc-board runs --as NAME` and `--tag KEY=VALUE` list runs; `submit --as NAME` names an entrant.",
    )


def _difference(board: "Board", task: str, bests: Sequence[Best | None]) -> Difference:
    """Return the difference of two timed runs; without an interval if they have no common cases."""
    ranking_by = board.tasks.get(task).ranking_by
    scores = []
    for best in bests:
        result = best and board.runs.whole(best.run).result
        scores.append(measured_score(result.cases, ranking_by) if result else None)
    one_s, other_s = (best.score_s for best in bests if best is not None)
    return score_difference(scores[0], scores[1]) or Difference(one_s * 1e9, other_s * 1e9)
