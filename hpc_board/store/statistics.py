"""Counts of submissions and runs."""

from hpc_board.domain.origin import By
from hpc_board.domain.statistics import GpuStatistics, Statistics, UserStatistics
from hpc_board.store.database import DatabaseFile
from hpc_board.store.export import CHOSEN, STARTED_AT, RunSelection
from hpc_board.store.row_values import decoded

TOP_USERS = 10

# Nodes and login nodes have clocks of their own, so that a job may begin before it was sent. The sign keeps SQLite from
# looking for the first submission in the order of their numbers.
_RUNS = f"""
WITH found AS (
    SELECT runs.submission, runs.gpu, submissions.user, submissions.entrant, submissions.code_sha256,
           in_flight.run IS NOT NULL AS waiting,
           results.verdict IS 'pass' AS passed, results.verdict IS 'pass' AND results.score_s IS NOT NULL AS scored,
           julianday(submissions.submitted_at) AS sent_at, julianday({STARTED_AT}) AS started_at,
           coalesce(usage.seconds, 0) AS ran_s, coalesce(usage.gpu_seconds, 0) AS gpu_s
      FROM submissions
     CROSS JOIN runs ON runs.submission = submissions.id
      LEFT JOIN usage ON usage.run = runs.id
      LEFT JOIN results ON results.run = runs.id
      LEFT JOIN in_flight ON in_flight.run = runs.id
     WHERE submissions.id >= (SELECT MIN(+id) FROM submissions WHERE submitted_at >= coalesce(:since, ''))
       AND {CHOSEN}),
     timed AS (
    SELECT *, round(max(0, 86400 * (started_at - sent_at)), 3) AS wait_s FROM found)
"""  # noqa: S608 - our names

# A runner judges runs of all tasks, and holds its GPU for none of them.
_IDLE = """
SELECT runners.user, SUM(usage.gpu_seconds) AS idle_s
  FROM runners
 CROSS JOIN usage ON usage.runner = runners.id AND usage.run IS NULL
 WHERE :tasks = '[]' AND (:since IS NULL OR runners.created_at >= :since)
   AND (:gpus = '[]' OR runners.gpu IN (SELECT value FROM json_each(:gpus)))
 GROUP BY runners.user
"""

_TOTALS = f"""{_RUNS}
SELECT COUNT(DISTINCT submission) AS submissions, COUNT(*) AS runs, coalesce(SUM(waiting), 0) AS waiting,
       COUNT(DISTINCT user) AS users, COUNT(DISTINCT code_sha256) AS unique_codes,
       TOTAL(gpu_s) AS gpu_seconds
  FROM timed
"""  # noqa: S608 - our names

_GPUS = f"""{_RUNS}
SELECT gpu, COUNT(*) AS runs, SUM(passed) AS passed, SUM(scored) AS scored, COUNT(wait_s) AS started,
       MAX(iif(place = (started + 1) / 2, wait_s, NULL)) AS wait_median_s, MAX(wait_s) AS wait_max_s,
       SUM(ran_s) AS run_total_s
  FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY gpu ORDER BY wait_s NULLS LAST) AS place,
               COUNT(wait_s) OVER (PARTITION BY gpu) AS started
          FROM timed)
 GROUP BY gpu
 ORDER BY gpu
"""  # noqa: S608 - our names

_USERS = f"""{_RUNS}
SELECT iif(:by_entrant AND entrant <> '', user || '/' || entrant, user) AS user,
       COUNT(DISTINCT submission) AS submissions, COUNT(submission) AS runs, TOTAL(ran_s) AS run_total_s,
       TOTAL(gpu_s) + TOTAL(idle_s) AS gpu_seconds, TOTAL(idle_s) AS idle_gpu_seconds
  FROM (SELECT user, entrant, submission, ran_s, gpu_s, NULL AS idle_s FROM timed
        UNION ALL
        SELECT user, '', NULL, NULL, NULL, idle_s FROM ({_IDLE}) WHERE user <> '')
 GROUP BY 1
 ORDER BY gpu_seconds DESC, run_total_s DESC, runs DESC, 1
 LIMIT {TOP_USERS}
"""  # noqa: S608 - our names


def statistics(file: DatabaseFile, chosen: RunSelection, by: By = By.ACCOUNT) -> Statistics:
    """Count the chosen submissions and runs.

    Raises:
        StorageError: the database cannot be read.
    """
    given = chosen.parameters
    with file.reading() as db:
        (totals,) = db.query(_TOTALS, given)
        idle_s = sum(row["idle_s"] for row in db.query(_IDLE, given))
        gpus = tuple(decoded(GpuStatistics, row) for row in db.query(_GPUS, given))
        users = tuple(
            decoded(UserStatistics, row) for row in db.query(_USERS, {**given, "by_entrant": by is By.ENTRANT})
        )
    totals |= {"gpu_seconds": totals["gpu_seconds"] + idle_s, "idle_gpu_seconds": idle_s}
    return decoded(
        Statistics, {**totals, "since": chosen.since, "tasks": chosen.tasks, "gpus": gpus, "top_users": users}
    )
