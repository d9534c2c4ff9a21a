"""The time that runs and runners take their devices: seconds, and GPU-seconds of users."""

from datetime import datetime

from hpc_board.domain.moderation import RERUN, GpuDemand, GpuJobs
from hpc_board.model.result import Result
from hpc_board.store.row_values import decoded, moment, optional_time_text, plain_text, time_text
from hpc_board.store.sqlite import Database

# A rerun is an admin's doing and a milestone is the board's: neither takes anything from its user's limit.
_LIMITED = f"""
(runs.gpus > 0 AND submissions.milestone = '' AND NOT EXISTS (
    SELECT 1 FROM remarks WHERE remarks.submission = submissions.id AND remarks.action = '{RERUN}'))
"""  # noqa: S608 - our names

_TIME_LIMIT_S = "(SELECT json_extract(script, '$.time_limit_seconds') FROM scripts WHERE sha256 = runs.script_sha256)"

# A job that began and ended between two polls was never seen running, and each job began before it was first seen. If
# no client has looked for hours, the end of a job without a result was long before it was seen.
_ENTRY = f"""
WITH span AS (
    SELECT coalesce(min(:started_at, seen.at), :started_at, seen.at) AS started_at,
           coalesce(:ended_at, next.at, newest.at) AS ended_at
      FROM (SELECT MAX(id) AS id FROM events
             WHERE run = :run AND state = 'running'
               AND at >= coalesce((SELECT MAX(at) FROM retries WHERE run = :run), '')) AS last
      LEFT JOIN events AS seen ON seen.id = last.id
      LEFT JOIN events AS next ON next.id = (SELECT MIN(id) FROM events WHERE run = :run AND id > last.id)
      JOIN events AS newest ON newest.id = (SELECT MAX(id) FROM events WHERE run = :run)),
     timed AS (
    SELECT runs.id, submissions.user, {_LIMITED} AS limited, span.ended_at, runs.gpus,
           coalesce(max(0, 86400 * (julianday(span.ended_at) - julianday(started_at))), 0) AS seconds,
           iif(:ended_at IS NULL, {_TIME_LIMIT_S}, NULL) AS limit_s
      FROM span CROSS JOIN runs JOIN submissions ON submissions.id = runs.submission
     WHERE runs.id = :run),
     bounded AS (SELECT *, round(coalesce(min(seconds, limit_s), seconds), 3) AS bounded_s FROM timed)
INSERT INTO usage (run, user, limited, ended_at, seconds, gpu_seconds, runner)
SELECT id, user, limited, ended_at, bounded_s, gpus * bounded_s, :runner FROM bounded
"""  # noqa: S608 - our names

_ENTRY_OF_RUNNER = """
INSERT INTO usage (user, limited, ended_at, seconds, gpu_seconds, runner)
SELECT user, gpus > 0 AND user <> '', :ended_at, 0, 0, id FROM runners WHERE id = :runner
"""

_IDLE = """
WITH held AS (
    SELECT runners.gpus,
           86400 * (julianday(usage.ended_at) - julianday(
               (SELECT MIN(at) FROM runner_events WHERE runner = :runner AND state = 'running'))) AS held_s,
           (SELECT TOTAL(seconds) FROM usage WHERE runner = :runner AND run IS NOT NULL) AS used_s
      FROM usage JOIN runners ON runners.id = usage.runner
     WHERE usage.runner = :runner AND usage.run IS NULL),
     idle AS (SELECT gpus, round(max(0, coalesce(held_s, 0) - used_s), 3) AS idle_s FROM held)
UPDATE usage SET (seconds, gpu_seconds) = (SELECT idle_s, gpus * idle_s FROM idle)
 WHERE runner = :runner AND run IS NULL
"""

_SPENT = "SELECT ended_at, gpu_seconds FROM usage WHERE user = :user AND limited = 1 AND ended_at > :since"
"""The GPU time of `user`: its ends after `since`, and the GPU-seconds that ended with each."""

_SPENT_BY_ENTRANT = f"""
{_SPENT} AND EXISTS (
    SELECT 1 FROM runs JOIN submissions ON submissions.id = runs.submission
     WHERE runs.id = usage.run AND submissions.entrant = :entrant)
"""  # noqa: S608 - our names
"""The same of an entrant of the user."""

_REACHED = """
SELECT MAX(ended_at)
  FROM (SELECT ended_at, SUM(gpu_seconds) OVER (ORDER BY ended_at DESC) AS newer_s FROM ({spent}))
 WHERE newer_s >= :most
"""

