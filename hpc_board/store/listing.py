"""Lists of runs: those that match the filters, in an order, a page at a time."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from hpc_board.domain.run import Run, RunState
from hpc_board.domain.run_order import NEWEST_FIRST, OUTCOMES, RunOrder, RunPosition, SortColumn
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.store.row_values import plain_text
from hpc_board.store.rows import row_id, run_value
from hpc_board.store.sqlite import Database

# CROSS JOIN keeps SQLite to this order, which is that of the submissions' indexes: it stops at the limit. A submission
# gets its runs with its own number, so that its order is theirs.
_BY_NUMBER = """
SELECT runs.id
  FROM submissions
 CROSS JOIN runs ON runs.submission = submissions.id
 WHERE {where}
 ORDER BY submissions.id {direction}, runs.id {direction}
 LIMIT :limit
"""
# A rare value is found by its own index, after the previous run, and not run by run.
_ORDERED = """
SELECT {run}
  FROM {table}
 WHERE {where}
 ORDER BY {order}
 LIMIT :limit
"""
# All runs of a user, of a task or of a submission are sorted.
_SORTED = """
SELECT runs.id
  FROM submissions
 CROSS JOIN runs ON runs.submission = submissions.id
 WHERE {where}
 ORDER BY {order}
 LIMIT :limit
"""
_AND_SUBMISSIONS = "CROSS JOIN submissions ON submissions.id = runs.submission"
_OF_GPU = f"runs {_AND_SUBMISSIONS}"
_IN_FLIGHT = f"in_flight CROSS JOIN runs ON runs.id = in_flight.run {_AND_SUBMISSIONS}"
_OF_OUTCOME = f"({{outcome}}) AS found CROSS JOIN runs ON runs.id = found.run {_AND_SUBMISSIONS}"
_SCORED = f"results CROSS JOIN runs ON runs.id = results.run {_AND_SUBMISSIONS}"
_VERDICTS = frozenset(verdict.value for verdict in Verdict)
_WITH_VERDICT = "SELECT run FROM results WHERE verdict = :outcome"
_OUTCOME_PLACE = (
    "CASE coalesce({verdict}, {state}) "
    + " ".join(f"WHEN '{outcome}' THEN {place}" for place, outcome in enumerate(OUTCOMES))
    + f" ELSE {len(OUTCOMES)} END"
)
_STATE = "(SELECT state FROM events WHERE events.run = runs.id ORDER BY events.id DESC LIMIT 1)"
_VERDICT = "(SELECT verdict FROM results WHERE results.run = runs.id)"
_IN_TABLES = {
    "user": "submissions.user",
    "task": "submissions.task",
    "submission": "submissions.id",
    "id": "runs.id",
    "gpu": "runs.gpu",
    "mode": "submissions.mode",
    "outcomes": f"{_STATE}, {_VERDICT}",
    "outcome": _OUTCOME_PLACE.format(verdict=_VERDICT, state=_STATE),
    "score": "(SELECT score_s FROM results WHERE results.run = runs.id)",
}
_NEXT_VALUE = {
    SortColumn.USER: "SELECT {least}(user) AS value FROM submissions",
    SortColumn.TASK: "SELECT {least}(task) AS value FROM submissions",
    SortColumn.GPU: "SELECT {least}(gpu) AS value FROM runs",
}
"""The statements for the first value of a column in its index."""

_NOTED = """(
    instr(lower(note), lower(:part)) > 0 OR EXISTS (
    SELECT 1 FROM remarks AS said WHERE said.submission = run_details.submission
       AND said.action = 'note' AND instr(lower(said.text), lower(:part)) > 0))"""

# A line break, which no word holds, keeps a word from being found across two fields.
_FIELDS = ("task", "gpu", "coalesce(verdict, state)", "mode", "note", "file_name", "user", "job_id")
_TEXT = " || char(10) || ".join(_FIELDS)
# States and verdicts are shown, and so looked for, with spaces: "wrong value".
_WITH_WORD = f"instr(replace(lower({_TEXT}), '_', ' '), lower(:{{word}})) > 0"
_WORDS_MAX = 8

SEARCHED_MAX = 50_000
"""The number of runs in which words are searched, unless an index finds all runs that may match."""

# A search reads each of these runs until the page is full. The first part uses an index of submissions.
_RECENT = """{submission} >= (SELECT submission FROM runs WHERE id > (SELECT MAX(id) FROM runs) - :searched LIMIT 1)
    AND {id} > (SELECT MAX(id) FROM runs) - :searched"""


class RunQuery(msgspec.Struct, frozen=True):
    """The filters of a list of runs; a run has to match every given filter.

    Attributes:
        order: the order of the list.
        behind: a position; only runs behind it match.
        ahead: a position; only runs ahead of it match, of which a limit keeps the last ones.
        from_end: True for the last runs of the list, in its order.
        note: a part of any note of the run's submission.
        words: words, each contained in one of the run's columns. They are searched in all runs of a user, task,
            submission or job, or else in the newest SEARCHED_MAX runs.
        outcome: a state or a verdict.
        job: the scheduler's number of a job; that of an array matches the runs of all its tasks.
        hidden: tasks whose runs match only if they belong to the user `unless_by`.
    """

    user: str | None = None
    task: str | None = None
    submission: int | None = None
    note: str = ""
    words: str = ""
    hidden: Collection[str] = ()
    unless_by: str = ""
    gpu: str | None = None
    mode: Mode | None = None
    outcome: RunState | Verdict | None = None
    job: str | None = None
    order: RunOrder = NEWEST_FIRST
    behind: RunPosition | None = None
    ahead: RunPosition | None = None
    from_end: bool = False

    @property
    def unbounded(self) -> "RunQuery":
        """Return this query without a position, read in the same direction."""
        return replace(self, behind=None, ahead=None, from_end=self.backwards)

    @property
    def is_of_few(self) -> bool:
        """Return whether an index finds all runs that may match."""
        return any(each is not None for each in (self.user, self.task, self.submission, self.job))

    @property
    def backwards(self) -> bool:
        """Return whether the list is read from its end to its start."""
        return self.from_end or self.ahead is not None

    @property
    def past(self) -> RunPosition | None:
        """Return the position past which the list is read."""
        return self.behind if self.ahead is None else self.ahead

    @property
    def ascending(self) -> bool:
        """Return whether the values of the order's column ascend as the list is read."""
        return self.order.reverse is self.backwards

    @property
    def newest_first(self) -> bool:
        """Return whether runs with equal values descend by number as the list is read."""
        descends = self.order.by is not SortColumn.RUN or self.order.descending
        return descends is not self.backwards


