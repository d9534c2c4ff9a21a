"""The tables of the database, as numbered steps. A released step is never edited; a change is one more step.

A new word in a closed set (a state, a verdict, a mode) is a change too: the step that comes with it, even an empty
one, keeps older programs from reading rows that they do not understand.
"""

from functools import cache
from typing import TYPE_CHECKING

from hpc_board.store.guard import plain
from hpc_board.store.reading import Readable

if TYPE_CHECKING:
    from hpc_board.store.sqlite import Database, Migrations

APPLICATION_ID = 0x68706362
"""Marks a SQLite file as a board's ("hpcb")."""

_FACTS = {
    "codes": """
        sha256 TEXT PRIMARY KEY,
        code BLOB NOT NULL
    """,
    "tasks": """
        name TEXT NOT NULL,
        version TEXT NOT NULL,
        definition TEXT NOT NULL,
        added_at TEXT NOT NULL,
        PRIMARY KEY (name, version)
    """,
    "submissions": """
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        task TEXT NOT NULL,
        task_version TEXT NOT NULL,
        user TEXT NOT NULL,
        file_name TEXT NOT NULL,
        code_sha256 TEXT NOT NULL REFERENCES codes (sha256),
        mode TEXT NOT NULL,
        note TEXT NOT NULL,
        submitted_at TEXT NOT NULL,
        FOREIGN KEY (task, task_version) REFERENCES tasks (name, version)
    """,
    "runs": """
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        submission INTEGER NOT NULL REFERENCES submissions (id),
        gpu TEXT NOT NULL,
        cluster TEXT NOT NULL,
        partition TEXT NOT NULL,
        token TEXT NOT NULL UNIQUE,
        nonce TEXT NOT NULL,
        trust TEXT NOT NULL,
        emulated INTEGER NOT NULL,
        harness_sha256 TEXT NOT NULL
    """,
    "events": """
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run INTEGER NOT NULL REFERENCES runs (id),
        state TEXT NOT NULL,
        at TEXT NOT NULL,
        job_id TEXT NOT NULL,
        node TEXT NOT NULL,
        reason TEXT NOT NULL,
        evidence TEXT NOT NULL,
        expected_start TEXT,
        ended_in_queue_at TEXT,
        unanswered INTEGER NOT NULL,
        cancel_requested INTEGER NOT NULL
    """,
    "results": """
        run INTEGER PRIMARY KEY REFERENCES runs (id),
        verdict TEXT NOT NULL,
        message TEXT NOT NULL,
        score_s REAL,
        ended_at TEXT
    """,
    # Apart from `results`, whose rows stay small this way: standings read one of them for each ranked run.
    "documents": """
        run INTEGER PRIMARY KEY REFERENCES results (run),
        document TEXT NOT NULL
    """,
    # `number` counts the cases of a run: `phase` and `case_index` come from the node and may repeat.
    "cases": """
        run INTEGER NOT NULL REFERENCES results (run),
        number INTEGER NOT NULL,
        phase TEXT NOT NULL,
        case_index INTEGER NOT NULL,
        spec TEXT NOT NULL,
        verdict TEXT NOT NULL,
        message TEXT NOT NULL,
        timed_calls INTEGER,
        mean_ns REAL,
        median_ns REAL,
        std_ns REAL,
        err_ns REAL,
        best_ns REAL,
        worst_ns REAL,
        baseline_ns REAL,
        noisy INTEGER,
        PRIMARY KEY (run, number)
    """,
}

_INDEXES = (
    "CREATE INDEX submissions_by_user ON submissions (user)",
    "CREATE INDEX submissions_by_task ON submissions (task)",
    "CREATE INDEX ranked_submissions ON submissions (task, task_version, user) WHERE mode = 'ranked'",
    "CREATE INDEX runs_by_submission ON runs (submission, gpu)",
    "CREATE INDEX events_by_run ON events (run)",
)

_RUN_DETAILS = """
CREATE VIEW run_details AS
SELECT runs.id, runs.submission, submissions.task, submissions.task_version, submissions.user, submissions.file_name,
       runs.gpu, runs.cluster, runs.partition, submissions.mode, runs.token, runs.nonce, runs.trust, runs.emulated,
       runs.harness_sha256, submissions.code_sha256, submissions.note, submissions.submitted_at AS created_at,
       events.state, events.at, events.job_id, events.node, events.reason, events.evidence,
       events.expected_start, events.ended_in_queue_at, events.unanswered, events.cancel_requested,
       results.verdict, results.message, results.score_s, results.ended_at
  FROM runs
  JOIN submissions ON submissions.id = runs.submission
  JOIN events ON events.id = (SELECT MAX(newest.id) FROM events AS newest WHERE newest.run = runs.id)
  LEFT JOIN results ON results.run = runs.id
"""

