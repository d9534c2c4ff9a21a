"""Lists of runs: those that match the filters, in an order, a page at a time."""

import json
from collections.abc import Collection, Iterator

import msgspec

from hpc_board.domain.origin import Tags
from hpc_board.domain.roles import GROUP
from hpc_board.domain.run import Run, RunState
from hpc_board.domain.run_order import NEWEST_FIRST, OUTCOMES, RunOrder, RunPosition, SortColumn, Value
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.store.row_values import plain_text
from hpc_board.store.rows import row_id, run_value
from hpc_board.store.sqlite import Database

_MATCHES = """
  FROM runs
  JOIN submissions ON submissions.id = runs.submission
  LEFT JOIN results ON results.run = runs.id
 WHERE {where}
"""
_RUNS = f"SELECT runs.id {_MATCHES} ORDER BY {{order}} LIMIT :limit OFFSET :offset"
_COUNT = f"SELECT COUNT(*) {_MATCHES}"
_NEWEST = "(SELECT {column} FROM events WHERE events.run = runs.id ORDER BY events.id DESC LIMIT 1)"
_OUTCOME = f"coalesce(results.verdict, {_NEWEST.format(column='state')})"
_PLACES = " ".join(f"WHEN '{word}' THEN {place}" for place, word in enumerate(OUTCOMES))
_VALUES = {
    SortColumn.USER: "submissions.user",
    SortColumn.TASK: "submissions.task",
    SortColumn.GPU: "runs.gpu",
    SortColumn.STATE: f"CASE {_OUTCOME} {_PLACES} END",
    SortColumn.SCORE: "coalesce(results.score_s, :none)",
}
"""The values of the orders; the order by number has none."""

_NOTED = """
instr(lower(submissions.note), lower(:part)) > 0 OR EXISTS (
    SELECT 1 FROM remarks WHERE remarks.submission = submissions.id AND remarks.action = 'note'
       AND instr(lower(remarks.text), lower(:part)) > 0)
"""

_KEYED = """
EXISTS (SELECT 1 FROM keys
         WHERE keys.user = submissions.user AND keys.key = :key AND submissions.id BETWEEN keys.first AND keys.last)
"""

_OF_TEAM = "(submissions.user, submissions.task) IN (SELECT user, task FROM teams WHERE team = :user)"
_TAGGED = "submissions.id IN (SELECT submission FROM tags WHERE key = :key{number} AND value = :value{number})"

# A line break, which no word holds, keeps a word from being found across two fields.
_FIELDS = (
    *("submissions.task", "runs.gpu", _OUTCOME, "submissions.mode", "submissions.note", "submissions.file_name"),
    *("submissions.user", _NEWEST.format(column="job_id")),
)
# States and verdicts are shown, and so looked for, with spaces: "wrong value".
_WITH_WORD = f"instr(replace(lower({' || char(10) || '.join(_FIELDS)}), '_', ' '), lower(:{{word}})) > 0"
_WORDS_MAX = 8

SEARCHED_MAX = 50_000
"""The number of runs in which words are searched, unless an index finds all runs that may match."""


class RunQuery(msgspec.Struct, frozen=True):
    """The filters of a list of runs; a run has to match every given filter.

    Attributes:
        user: a user, or a team, whose members' runs on its boards match.
        order: the order of the list.
        behind: a position; only runs behind it match.
        offset: the number of runs to skip at the start of the list.
        key: the key of the run's submission.
        note: a part of any note of the run's submission.
        words: words, each contained in one of the run's columns. They are searched in all runs of a user, task,
            submission or job, or else in the newest SEARCHED_MAX runs.
        outcome: a state or a verdict.
        job: the scheduler's number of a job; that of an array or a runner matches all of its runs.
        entrant: the entrant, empty for the account itself.
        tags: tags, all of which the run's submission has.
        hidden: tasks whose runs match only if they belong to the user `unless_by`.
    """

    user: str | None = None
    task: str | None = None
    submission: int | None = None
    key: str = ""
    note: str = ""
    words: str = ""
    entrant: str | None = None
    tags: Tags = ()
    hidden: Collection[str] = ()
    unless_by: str = ""
    gpu: str | None = None
    mode: Mode | None = None
    outcome: RunState | Verdict | None = None
    job: str | None = None
    order: RunOrder = NEWEST_FIRST
    behind: RunPosition | None = None
    offset: int = 0


EVERY_RUN = RunQuery()


_Condition = tuple[str, dict[str, str | int | float | None]]
"""A condition, and the values that it has."""


