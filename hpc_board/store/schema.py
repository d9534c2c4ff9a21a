"""The tables of the database, and their version.

A new word in a closed set (a state, a verdict, a mode) is a change of the version too: it keeps older programs from
reading rows that they do not understand.
"""

from functools import cache
from typing import TYPE_CHECKING

from hpc_board.store.guard import plain

if TYPE_CHECKING:
    import sqlite3

APPLICATION_ID = 0x68706362
"""Marks a SQLite file as a board's ("hpcb")."""

VERSION = 1
"""The `user_version` of a file with these tables."""

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
    # `milestone` is the name of an author's milestone beside the ranks; it is empty for other submissions.
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
        milestone TEXT NOT NULL DEFAULT '',
        FOREIGN KEY (task, task_version) REFERENCES tasks (name, version)
    """,
    # `account` is the account of the jobs if it is not the submission's user, who is shown and ranked. `options` has
    # those that the user set for the job, as JSON.
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
        harness_sha256 TEXT NOT NULL,
        account TEXT NOT NULL DEFAULT '',
        options TEXT NOT NULL DEFAULT ''
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
        cancel_requested INTEGER NOT NULL,
        attempt INTEGER NOT NULL DEFAULT 0
    """,
    # `score_low_s` and `score_high_s` are the bounds of the score, null for a task's own eval.
    "results": """
        run INTEGER PRIMARY KEY REFERENCES runs (id),
        verdict TEXT NOT NULL,
        message TEXT NOT NULL,
        score_s REAL,
        ended_at TEXT,
        score_low_s REAL,
        score_high_s REAL
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
        low_ns REAL,
        high_ns REAL,
        least_ns REAL,
        claimed_ns REAL,
        busy_processors REAL,
        slack_ns REAL,
        PRIMARY KEY (run, number)
    """,
    # The partial results of runs whose jobs were told to end. Such a run is not finished.
    "partials": """
        run INTEGER PRIMARY KEY REFERENCES runs (id),
        document TEXT NOT NULL
    """,
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
    # The further jobs of runs whose jobs the cluster failed: each has its own name and nonce.
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
    # The runs whose job folders were removed, with the end of the job's output.
    "pruned": """
        run INTEGER PRIMARY KEY REFERENCES runs (id),
        at TEXT NOT NULL,
        log TEXT NOT NULL
    """,
    # `beaten_user` is newly directly behind the run's user; `fallen` are the users who left the first three places for
    # it, as JSON; `former_rank` and `former_s` are the user's previous values.
    "feed": """
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
    """,
}
"""The tables of facts, whose rows never change."""

_DERIVED = {
    # The runs that have not ended.
    "in_flight": "run INTEGER PRIMARY KEY REFERENCES runs (id)",
    # The submissions that no longer count: the newest of the decisions to remove and to readmit one says the same.
    "removed": "submission INTEGER PRIMARY KEY REFERENCES submissions (id)",
    "scores": """
        run INTEGER PRIMARY KEY REFERENCES runs (id),
        submission INTEGER NOT NULL REFERENCES submissions (id),
        task TEXT NOT NULL,
        task_version TEXT NOT NULL,
        gpu TEXT NOT NULL,
        user TEXT NOT NULL,
        score_s REAL NOT NULL,
        submitted_at TEXT NOT NULL
    """,
    "bests": """
        task TEXT NOT NULL,
        task_version TEXT NOT NULL,
        gpu TEXT NOT NULL,
        user TEXT NOT NULL,
        run INTEGER NOT NULL REFERENCES runs (id),
        score_s REAL NOT NULL,
        submitted_at TEXT NOT NULL,
        PRIMARY KEY (task, task_version, gpu, user)
    """,
}
"""The tables that follow from the facts, so that ranks need no scan of all runs."""

UNFINISHED_ENDS = ("cancelled", "timeout", "out_of_memory", "node_fail", "preempted", "lost", "error")
ENDED_UNFINISHED = f"state IN ({', '.join(repr(state) for state in UNFINISHED_ENDS)})"
"""The condition of the index `unfinished_ends`: SQLite takes it only where a statement has the same words."""