# CROSS JOIN keeps SQLite to this order: without it, a board is found through all the runs of its GPU.
_PASSING_RUNS = """
CREATE VIEW passing_runs AS
SELECT submissions.task, submissions.task_version, runs.gpu, submissions.user, results.score_s,
       submissions.id AS submission, runs.id AS run, submissions.submitted_at, submissions.file_name,
       runs.trust, runs.emulated
  FROM submissions
 CROSS JOIN runs ON runs.submission = submissions.id
  JOIN results ON results.run = runs.id
 WHERE submissions.mode = 'ranked' AND results.verdict = 'pass' AND results.score_s IS NOT NULL
"""


def m001_board(db: "Database") -> None:
    """Create the tables of facts, which never change, and `in_flight`: the runs that have not ended."""
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    for table, columns in _FACTS.items():
        db.execute(f"CREATE TABLE {table} ({columns})")
        db.execute(
            f"CREATE TRIGGER {table}_stay BEFORE UPDATE ON {table} "
            f"BEGIN SELECT RAISE(ABORT, 'rows of {table} are never changed'); END"
        )
    db.execute("CREATE TABLE in_flight (run INTEGER PRIMARY KEY REFERENCES runs (id))")
    for statement in (*_INDEXES, _RUN_DETAILS, _PASSING_RUNS):
        db.execute(statement)


def m002_partials(db: "Database") -> None:
    """Add the partial results of runs whose jobs were told to end. Such a run is not finished."""
    db.execute("CREATE TABLE partials (run INTEGER PRIMARY KEY REFERENCES runs (id), document TEXT NOT NULL)")
    db.execute(
        "CREATE TRIGGER partials_stay BEFORE UPDATE ON partials "
        "BEGIN SELECT RAISE(ABORT, 'rows of partials are never changed'); END"
    )


_BOARD_FACTS = {
    # The newest row of a name is the board. `task_version` is null in the row that deletes it.
    "boards": """
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL,
        action TEXT NOT NULL,
        task_version TEXT,
        terms TEXT NOT NULL,
        by_user TEXT NOT NULL,
        at TEXT NOT NULL,
        reason TEXT NOT NULL,
        FOREIGN KEY (name, task_version) REFERENCES tasks (name, version)
    """,
    # Decisions of admins and creators about a user, a board, a submission, or everything ("" twice).
    "decisions": """
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        action TEXT NOT NULL,
        kind TEXT NOT NULL,
        subject TEXT NOT NULL,
        detail TEXT NOT NULL,
        by_user TEXT NOT NULL,
        at TEXT NOT NULL,
        reason TEXT NOT NULL
    """,
    "remarks": """
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        submission INTEGER NOT NULL REFERENCES submissions (id),
        action TEXT NOT NULL,
        text TEXT NOT NULL,
        by_user TEXT NOT NULL,
        at TEXT NOT NULL
    """,
}

_BOARD_INDEXES = (
    "CREATE INDEX boards_by_name ON boards (name, id)",
    "CREATE INDEX decisions_by_subject ON decisions (kind, subject, id)",
    "CREATE INDEX remarks_by_submission ON remarks (submission, id)",
    "CREATE INDEX submissions_by_user_and_task ON submissions (user, task, submitted_at)",
)


def m003_boards(db: "Database") -> None:
    """Add the history of leaderboards: options, decisions about them and their users, notes, tags, milestones.

    `runs.account` is the account of the jobs if it is not the submission's user, who is shown and ranked.
    `submissions.milestone` is the name of an author's milestone beside the ranks; it is empty for other submissions.
    """
    for table, columns in _BOARD_FACTS.items():
        db.execute(f"CREATE TABLE {table} ({columns})")
        db.execute(
            f"CREATE TRIGGER {table}_stay BEFORE UPDATE ON {table} "
            f"BEGIN SELECT RAISE(ABORT, 'rows of {table} are never changed'); END"
        )
    db.execute("ALTER TABLE submissions ADD COLUMN milestone TEXT NOT NULL DEFAULT ''")
    db.execute("ALTER TABLE runs ADD COLUMN account TEXT NOT NULL DEFAULT ''")
    for statement in _BOARD_INDEXES:
        db.execute(statement)


