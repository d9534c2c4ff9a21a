"""Lists of runs: those that match the filters, newest first, a page at a time."""

import json
from collections.abc import Collection, Iterator, Sequence

import msgspec

from hpc_board.domain.run import Run, RunState
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.store.reading import Readable
from hpc_board.store.row_texts import plain_text
from hpc_board.store.rows import row_id, run_value

# CROSS JOIN keeps SQLite to this order, which is that of the submissions' indexes: it stops at the limit. A submission
# gets its runs with its own number, so that its order is theirs.
_NEWEST = """
SELECT runs.id
  FROM submissions
 CROSS JOIN runs ON runs.submission = submissions.id
 WHERE {where}
 ORDER BY submissions.id DESC, runs.id DESC
 LIMIT :limit
"""
# A rare value is found by its own index, after the previous run, and not run by run.
_NEWEST_FROM = """
SELECT {run}
  FROM {table}
 WHERE {where}
 ORDER BY {run} DESC
 LIMIT :limit
"""
_AND_SUBMISSIONS = "CROSS JOIN submissions ON submissions.id = runs.submission"
_OF_GPU = f"runs {_AND_SUBMISSIONS}"
_IN_FLIGHT = f"in_flight CROSS JOIN runs ON runs.id = in_flight.run {_AND_SUBMISSIONS}"
_OF_OUTCOME = f"({{outcome}}) AS found CROSS JOIN runs ON runs.id = found.run {_AND_SUBMISSIONS}"
_WITH_VERDICT = "SELECT run FROM results WHERE verdict = :outcome"
_IN_TABLES = {
    "user": "submissions.user",
    "task": "submissions.task",
    "submission": "submissions.id",
    "id": "runs.id",
    "gpu": "runs.gpu",
    "mode": "submissions.mode",
    "outcomes": (
        "(SELECT state FROM events WHERE events.run = runs.id ORDER BY events.id DESC LIMIT 1), "
        "(SELECT verdict FROM results WHERE results.run = runs.id)"
    ),
}
_IN_VIEW = {**{name: name for name in _IN_TABLES}, "outcomes": "state, verdict"}

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


class RunQuery(msgspec.Struct, frozen=True):
    """The filters of a list of runs; a run has to match every given filter.

    Attributes:
        before: the number of a run; only older ones match.
        note: a part of any note of the run's submission.
        words: words, each contained in one of the run's columns.
        outcome: a state or a verdict.
        job: the scheduler's number of a job; that of an array matches the runs of all its tasks.
        hidden: tasks whose runs match only if they belong to the user `unless_by`.
    """

    user: str | None = None
    task: str | None = None
    submission: int | None = None
    before: int | None = None
    note: str = ""
    words: str = ""
    hidden: Collection[str] = ()
    unless_by: str = ""
    gpu: str | None = None
    mode: Mode | None = None
    outcome: RunState | Verdict | None = None
    job: str | None = None


EVERY_RUN = RunQuery()


def select(db: Readable, query: RunQuery, limit: int | None) -> tuple[Run, ...]:
    """Return runs as `RunGateway.list` does."""
    plain = list(_plain(query))
    searched = list(_searched(query))
    values = {name: value for _, given in (*plain, *searched) for name, value in given.items()}
    if searched:
        where = " AND ".join(condition.format(**_IN_VIEW) for condition, _ in (*plain, *searched))
        rows = db.view("run_details").rows_where(where, values, order_by="id DESC", limit=limit)
    else:
        newest = _newest([condition for condition, _ in plain], query)
        values["limit"] = -1 if limit is None else limit
        rows = db.view("run_details").rows_where(f"id IN ({newest})", values, order_by="id DESC")
    return tuple(run_value(row) for row in rows)


def _newest(conditions: Sequence[str], query: RunQuery) -> str:
    """Return the statement for the newest matching runs, which starts from the most selective index."""
    # It loads sqlite_utils, which only those need who open a database.
    from hpc_board.store.migrations import ENDED_UNFINISHED, UNFINISHED_ENDS

    outcome, few = query.outcome, None
    if isinstance(outcome, RunState) and not outcome.ended:
        few = _IN_FLIGHT, "in_flight.run"
    elif query.user is None and query.task is None and query.submission is None:
        # Some words are a verdict and a state.
        found = [_WITH_VERDICT] if outcome is not None and outcome.value in {each.value for each in Verdict} else []
        if outcome is not None and outcome.value in UNFINISHED_ENDS:
            found.append(f"SELECT run FROM events WHERE state = :outcome AND {ENDED_UNFINISHED}")  # noqa: S608
        if found:
            few = _OF_OUTCOME.format(outcome=" UNION ALL ".join(found)), "found.run"
        elif outcome is None and query.gpu is not None:
            few = _OF_GPU, "runs.id"
    if few is None:
        return _NEWEST.format(where=" AND ".join(each.format(**_IN_TABLES) for each in conditions) or "TRUE")
    table, run = few
    columns = {**_IN_TABLES, "id": run}
    where = " AND ".join(each.format(**columns) for each in conditions)
    return _NEWEST_FROM.format(run=run, table=table, where=where)


_Condition = tuple[str, dict[str, str | int]]
"""Text with the names of `_IN_TABLES` in braces, and the values that it has."""


def _plain(query: RunQuery) -> Iterator[_Condition]:
    """Return the filters on the tables of submissions and runs alone."""
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
    if query.before is not None:
        # The first part uses an index of submissions; a submission may have runs on both sides of `before`.
        nearest = "(SELECT submission FROM runs WHERE id < :before ORDER BY id DESC LIMIT 1)"
        yield f"{{submission}} <= {nearest} AND {{id}} < :before", {"before": row_id(query.before)}
    if query.hidden:
        condition = "({user} = :unless_by OR {task} NOT IN (SELECT value FROM json_each(:hidden)))"
        yield condition, {"unless_by": query.unless_by, "hidden": json.dumps([*query.hidden])}


def _searched(query: RunQuery) -> Iterator[_Condition]:
    """Return the filters that need a search in each run."""
    if query.note:
        yield _NOTED, {"part": plain_text(query.note)}
    for number, word in enumerate(plain_text(query.words).split()[:_WORDS_MAX]):
        yield _WITH_WORD.format(word=f"word{number}"), {f"word{number}": word.replace("_", " ")}