EVERY_RUN = RunQuery()


def select(db: Database, query: RunQuery, limit: int | None) -> tuple[Run, ...]:
    """Return runs as `RunGateway.list` does."""
    found: list[Run] = []
    for statement, values in _statements(db, query):
        given = {**values, "limit": -1 if limit is None else limit - len(found)}
        rows = db.rows("run_details", f"id IN ({statement})", given)
        key, descending = query.order.key, query.order.descending is not query.backwards
        found += sorted(map(run_value, rows), key=key, reverse=descending)
        if len(found) == limit:
            break
    return tuple(reversed(found) if query.backwards else found)


_Condition = tuple[str, dict[str, str | int | float | None]]
"""Text with the names of `_IN_TABLES` in braces, and the values that it has."""


def _statements(db: Database, query: RunQuery) -> Iterator[_Condition]:
    """Yield the statements for the numbers of runs that together read the list, with their values but `:limit`."""
    by, plain = query.order.by, list(_filters(query, is_of_few=query.is_of_few))
    if by is SortColumn.RUN:
        yield _by_number(plain, query)
    elif query.is_of_few or query.outcome is RunState.FINISHED:
        yield _filled(_SORTED, [*plain, *_past_value(query)], _IN_TABLES, order=_order(query, _IN_TABLES))
    elif by is SortColumn.SCORE:
        yield from _by_score(plain, query)
    else:
        yield from _by_groups(db, query)