# Plain joins, so that SQLite starts from the requested rows: one run, one submission, or all of them.
_PASSING_RUNS_ENTERING = """
CREATE VIEW passing_runs AS
SELECT runs.id AS run, submissions.id AS submission, submissions.task, submissions.task_version, runs.gpu,
       submissions.user, results.score_s, submissions.submitted_at
  FROM runs
  JOIN submissions ON submissions.id = runs.submission
  JOIN results ON results.run = runs.id
 WHERE submissions.mode = 'ranked' AND submissions.milestone = ''
   AND results.verdict = 'pass' AND results.score_s IS NOT NULL
"""

_RUN_DETAILS_WITH_MILESTONE = _RUN_DETAILS.replace(
    "submissions.note,", "submissions.note, submissions.milestone, runs.account,"
)

_RANKING_TABLES = (
    """
    CREATE TABLE scores (
        run INTEGER PRIMARY KEY REFERENCES runs (id),
        submission INTEGER NOT NULL REFERENCES submissions (id),
        task TEXT NOT NULL,
        task_version TEXT NOT NULL,
        gpu TEXT NOT NULL,
        user TEXT NOT NULL,
        score_s REAL NOT NULL,
        submitted_at TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE bests (
        task TEXT NOT NULL,
        task_version TEXT NOT NULL,
        gpu TEXT NOT NULL,
        user TEXT NOT NULL,
        run INTEGER NOT NULL REFERENCES runs (id),
        score_s REAL NOT NULL,
        submitted_at TEXT NOT NULL,
        PRIMARY KEY (task, task_version, gpu, user)
    ) WITHOUT ROWID
    """,
    # `beaten_user` is newly directly behind the run's user; `fallen` are the users who left the first three places for
    # it, as JSON; `former_rank` and `former_s` are the user's previous values.
    """
    CREATE TABLE feed (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at TEXT NOT NULL,
        kind TEXT NOT NULL,
        run INTEGER NOT NULL UNIQUE REFERENCES runs (id),
        task TEXT NOT NULL,
        task_version TEXT NOT NULL,
        gpu TEXT NOT NULL,
        user TEXT NOT NULL,
        rank INTEGER NOT NULL,
        score_s REAL NOT NULL,
        former_rank INTEGER,
        former_s REAL,
        beaten_user TEXT,
        beaten_s REAL,
        fallen TEXT NOT NULL
    )
    """,
    """
    CREATE TRIGGER feed_stay BEFORE UPDATE ON feed
    BEGIN SELECT RAISE(ABORT, 'rows of feed are never changed'); END
    """,
)

_RANKING_ROWS = (
    """
    INSERT INTO scores (run, submission, task, task_version, gpu, user, score_s, submitted_at)
    SELECT run, submission, task, task_version, gpu, user, score_s, submitted_at FROM passing_runs
    """,
    """
    INSERT INTO bests (task, task_version, gpu, user, run, score_s, submitted_at)
    SELECT task, task_version, gpu, user, run, score_s, submitted_at
      FROM (SELECT *, ROW_NUMBER() OVER (
                          PARTITION BY task, task_version, gpu, user ORDER BY score_s, submitted_at, run
                      ) AS place
              FROM scores)
     WHERE place = 1
    """,
)

_RANKING_INDEXES = (
    "CREATE INDEX scores_by_board ON scores (task, task_version, gpu, score_s, submitted_at, run)",
    "CREATE INDEX scores_by_user ON scores (task, task_version, gpu, user, score_s, submitted_at, run)",
    "CREATE INDEX scores_by_submission ON scores (submission)",
    "CREATE INDEX bests_by_score ON bests (task, task_version, gpu, score_s, submitted_at, run)",
    "CREATE INDEX feed_by_board ON feed (task, gpu)",
    "CREATE INDEX feed_by_task ON feed (task)",
    "CREATE INDEX feed_by_gpu ON feed (gpu)",
    "CREATE INDEX feed_by_user ON feed (user)",
    "CREATE INDEX milestones ON submissions (task, task_version) WHERE milestone <> ''",
)


def m004_ranking(db: "Database") -> None:
    """Add ranks that need no scan of runs: `scores` and `bests` follow from the facts; `feed` has the changes.

    `passing_runs` holds the runs that count, without milestones, which are shown beside the ranks.
    """
    for view in ("passing_runs", "run_details"):
        db.execute(f"DROP VIEW {view}")
    db.execute("DROP INDEX ranked_submissions")
    for statement in (
        _RUN_DETAILS_WITH_MILESTONE,
        _PASSING_RUNS_ENTERING,
        *_RANKING_TABLES,
        *_RANKING_ROWS,
        *_RANKING_INDEXES,
    ):
        db.execute(statement)