def select(db: Database, query: RunQuery, limit: int | None) -> tuple[Run, ...]:
    """Return runs as `RunGateway.list` does."""
    order, by = query.order, query.order.by
    # Of equal values the newest run is first: an ascending key has the number with a sign, as in `RunOrder.key`.
    sign = "" if order.descending or by is SortColumn.RUN else "-"
    keys = (*([] if by is SortColumn.RUN else [_VALUES[by]]), f"{sign}runs.id")
    conditions = [*_filters(query)]
    if (past := query.behind) is not None:
        bounds = (*([] if by is SortColumn.RUN else ["coalesce(:value, :none)"]), f"{sign}:past")
        beyond = f"({', '.join(keys)}) {'<' if order.descending else '>'} ({', '.join(bounds)})"
        conditions.append((beyond, {"value": _bindable(past.value), "past": row_id(past.run)}))
    # A run without a score is behind the others in both directions.
    given = {
        "limit": -1 if limit is None else limit,
        "offset": row_id(query.offset),
        "none": -1.0 if order.reverse else float("inf"),
    }
    statement = _RUNS.format(
        where=_all_of(conditions),
        order=", ".join(f"{key} {'DESC' if order.descending else 'ASC'}" for key in keys),
    )
    rows = db.rows("run_details", f"id IN ({statement})", {**given, **_values(conditions)})
    return tuple(sorted(map(run_value, rows), key=order.key, reverse=order.descending))


def count(db: Database, query: RunQuery) -> int:
    """Return the number of runs that fit a query without a position."""
    conditions = [*_filters(query)]
    return int(db.value(_COUNT.format(where=_all_of(conditions)), _values(conditions)))


def _all_of(conditions: Collection[_Condition]) -> str:
    return " AND ".join(f"({text})" for text, _ in conditions) or "TRUE"


def _values(conditions: Collection[_Condition]) -> dict[str, str | int | float | None]:
    return {name: value for _, each in conditions for name, value in each.items()}


def _bindable(value: Value) -> Value:
    """Return the value of a position as SQLite takes it, whatever a client sent."""
    if isinstance(value, str):
        return plain_text(value)
    return float("inf") if isinstance(value, int) and abs(value) >= 2**63 else value


def _origin_filters(query: RunQuery) -> Iterator[_Condition]:
    if query.entrant is not None:
        yield "submissions.entrant = :entrant", {"entrant": plain_text(query.entrant)}
    for number, (key, value) in enumerate(query.tags):
        yield _TAGGED.format(number=number), {f"key{number}": plain_text(key), f"value{number}": plain_text(value)}


def _filters(query: RunQuery) -> Iterator[_Condition]:
    if query.key:
        yield _KEYED, {"key": plain_text(query.key)}
    yield from _origin_filters(query)
    if query.note:
        yield _NOTED, {"part": plain_text(query.note)}
    for number, word in enumerate(plain_text(query.words).split()[:_WORDS_MAX]):
        yield _WITH_WORD.format(word=f"word{number}"), {f"word{number}": word.replace("_", " ")}
    if query.words and {query.user, query.task, query.submission, query.job} == {None}:
        yield "runs.id > (SELECT MAX(id) FROM runs) - :searched", {"searched": SEARCHED_MAX}
    if query.user is not None:
        yield _OF_TEAM if query.user.startswith(GROUP) else "submissions.user = :user", {"user": query.user}
    if query.task is not None:
        yield "submissions.task = :task", {"task": query.task}
    if query.gpu is not None:
        yield "runs.gpu = :gpu", {"gpu": query.gpu}
    if query.mode is not None:
        yield "submissions.mode = :mode", {"mode": query.mode.value}
    if query.outcome is not None:
        condition = f":outcome = {_OUTCOME} OR (:outcome = 'finished' AND results.run IS NOT NULL)"
        yield condition, {"outcome": query.outcome.value}
    if query.job is not None:
        job = plain_text(query.job)
        # Of an array's tasks: 12_3, and 12_[0-3] while they wait together; of the runs at a runner: 12.3.
        part = "job_id <> '' AND (job_id = :job OR substr(job_id, 1, length(:tasks)) IN (:tasks, :at_runner))"
        where = f"runs.id IN (SELECT run FROM events WHERE {part})"  # noqa: S608
        yield where, {"job": job, "tasks": f"{job}_", "at_runner": f"{job}."}
    if query.submission is not None:
        yield "submissions.id = :submission", {"submission": row_id(query.submission)}
    if query.hidden:
        condition = "(submissions.user = :unless_by OR submissions.task NOT IN (SELECT value FROM json_each(:hidden)))"
        yield condition, {"unless_by": query.unless_by, "hidden": json.dumps([*query.hidden])}
