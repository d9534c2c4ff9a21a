"""The tables of the database, as numbered steps. A released step is never edited; a change is one more step.

A new word in a closed set (a state, a verdict, a mode) is a change too: the step that comes with it, even an empty
one, keeps older programs from reading rows that they do not understand.
"""

from sqlite_utils import Database, Migrations

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


def m001_board(db: Database) -> None:
    """The facts, which nobody changes once they are stored, and `in_flight`: the runs that have not ended."""
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


def m002_partials(db: Database) -> None:
    """What runs had come to when their jobs were told to end. It is no result: such a run is not finished."""
    db.execute("CREATE TABLE partials (run INTEGER PRIMARY KEY REFERENCES runs (id), document TEXT NOT NULL)")
    db.execute(
        "CREATE TRIGGER partials_stay BEFORE UPDATE ON partials "
        "BEGIN SELECT RAISE(ABORT, 'rows of partials are never changed'); END"
    )


_STEPS = (m001_board, m002_partials)
STEP_NAMES = frozenset(step.__name__ for step in _STEPS)
MIGRATIONS = Migrations("hpc_board")
for _step in _STEPS:
    MIGRATIONS()(_step)