_COUNTED_RUNS = _PASSING_RUNS_ENTERING + (  # noqa: S608 - both parts are constants
    "   AND NOT EXISTS (SELECT 1 FROM removed WHERE removed.submission = submissions.id)"
)

# Remarks are read by index, for the listed rows only.
_REMARKED_RUNS = _RUN_DETAILS_WITH_MILESTONE.replace(
    "results.ended_at\n",
    """results.ended_at,
       (SELECT json_group_array(json_array(said.action, said.text, said.by_user, said.at))
          FROM (SELECT action, text, by_user, at FROM remarks
                 WHERE remarks.submission = submissions.id ORDER BY remarks.id) AS said) AS remarks,
       CASE WHEN EXISTS (SELECT 1 FROM removed WHERE removed.submission = submissions.id) THEN
           (SELECT json_array(by_user, at, reason) FROM decisions
             WHERE kind = 'submission' AND subject = CAST(submissions.id AS TEXT) AND action = 'remove'
             ORDER BY id DESC LIMIT 1)
       END AS removal
""",
)


def m005_removed(db: "Database") -> None:
    """Add submissions that no longer count, and the remarks on runs.

    `removed` is an index and no fact: the newest of the decisions to remove and to readmit a submission says the same.
    """
    db.execute("CREATE TABLE removed (submission INTEGER PRIMARY KEY REFERENCES submissions (id))")
    for view, statement in (("passing_runs", _COUNTED_RUNS), ("run_details", _REMARKED_RUNS)):
        db.execute(f"DROP VIEW IF EXISTS {view}")
        db.execute(statement)


def m006_listings(db: "Database") -> None:
    """Add indexes for the submissions since a time, the newest of a user for a task, and their places."""
    db.execute("CREATE INDEX submissions_by_time ON submissions (submitted_at)")
    db.execute("CREATE INDEX newest_of_user_and_task ON submissions (user, task)")
    db.execute("CREATE INDEX bests_by_user ON bests (user)")


def m007_versions(db: "Database") -> None:
    """Add an index for the first submission for a version of a task."""
    db.execute("CREATE INDEX submissions_by_version ON submissions (task, task_version, submitted_at)")


UNFINISHED_ENDS = ("cancelled", "timeout", "out_of_memory", "node_fail", "preempted", "lost", "error")
ENDED_UNFINISHED = f"state IN ({', '.join(repr(state) for state in UNFINISHED_ENDS)})"
"""The condition of the index `unfinished_ends`: SQLite takes it only where a statement has the same words."""


def m008_filters(db: "Database") -> None:
    """Add indexes for the newest runs of a GPU, with a verdict, or that ended without one."""
    db.execute("CREATE INDEX runs_by_gpu ON runs (gpu)")
    db.execute("CREATE INDEX results_by_verdict ON results (verdict)")
    db.execute(f"CREATE INDEX unfinished_ends ON events (state, run) WHERE {ENDED_UNFINISHED}")


_ROW_TIMES = (
    "low_ns REAL",
    "high_ns REAL",
    "least_ns REAL",
    "claimed_ns REAL",
    "busy_processors REAL",
)


def m009_row_times(db: "Database") -> None:
    """Add the values beside a median of times by the supervisor's clock; null in older rows, and for GPUs."""
    for column in _ROW_TIMES:
        db.execute(f"ALTER TABLE cases ADD COLUMN {column}")


_RUNS_WITH_INTERVALS = _REMARKED_RUNS.replace(
    "results.score_s,", "results.score_s, results.score_low_s, results.score_high_s,"
)


def m010_score_intervals(db: "Database") -> None:
    """Add the bounds of a score, which are null in older rows, and for GPUs."""
    for column in ("score_low_s", "score_high_s"):
        db.execute(f"ALTER TABLE results ADD COLUMN {column} REAL")
    db.execute("DROP VIEW run_details")
    db.execute(_RUNS_WITH_INTERVALS)


_RUNS_WITH_OPTIONS = _RUNS_WITH_INTERVALS.replace("runs.account,", "runs.account, runs.options,")


def m011_job_options(db: "Database") -> None:
    """Add the options that a user set for the job of a run, as JSON; empty in older rows."""
    db.execute("ALTER TABLE runs ADD COLUMN options TEXT NOT NULL DEFAULT ''")
    db.execute("DROP VIEW run_details")
    db.execute(_RUNS_WITH_OPTIONS)