def _by_number(plain: "Sequence[_Condition]", query: RunQuery) -> _Condition:
    """Return the statement that reads by number, which starts from the most selective index."""
    # Only an open database needs it.
    from hpc_board.store.schema import ENDED_UNFINISHED, UNFINISHED_ENDS

    outcome, few = query.outcome, None
    if isinstance(outcome, RunState) and not outcome.ended:
        few = _IN_FLIGHT, "in_flight.run"
    elif query.user is None and query.task is None and query.submission is None:
        # Some words are a verdict and a state.
        found = [_WITH_VERDICT] if outcome is not None and outcome.value in _VERDICTS else []
        if outcome is not None and outcome.value in UNFINISHED_ENDS:
            found.append(f"SELECT run FROM events WHERE state = :outcome AND {ENDED_UNFINISHED}")  # noqa: S608
        if found:
            few = _OF_OUTCOME.format(outcome=" UNION ALL ".join(found)), "found.run"
        elif outcome is None and query.gpu is not None:
            few = _OF_GPU, "runs.id"
    conditions = [*plain, *_past_number(query)]
    direction = "DESC" if query.newest_first else "ASC"
    if few is None:
        return _filled(_BY_NUMBER, conditions, _IN_TABLES, direction=direction)
    table, run = few
    order = f"{run} {direction}"
    return _filled(_ORDERED, conditions, {**_IN_TABLES, "id": run}, run=run, table=table, order=order)


def _by_groups(db: Database, query: RunQuery) -> Iterator[_Condition]:
    """Yield a statement for each value of the column, which finds its runs by an index."""
    past = query.past
    for value in _values(db, query):
        # A group behind that of the position is read from its beginning.
        group = query if past is not None and value == _known(query.order.by, past) else query.unbounded
        match query.order.by:
            case SortColumn.USER:
                group = replace(group, user=str(value))
            case SortColumn.TASK:
                group = replace(group, task=str(value))
            case SortColumn.GPU:
                group = replace(group, gpu=str(value))
            case _:
                word = OUTCOMES[int(value)]
                group = replace(group, outcome=Verdict(word) if word in _VERDICTS else RunState(word))
        yield _by_number(list(_filters(group, is_of_few=query.is_of_few)), group)


def _by_score(plain: "Sequence[_Condition]", query: RunQuery) -> Iterator[_Condition]:
    """Yield a statement for the runs with a score, found by its index, and one for those without."""
    past = query.past
    begins_scored = not query.backwards if past is None else _known(SortColumn.SCORE, past) is not None
    columns = {**_IN_TABLES, "score": "results.score_s", "id": "results.run"}
    first = query if begins_scored else query.unbounded
    scored = _filled(
        _ORDERED,
        [*plain, ("{score} IS NOT NULL", {}), *_past_value(first)],
        columns,
        run="results.run",
        table=_SCORED,
        order=_order(query, columns),
    )
    rest = query.unbounded if begins_scored else query
    unscored = _by_number([*plain, ("{score} IS NULL", {})], rest)
    # The runs without a score are behind the others, and so the first ones of a list that is read backwards.
    if not query.backwards:
        yield from (scored, unscored) if begins_scored else (unscored,)
    else:
        yield from (scored,) if begins_scored else (unscored, scored)


def _filled(statement: str, conditions: "Sequence[_Condition]", columns: Mapping[str, str], **parts: str) -> _Condition:
    """Return a statement with its conditions and other parts, and the values of the conditions."""
    where = " AND ".join(f"({text.format(**columns)})" for text, _ in conditions) or "TRUE"
    values = {name: value for _, given in conditions for name, value in given.items()}
    return statement.format(where=where, **parts), values


def _order(query: RunQuery, columns: Mapping[str, str]) -> str:
    number = f"{columns['id']} {'DESC' if query.newest_first else 'ASC'}"
    if query.order.by is SortColumn.RUN:
        return number
    value, nulls = columns[query.order.by], "FIRST" if query.backwards else "LAST"
    return f"{value} {'ASC' if query.ascending else 'DESC'} NULLS {nulls}, {number}"


def _past_number(query: RunQuery) -> Iterator[_Condition]:
    """Yield the condition for runs past the position by their number alone."""
    if query.past is not None:
        # The first part uses an index of submissions; a submission may have runs on both sides of the position.
        less, order = ("<", "DESC") if query.newest_first else (">", "ASC")
        nearest = f"(SELECT submission FROM runs WHERE id {less} :past ORDER BY id {order} LIMIT 1)"  # noqa: S608
        yield f"{{submission}} {less}= {nearest} AND {{id}} {less} :past", {"past": row_id(query.past.run)}