# A run that has a job, and not that of one of its user's runners, goes to no runner any more.
_GOING = f"""
SELECT gpu, COUNT(*) AS jobs, TOTAL(gpu_seconds) AS gpu_seconds
  FROM (SELECT iif(runs.fresh OR runs.gpus > 1 OR (newest.job_id <> '' AND NOT EXISTS (
                       SELECT 1 FROM runners WHERE runners.id = newest.runner AND runners.user = :user)),
                   '', runs.gpu) AS gpu,
               runs.gpus * {_TIME_LIMIT_S} AS gpu_seconds
          FROM in_flight
         CROSS JOIN runs ON runs.id = in_flight.run
         CROSS JOIN submissions ON submissions.id = runs.submission
         CROSS JOIN events AS newest ON newest.id = (SELECT MAX(id) FROM events WHERE events.run = in_flight.run)
         WHERE submissions.user = :user AND (:entrant IS NULL OR submissions.entrant = :entrant) AND {_LIMITED})
 GROUP BY gpu
"""  # noqa: S608 - our names

_HELD = """
SELECT gpu, COUNT(*) AS jobs, SUM(max(0, gpus * seconds - used_s)) AS gpu_seconds
  FROM (SELECT gpu, gpus, seconds,
               (SELECT TOTAL(gpu_seconds) FROM usage WHERE usage.runner = runners.id) AS used_s
          FROM live_runners
         CROSS JOIN runners ON runners.id = live_runners.runner
         WHERE user = :user AND gpus > 0)
 GROUP BY gpu
"""


def enter(db: Database, run: int, runner: int | None, result: Result | None, ended_at: datetime | None) -> None:
    """Store the time that a run took, whose end is stored, and which was the time of its `runner`, if any.

    `ended_at` is the end of its job by the job's own clock, if known; the start by that clock is its `result`'s.
    """
    started_at = None
    if result is not None and ended_at is not None:
        started_at = told_moment(db, run, result.started_at, ended_at)
    given = {"started_at": optional_time_text(started_at), "ended_at": optional_time_text(ended_at)}
    db.execute(_ENTRY, {"run": run, "runner": runner, **given})
    if runner is not None:
        # A run in hand may end after its runner.
        db.execute(_IDLE, {"runner": runner})


def enter_runner(db: Database, runner: int, ended_at: datetime) -> None:
    """Store the time of a runner that no run at it used, from its start to `ended_at`."""
    db.execute(_ENTRY_OF_RUNNER, {"runner": runner, "ended_at": time_text(ended_at)})
    db.execute(_IDLE, {"runner": runner})


def told_moment(db: Database, run: int, text: str, last: datetime) -> datetime | None:
    """Return the moment that a job's own clock told; None unless it is between the run's submission and `last`."""
    from hpc_board.domain.result_checks import plausible_moment

    sent = "SELECT submitted_at FROM submissions WHERE id = (SELECT submission FROM runs WHERE id = ?)"
    return plausible_moment(text, moment(db.value(sent, [run])), last)


def gpu_seconds(db: Database, user: str, since: datetime, entrant: str | None = None) -> float:
    """Return the GPU-seconds of the user's runs and runners that ended after `since`, as a limit counts them.

    Each counts with all its seconds, once for each of its GPUs. With an `entrant`, these are those of its runs.
    """
    given = {"user": plain_text(user), "since": time_text(since), "entrant": entrant}
    spent = _SPENT if entrant is None else _SPENT_BY_ENTRANT
    return float(db.value(f"SELECT coalesce(SUM(gpu_seconds), 0) FROM ({spent})", given))  # noqa: S608 - our names


def reached_by(db: Database, user: str, since: datetime, most: float, entrant: str | None = None) -> datetime | None:
    """Return the end with which the newest runs and runners of `gpu_seconds` reach `most` of them."""
    given = {"user": plain_text(user), "since": time_text(since), "most": most, "entrant": entrant}
    at = db.value(_REACHED.format(spent=_SPENT if entrant is None else _SPENT_BY_ENTRANT), given)
    return None if at is None else moment(at)


def reserved(db: Database, user: str, entrant: str | None = None) -> GpuDemand:
    """Return the user's runs in flight on GPUs and their held GPUs, with the GPU-seconds that these still may take.

    With an `entrant`, these are its runs.
    """
    given = {"user": plain_text(user), "entrant": entrant}
    # A held GPU is the account's.
    asked = (_GOING, _HELD) if entrant is None else (_GOING,)
    runs, *held = (tuple(decoded(GpuJobs, row) for row in db.query(each, given)) for each in asked)
    return GpuDemand(runs, *held)