_RETRIES = {
    # `state` to `evidence` are the end of the job before; `number` counts from 1 for each run.
    "retries": """
        run INTEGER NOT NULL REFERENCES runs (id),
        number INTEGER NOT NULL,
        token TEXT NOT NULL UNIQUE,
        nonce TEXT NOT NULL,
        at TEXT NOT NULL,
        state TEXT NOT NULL,
        job_id TEXT NOT NULL,
        node TEXT NOT NULL,
        reason TEXT NOT NULL,
        evidence TEXT NOT NULL,
        PRIMARY KEY (run, number)
    """,
}

_RUNS_WITH_RETRIES = _RUNS_WITH_OPTIONS.replace(
    "runs.token, runs.nonce,",
    "COALESCE(retries.token, runs.token) AS token, COALESCE(retries.nonce, runs.nonce) AS nonce,\n"
    "       COALESCE(retries.number, 0) AS retry,",
).replace(
    "  LEFT JOIN results ",
    """  LEFT JOIN retries ON retries.run = runs.id
        AND retries.number = (SELECT MAX(number) FROM retries AS newest WHERE newest.run = runs.id)
  LEFT JOIN results """,
)


def m012_retries(db: "Database") -> None:
    """Add the further jobs of runs whose jobs the cluster failed: each has its own name and nonce."""
    for table, columns in _RETRIES.items():
        db.execute(f"CREATE TABLE {table} ({columns})")
        db.execute(
            f"CREATE TRIGGER {table}_stay BEFORE UPDATE ON {table} "
            f"BEGIN SELECT RAISE(ABORT, 'rows of {table} are never changed'); END"
        )
    db.execute("DROP VIEW run_details")
    db.execute(_RUNS_WITH_RETRIES)


_PRUNED = (
    "CREATE TRIGGER pruned_stay BEFORE UPDATE ON pruned "
    "BEGIN SELECT RAISE(ABORT, 'rows of pruned are never changed'); END"
)


def m013_pruned(db: "Database") -> None:
    """Add the runs whose job folders were removed, with the end of the job's output."""
    db.execute(
        "CREATE TABLE pruned (run INTEGER PRIMARY KEY REFERENCES runs (id), at TEXT NOT NULL, log TEXT NOT NULL)"
    )
    db.execute(_PRUNED)


def m014_scores(db: "Database") -> None:
    """Add an index for a list of all users' runs in the order of their scores."""
    db.execute("CREATE INDEX results_by_score ON results (score_s) WHERE score_s IS NOT NULL")


_RUNS_WITH_ATTEMPTS = _RUNS_WITH_RETRIES.replace("events.cancel_requested,", "events.cancel_requested, events.attempt,")


def m015_attempts(db: "Database") -> None:
    """Add the number of the attempt to send a job; 0 in older rows, whose `evidence` says "try 1"."""
    db.execute("ALTER TABLE events ADD COLUMN attempt INTEGER NOT NULL DEFAULT 0")
    db.execute("DROP VIEW run_details")
    db.execute(_RUNS_WITH_ATTEMPTS)


def m016_slack(db: "Database") -> None:
    """Add the error of the judge's windows on a GPU; null in older rows, and elsewhere."""
    db.execute("ALTER TABLE cases ADD COLUMN slack_ns REAL")


_STEPS = (
    m001_board,
    m002_partials,
    m003_boards,
    m004_ranking,
    m005_removed,
    m006_listings,
    m007_versions,
    m008_filters,
    m009_row_times,
    m010_score_intervals,
    m011_job_options,
    m012_retries,
    m013_pruned,
    m014_scores,
    m015_attempts,
    m016_slack,
)
STEP_NAMES = frozenset(step.__name__ for step in _STEPS)
_SET = "hpc_board"


@cache
def known_statements() -> frozenset[str]:
    """Return the statements of the triggers and views that all steps together have made."""
    triggers = (
        f"CREATE TRIGGER {table}_stay BEFORE UPDATE ON {table} "
        f"BEGIN SELECT RAISE(ABORT, 'rows of {table} are never changed'); END"
        for table in (*_FACTS, "partials", *_BOARD_FACTS, "feed", *_RETRIES)
    )
    return frozenset(map(plain, (*triggers, _PRUNED, _COUNTED_RUNS, _RUNS_WITH_ATTEMPTS)))


@cache
def migrations() -> "Migrations":
    """Return the steps as sqlite_utils applies them."""
    from hpc_board.store.sqlite import Migrations

    found = Migrations(_SET)
    for step in _STEPS:
        found()(step)
    return found


def applied_steps(db: Readable) -> set[str]:
    """Return the names of the steps that a database has been through."""
    table = "_sqlite_migrations"
    if not db.table("sqlite_master").count_where("type = 'table' AND name = ?", [table]):
        return set()
    return {row["name"] for row in db.table(table).rows_where("migration_set = ?", [_SET])}
