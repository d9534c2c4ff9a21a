"""The pages: the public parts of boards as HTML, made once for each audience, and again after each change."""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ReferenceType, ref

from hpc_board import __version__
from hpc_board.domain.run import Run, RunState
from hpc_board.domain.standing import Placing, Rows, verdict_line
from hpc_board.errors import InputError
from hpc_board.model.names import NAME
from hpc_board.model.result import Verdict
from hpc_board.model.text import one_line
from hpc_board.report.explanations import state_meaning, verdict_meaning
from hpc_board.report.formatting import count_text, score_text
from hpc_board.report.run_words import outcome, times, trust
from hpc_board.report.times import scatter_name
from hpc_board.web.rendering import template
from hpc_board.web.standings import ROWS_MAX, TREND_MAX, OverallTable, Section, board_table, trend

if TYPE_CHECKING:
    from hpc_board.board import Board
    from hpc_board.board.context import Installation
    from hpc_board.domain.standing import Page
    from hpc_board.model.task import Task
    from hpc_board.store.additions import Marks
    from hpc_board.store.standings import Activity

FEED_MAX = 100
"""The maximum number of changes on the page of the feed."""

CASES_MAX = 200
"""The maximum number of cases on the page of a run."""

_KEPT_MAX = 500
_TASK = re.compile(rf"boards/({NAME})")
_RUN = re.compile(r"runs/([1-9][0-9]{0,14})")


class _PageMark(NamedTuple):
    """The settings' installation, the board's newest rows, and the minute: while these stay, so does every page."""

    installation: "ReferenceType[Installation]"
    rows: "Marks"
    minute: datetime


class Audience(NamedTuple):
    """The readers with the same rights: the closed boards that they see, and the only board of a link."""

    closed: frozenset[str] = frozenset()
    only: str = ""


class Pages:
    """The pages of a board; `board` returns it as the public sees it, with these closed boards."""

    def __init__(self, board: "Callable[[frozenset[str]], Board]") -> None:
        self._board = board
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, Audience], tuple[_PageMark, bytes]] = OrderedDict()

    def get(self, path: str, audience: Audience) -> bytes | None:
        """Return the present page at `path`; None if it does not exist, or is hidden from the audience.

        It may be called from any thread.

        Raises:
            StorageError: the database cannot be read.
        """
        board, key = self._board(audience.closed), (path, audience)
        # One page at a time, so that many readers of a changed page make it once.
        with self._lock, board.session():
            # A page says times only by the minute, so that one that is made again for a closed board's rows stays
            # the same. A former installation ends although a page of its time is kept.
            minute = datetime.now(UTC).replace(second=0, microsecond=0)
            mark = _PageMark(ref(board.context.installation), board.context.store.additions.marks(), minute)
            kept = self._kept.pop(key, None)
            if kept is None or kept[0] != mark:
                made = page(board, path, minute, audience.only)
                kept = None if made is None else (mark, made.encode())
            if kept is None:
                return None
            self._kept[key] = kept
            if len(self._kept) > _KEPT_MAX:
                self._kept.popitem(last=False)
            return kept[1]


def route_of(path: str) -> str | None:
    """Return the name of the page at `path`, without the slash before it; None for a path without a page."""
    if path in ("", "competitions", "feed"):
        return path or "boards"
    if _TASK.fullmatch(path):
        return "board"
    return "run" if _RUN.fullmatch(path) else None


def page(board: "Board", path: str, at: datetime, only: str = "") -> str | None:
    """Return the page at `path`, as of the minute `at`; None if it does not exist, or is hidden from the audience.

    With the name of the `only` board of a link, its page is the first one, and others are those of its runs.

    Raises:
        StorageError: the database cannot be read.
    """
    route, name = route_of(path), path.rpartition("/")[2]
    if only and path == "":
        route, name = "board", only
    try:
        if only:
            shown = board.runs.get(int(name)).task if route == "run" else name if route == "board" else ""
            if shown != only:
                return None
        if route == "boards":
            values = _boards(board)
        elif route == "competitions" and (names := board.standings.competitions()):
            values = _competitions(board, names)
        elif route == "feed":
            values = _feed(board)
        elif route == "board":
            values = _board(board, board.tasks.get(name), at)
        elif route == "run":
            values = _run(board, int(name), at)
        else:
            return None
    except InputError:  # one that is hidden must look like one that does not exist
        return None
    root = "../" if "/" in path else "./"
    links = (("", only),) if only else (("", "Boards"), ("feed", "Feed"))
    return template(f"{route}.html").render(**values, path=path, links=links, root=root, at=at, version=__version__)