_INDEXES = {
    "submissions_by_user": "submissions (user)",
    "submissions_by_task": "submissions (task)",
    "runs_by_submission": "runs (submission, gpu)",
    "events_by_run": "events (run)",
    "boards_by_name": "boards (name, id)",
    "decisions_by_subject": "decisions (kind, subject, id)",
    "remarks_by_submission": "remarks (submission, id)",
    "submissions_by_user_and_task": "submissions (user, task, submitted_at)",
    "scores_by_board": "scores (task, task_version, gpu, score_s, submitted_at, run)",
    "scores_by_user": "scores (task, task_version, gpu, user, score_s, submitted_at, run)",
    "scores_by_submission": "scores (submission)",
    "bests_by_score": "bests (task, task_version, gpu, score_s, submitted_at, run)",
    "feed_by_board": "feed (task, gpu)",
    "feed_by_task": "feed (task)",
    "feed_by_gpu": "feed (gpu)",
    "feed_by_user": "feed (user)",
    "milestones": "submissions (task, task_version) WHERE milestone <> ''",
    "submissions_by_time": "submissions (submitted_at)",
    "newest_of_user_and_task": "submissions (user, task)",
    "bests_by_user": "bests (user)",
    "submissions_by_version": "submissions (task, task_version, submitted_at)",
    "runs_by_gpu": "runs (gpu)",
    "results_by_verdict": "results (verdict)",
    "unfinished_ends": f"events (state, run) WHERE {ENDED_UNFINISHED}",
    "results_by_score": "results (score_s) WHERE score_s IS NOT NULL",
}

# Plain joins, so that SQLite starts from the requested rows: one run, one submission, or all of them. Remarks are read
# by index, for the listed rows only.
_VIEWS = (
    """
    CREATE VIEW passing_runs AS
    SELECT runs.id AS run, submissions.id AS submission, submissions.task, submissions.task_version, runs.gpu,
           submissions.user, results.score_s, submissions.submitted_at
      FROM runs
      JOIN submissions ON submissions.id = runs.submission
      JOIN results ON results.run = runs.id
     WHERE submissions.mode = 'ranked' AND submissions.milestone = ''
       AND results.verdict = 'pass' AND results.score_s IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM removed WHERE removed.submission = submissions.id)
    """,
    """
    CREATE VIEW run_details AS
    SELECT runs.id, runs.submission, submissions.task, submissions.task_version, submissions.user,
           submissions.file_name, runs.gpu, runs.cluster, runs.partition, submissions.mode,
           COALESCE(retries.token, runs.token) AS token, COALESCE(retries.nonce, runs.nonce) AS nonce,
           COALESCE(retries.number, 0) AS retry, runs.trust, runs.emulated, runs.harness_sha256,
           submissions.code_sha256, submissions.note, submissions.milestone, runs.account, runs.options,
           submissions.submitted_at AS created_at,
           events.state, events.at, events.job_id, events.node, events.reason, events.evidence,
           events.expected_start, events.ended_in_queue_at, events.unanswered, events.cancel_requested, events.attempt,
           results.verdict, results.message, results.score_s, results.score_low_s, results.score_high_s,
           results.ended_at,
           (SELECT json_group_array(json_array(said.action, said.text, said.by_user, said.at))
              FROM (SELECT action, text, by_user, at FROM remarks
                     WHERE remarks.submission = submissions.id ORDER BY remarks.id) AS said) AS remarks,
           CASE WHEN EXISTS (SELECT 1 FROM removed WHERE removed.submission = submissions.id) THEN
               (SELECT json_array(by_user, at, reason) FROM decisions
                 WHERE kind = 'submission' AND subject = CAST(submissions.id AS TEXT) AND action = 'remove'
                 ORDER BY id DESC LIMIT 1)
           END AS removal
      FROM runs
      JOIN submissions ON submissions.id = runs.submission
      JOIN events ON events.id = (SELECT MAX(newest.id) FROM events AS newest WHERE newest.run = runs.id)
      LEFT JOIN retries ON retries.run = runs.id
            AND retries.number = (SELECT MAX(number) FROM retries AS newest WHERE newest.run = runs.id)
      LEFT JOIN results ON results.run = runs.id
    """,
)

_TRIGGERS = tuple(
    f"CREATE TRIGGER {table}_stay BEFORE UPDATE ON {table} "
    f"BEGIN SELECT RAISE(ABORT, 'rows of {table} are never changed'); END"
    for table in _FACTS
)


@cache
def known_statements() -> frozenset[str]:
    """Return the statements of the triggers and views of a board's database."""
    return frozenset(map(plain, (*_TRIGGERS, *_VIEWS)))


def create(connection: "sqlite3.Connection") -> None:
    """Create the tables in an empty database."""
    for table, columns in {**_FACTS, **_DERIVED}.items():
        connection.execute(f"CREATE TABLE {table} ({columns}){' WITHOUT ROWID' if table == 'bests' else ''}")
    for index, columns in _INDEXES.items():
        connection.execute(f"CREATE INDEX {index} ON {columns}")
    for statement in (*_TRIGGERS, *_VIEWS):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