def _past_value(query: RunQuery) -> Iterator[_Condition]:
    """Yield the condition for runs past the position in the order of the column."""
    past, by = query.past, query.order.by
    if past is None:
        return
    if by is SortColumn.RUN:
        yield f"{{id}} {'<' if query.newest_first else '>'} :past", {"past": row_id(past.run)}
        return
    name, value, number = f"{{{by}}}", _known(by, past), row_id(past.run)
    after = f"{{id}} {'<' if query.newest_first else '>'} :past"
    if value is None:
        more = f"{name} IS NOT NULL OR " if query.backwards else ""
        yield f"{more}({name} IS NULL AND {after})", {"past": number}
        return
    more = "" if query.backwards else f" OR {name} IS NULL"
    beyond = ">" if query.ascending else "<"
    # The first part is a range of the column's index.
    within = f"{name} {beyond}= :value AND ({name} {beyond} :value OR {after})"
    yield f"({within}){more}", {"past": number, "value": value}


def _known(by: SortColumn, position: RunPosition) -> str | int | float | None:
    """Return the value of a position as its column has it, whatever a client sent."""
    value = position.value
    if by in (SortColumn.USER, SortColumn.TASK, SortColumn.GPU):
        return plain_text(str(value))
    number = value if isinstance(value, int | float) and abs(value) < 2**63 else None
    if by is SortColumn.SCORE:
        return number
    return max(0, min(int(number or 0), len(OUTCOMES) - 1))


def _values(db: Database, query: RunQuery) -> Iterator[str | int]:
    """Yield the values of the order's column as the list is read, from that of the position on."""
    by, past = query.order.by, query.past
    fixed = query.gpu if by is SortColumn.GPU else query.outcome if by is SortColumn.OUTCOME else None
    value: Any = None if past is None else _known(by, past)
    if fixed is not None:
        yield OUTCOMES.index(query.outcome.value) if by is SortColumn.OUTCOME and query.outcome else str(fixed)
    elif by is SortColumn.OUTCOME:
        places = range(len(OUTCOMES)) if query.ascending else reversed(range(len(OUTCOMES)))
        yield from (
            place for place in places if value is None or (place >= value if query.ascending else place <= value)
        )
    else:
        if value is not None:
            yield value
        least, beyond = ("min", ">") if query.ascending else ("max", "<")
        column, statement = by.value, _NEXT_VALUE[by].format(least=least)
        while True:
            where = "" if value is None else f" WHERE {column} {beyond} :value"
            (row,) = db.query(statement + where, {"value": value})
            value = row["value"]
            if value is None:
                return
            yield value


def _filters(query: RunQuery, *, is_of_few: bool) -> Iterator[_Condition]:
    """Yield the filters; a search is bounded unless its list `is_of_few`."""
    if searched := [*_searched(query)]:
        words = " AND ".join(text for text, _ in searched)
        values = {name: value for _, given in searched for name, value in given.items()}
        yield f"EXISTS (SELECT 1 FROM run_details WHERE run_details.id = {{id}} AND {words})", values  # noqa: S608
        if query.words and not is_of_few:
            yield _RECENT, {"searched": SEARCHED_MAX}
    if query.user is not None:
        yield "{user} = :user", {"user": query.user}
    if query.task is not None:
        yield "{task} = :task", {"task": query.task}
    if query.gpu is not None:
        yield "{gpu} = :gpu", {"gpu": query.gpu}
    if query.mode is not None:
        yield "{mode} = :mode", {"mode": query.mode.value}
    if query.outcome is not None:
        yield ":outcome IN ({outcomes})", {"outcome": query.outcome.value}
    if query.job is not None:
        job = plain_text(query.job)
        # Of an array's tasks: 12_3, and 12_[0-3] while they wait together.
        part = "job_id <> '' AND (job_id = :job OR substr(job_id, 1, length(:tasks)) = :tasks)"
        yield f"{{id}} IN (SELECT run FROM events WHERE {part})", {"job": job, "tasks": f"{job}_"}  # noqa: S608
    if query.submission is not None:
        yield "{submission} = :submission", {"submission": row_id(query.submission)}
    if query.hidden:
        condition = "({user} = :unless_by OR {task} NOT IN (SELECT value FROM json_each(:hidden)))"
        yield condition, {"unless_by": query.unless_by, "hidden": json.dumps([*query.hidden])}


def _searched(query: RunQuery) -> Iterator[_Condition]:
    """Yield the filters that need a search in each run."""
    if query.note:
        yield _NOTED, {"part": plain_text(query.note)}
    for number, word in enumerate(plain_text(query.words).split()[:_WORDS_MAX]):
        yield _WITH_WORD.format(word=f"word{number}"), {f"word{number}": word.replace("_", " ")}