def _boards(board: "Board") -> dict[str, Any]:
    tasks = board.tasks.catalog().tasks
    leaders = {task.name: [*_leaders(board, task)] for task in tasks}
    played = [task for task in tasks if leaders[task.name]]
    others = [task for task in tasks if not leaders[task.name]]
    count = sum(map(len, leaders.values()))
    about = f"{count_text(len(played), 'task')}, {count_text(count, 'board')}"
    names = [one_line(name) for name in board.standings.competitions()]
    return {
        "title": "Leaderboards",
        "about": about,
        "played": played,
        "leaders": leaders,
        "others": others,
        "competitions": names,
    }


def _competitions(board: "Board", names: Iterable[str]) -> dict[str, Any]:
    tables = [OverallTable.of(board.standings.overall(name, limit=ROWS_MAX)) for name in names]
    return {"title": "Competitions", "about": "Overall standings, over all boards of each", "competitions": tables}


def _leaders(board: "Board", task: "Task") -> "Iterator[tuple[Activity, Page]]":
    """Yield the leaderboards of a task with entries, each with the first row of its standings."""
    for each in _activity(board, task):
        (found,) = board.standings.pages(task.name, [each.gpu], limit=1)
        if found.rows:
            yield each, found


def _activity(board: "Board", task: "Task") -> "list[Activity]":
    """Return the leaderboards of a task with entries, in the settings' order of GPUs."""
    found = {each.gpu: each for each in board.context.store.standings.activity(task.name, task.version)}
    return [found[gpu.name] for gpu in board.gpus.all() if gpu.name in found]


def _board(board: "Board", task: "Task", at: datetime) -> dict[str, Any]:
    section = Section.of(task)
    tables = []
    for each in _activity(board, task):
        (found,) = board.standings.pages(task.name, [each.gpu], limit=ROWS_MAX)
        if found.rows:
            tables.append(board_table(task, found, board.standings.records(task.name, each.gpu), at))
    return {"title": section.name, "about": "", "section": section, "boards": tables}


def _feed(board: "Board") -> dict[str, Any]:
    about = "The newest changes to the standings"
    return {"title": "Feed", "about": about, "changes": board.standings.feed(limit=FEED_MAX)}


def _run(board: "Board", number: int, at: datetime) -> dict[str, Any]:
    run = board.runs.get(number)
    every = board.context.store.runs.cases(run.id)
    cases, more = every[:CASES_MAX], len(every) - CASES_MAX
    placing = board.standings.placing(run)
    linked = any(task.name == run.task for task in board.tasks.catalog().tasks)
    has_board = linked and any(gpu.name == run.gpu for gpu in board.gpus.all())
    return {
        "title": f"Run {run.id}",
        "about": f"{one_line(run.task)} on {one_line(run.gpu)}, by {one_line(run.user)}",
        "run": run,
        "task": one_line(run.task),
        "user": one_line(run.user),
        "trend": _trend(board, run) if has_board and placing is not None else "",
        "linked": linked,
        "outcome": _outcome(run, placing),
        "state": outcome(run),
        "passed": run.verdict is Verdict.PASS,
        "facts": _facts(board, run, placing, at),
        "cases": cases,
        "more": count_text(more, "more case") if more > 0 else "",
        "scatter": scatter_name(cases),
    }


def _trend(board: "Board", run: Run) -> str:
    """Return the plot of the ranked runs of a run's user on its board as SVG; empty for fewer than two."""
    (found,) = board.standings.pages(
        run.task, [run.gpu], version=run.task_version, rows=Rows.NEWEST, limit=TREND_MAX, user=run.user
    )
    records = board.standings.records(run.task, run.gpu, version=run.task_version)
    return trend(found, records)


def _outcome(run: Run, placing: Placing | None) -> str:
    """Return a sentence on the run's end; the judge's message is left out, since it may quote the submission."""
    if run.remarks.removal is not None:
        return "Removed from the standings."
    if placing is not None and run.score_s is not None:
        return f"{verdict_line(one_line(run.gpu), run.score_s, placing, run.interval)}."
    if run.verdict is not None:
        return verdict_meaning(run.verdict).what
    if run.state.ended and run.state is not RunState.FINISHED:
        return state_meaning(run.state).what
    return ""


def _facts(board: "Board", run: Run, placing: Placing | None, at: datetime) -> list[tuple[str, str]]:
    started = board.runs.started([run.id]).get(run.id)
    submitted = run.created_at.astimezone(UTC)
    facts = (
        ("User", one_line(run.user)),
        ("Mode", str(run.mode)),
        ("Score", score_text(run.score_s)),
        ("Rank", f"{placing.rank} of {placing.users}" if placing is not None and placing.rank is not None else ""),
        ("Trust", one_line(trust(run))),
        ("Submitted", f"{submitted:%Y-%m-%d %H:%M}"),
        ("Duration", times(run, started, max(at, run.created_at))),
    )
    return [fact for fact in facts if fact[1]]
