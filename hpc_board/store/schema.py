"""The tables of the database, and their version.

A new word in a closed set (a state, a verdict, a mode) is a change of the version too: it keeps older programs from
reading rows that they do not understand.
"""

import re
import secrets
from collections.abc import Iterable

from hpc_board.domain.run import RunState
from hpc_board.domain.user_board import Action
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.store.sqlite import Database


def _one_of(words: Iterable[str]) -> str:
    return f"{{0}} IN ({', '.join(repr(str(word)) for word in words)})"


# GLOB and length() end at a null character.
_WHOLE = "instr({0}, char(0)) = 0"


def _of(characters: str, most: int) -> str:
    return f"{{0}} NOT GLOB '*[^{characters}]*' AND length({{0}}) <= {most} AND {_WHOLE}"


_NAME = f"{{0}} GLOB '[A-Za-z0-9]*' AND {_of('A-Za-z0-9._+-', 64)}"

# Columns have their checks by kind, as in a STRICT table, which SQLite knows from 3.37 on: RHEL 9 has 3.34.
_KINDS = {
    "NAME": ("TEXT", _NAME),
    "ENTRANT": ("TEXT", f"({{0}} = '' OR ({_NAME}))"),
    "TOKEN": ("TEXT", f"{{0}} GLOB '[A-Za-z0-9]*' AND {_of('A-Za-z0-9._-', 71)}"),
    "JOB_ID": ("TEXT", f"{{0}} NOT GLOB '-*' AND {_of(']A-Za-z0-9_.+:,%[-', 120)}"),
    "DIGEST": ("TEXT", _of("A-Za-z0-9", 64)),
    "FILE_NAME": ("TEXT", f"{{0}} NOT IN ('', '.', '..') AND instr({{0}}, '/') = 0 AND {_WHOLE}"),
    "MOMENT": ("TEXT", "{0} GLOB '[1-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]T*+00:00'"),
    "STATE": ("TEXT", _one_of(RunState)),
    "VERDICT": ("TEXT", _one_of(Verdict)),
    "MODE": ("TEXT", _one_of(Mode)),
    "ACTION": ("TEXT", _one_of(Action)),
    "TRUST": ("TEXT", _one_of(("self-run", "verified"))),
    "JSON": ("TEXT", "json_valid({0})"),
    "TEXT": ("TEXT", ""),
    "BLOB": ("BLOB", ""),
    "INTEGER": ("INTEGER", ""),
    "BOOLEAN": ("INTEGER", "{0} IN (0, 1)"),
    "SCORE": ("REAL", "{0} > 0 AND {0} < 1e300"),
    "NUMBER": ("REAL", "{0} BETWEEN 0 AND 1e300"),
}

_STATUS = """
        state STATE NOT NULL,
        at MOMENT NOT NULL,
        job_id JOB_ID NOT NULL,
        node TEXT NOT NULL,
        reason TEXT NOT NULL,
        evidence TEXT NOT NULL,
        expected_start MOMENT,
        ended_in_queue_at MOMENT,
        unanswered BOOLEAN NOT NULL,
        cancel_requested BOOLEAN NOT NULL,
        attempt INTEGER NOT NULL DEFAULT 0,
        runner INTEGER REFERENCES runners (id)
"""

_SCORE = """
        entry INTEGER NOT NULL REFERENCES submissions (id),
        score_s SCORE NOT NULL,
        score_low_s SCORE,
        score_high_s SCORE,
        submitted_at MOMENT NOT NULL"""

_FACTS = {
    "codes": """
        sha256 DIGEST PRIMARY KEY,
        code BLOB NOT NULL
    """,
    # Batch scripts with their options, as JSON.
    "scripts": """
        sha256 DIGEST PRIMARY KEY,
        script JSON NOT NULL
    """,
    "tasks": """
        name NAME NOT NULL,
        version TEXT NOT NULL,
        definition JSON NOT NULL,
        added_at MOMENT NOT NULL,
        PRIMARY KEY (name, version)
    """,
    # `milestone` is the name of an author's milestone beside the ranks; it is empty for other submissions. `entrant` is
    # empty for a submission of the account itself; `parent` is the submission that it continues. `tokens_sha256` is a
    # hash of the code without comments and blanks, null for other modes than `ranked`.
    "submissions": """
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        task NAME NOT NULL,
        task_version TEXT NOT NULL,
        user TEXT NOT NULL,
        file_name FILE_NAME NOT NULL,
        code_sha256 DIGEST NOT NULL REFERENCES codes (sha256),
        mode MODE NOT NULL,
        note TEXT NOT NULL,
        submitted_at MOMENT NOT NULL,
        milestone TEXT NOT NULL DEFAULT '',
        entrant ENTRANT NOT NULL DEFAULT '',
        parent INTEGER REFERENCES submissions (id),
        tokens_sha256 DIGEST,
        FOREIGN KEY (task, task_version) REFERENCES tasks (name, version)
    """,
    "tags": """
        submission INTEGER NOT NULL REFERENCES submissions (id),
        key NAME NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (submission, key)
    """,
    # The keys that users gave their submissions, each with those of one call, `first` to `last`, and a hash of them.
    "keys": """
        user TEXT NOT NULL,
        key NAME NOT NULL,
        request_sha256 DIGEST NOT NULL,
        first INTEGER NOT NULL REFERENCES submissions (id),
        last INTEGER NOT NULL REFERENCES submissions (id),
        PRIMARY KEY (user, key)
    """,
    # `account` is the account of the jobs if it is not the submission's user, who is shown and ranked. `options` has
    # those that the user set for the job, as JSON. `script_sha256` names the batch script that the job gets. A run that
    # is `fresh` has a job of its own, and goes to no runner. `gpus` is the number of GPUs of the job, 0 on a CPU.
    # `repeats` is the newest earlier run of an identical file that has a verdict or was in flight.
    "runs": """
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        submission INTEGER NOT NULL REFERENCES submissions (id),
        gpu NAME NOT NULL,
        cluster NAME NOT NULL,
        partition TEXT NOT NULL,
        token TOKEN NOT NULL UNIQUE,
        nonce TEXT NOT NULL,
        trust TRUST NOT NULL,
        emulated BOOLEAN NOT NULL,
        harness_sha256 DIGEST NOT NULL,
        account TEXT NOT NULL DEFAULT '',
        options TEXT NOT NULL DEFAULT '',
        script_sha256 DIGEST REFERENCES scripts (sha256),
        fresh BOOLEAN NOT NULL DEFAULT 0,
        gpus INTEGER NOT NULL DEFAULT 0,
        repeats INTEGER REFERENCES runs (id)
    """,
    "events": f"""
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run INTEGER NOT NULL REFERENCES runs (id),{_STATUS}""",
    # `request` is a hash of all that the runs of a runner have in common; `account` and `gpus` are those of `runs`.
    "runners": """
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        user TEXT NOT NULL,
        account TEXT NOT NULL,
        gpu NAME NOT NULL,
        cluster NAME NOT NULL,
        partition TEXT NOT NULL,
        token TOKEN NOT NULL UNIQUE,
        request DIGEST NOT NULL,
        seconds INTEGER NOT NULL,
        idle_seconds INTEGER NOT NULL,
        harness_sha256 DIGEST NOT NULL,
        script_sha256 DIGEST NOT NULL REFERENCES scripts (sha256),
        created_at MOMENT NOT NULL,
        gpus INTEGER NOT NULL
    """,
    # The states of a runner's job, in which `runner` is the runner itself.
    "runner_events": f"""
        id INTEGER PRIMARY KEY AUTOINCREMENT,{_STATUS}""",
    # `score_low_s` and `score_high_s` are the bounds of the score, null for a task's own eval. `reference_s` is the
    # score of the task's reference in the same run, null if it was not timed.
    "results": """
        run INTEGER PRIMARY KEY REFERENCES runs (id),
        verdict VERDICT NOT NULL,
        message TEXT NOT NULL,
        score_s SCORE,
        ended_at MOMENT,
        score_low_s SCORE,
        score_high_s SCORE,
        reference_s SCORE
    """,
    # The results, and the partial ones of runs whose jobs were told to end: such a run has no row of `results`. Apart
    # from `results`, whose rows stay small this way: standings read one of them for each ranked run.
    "documents": """
        run INTEGER PRIMARY KEY REFERENCES runs (id),
        document TEXT NOT NULL
    """,
    # The cases of a result without the samples, as JSON.
    "cases": """
        run INTEGER PRIMARY KEY REFERENCES results (run),
        cases JSON NOT NULL
    """,
    # The newest row of a name is the board. `task_version` is null in the row that deletes it.
    "boards": """
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name NAME NOT NULL,
        action ACTION NOT NULL,
        task_version TEXT,
        terms JSON NOT NULL,
        by_user TEXT NOT NULL,
        at MOMENT NOT NULL,
        reason TEXT NOT NULL,
        FOREIGN KEY (name, task_version) REFERENCES tasks (name, version)
    """,
    # One row, with the key that pseudonyms derive from.
    "secrets": "pseudonym_key DIGEST NOT NULL",
    # Decisions of admins and creators about a user, a board, a submission, or everything ("" twice).
    "decisions": """
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        action TEXT NOT NULL,
        kind TEXT NOT NULL,
        subject TEXT NOT NULL,
        detail TEXT NOT NULL,
        by_user TEXT NOT NULL,
        at MOMENT NOT NULL,
        reason TEXT NOT NULL
    """,
    "remarks": """
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        submission INTEGER NOT NULL REFERENCES submissions (id),
        action TEXT NOT NULL,
        text TEXT NOT NULL,
        by_user TEXT NOT NULL,
        at MOMENT NOT NULL
    """,
    # The further jobs of runs: each has its own name and nonce. `number` counts from 1 for each run; `failed` says that
    # the cluster failed the job before.
    "retries": """
        run INTEGER NOT NULL REFERENCES runs (id),
        number INTEGER NOT NULL,
        token TOKEN NOT NULL UNIQUE,
        nonce TEXT NOT NULL,
        at MOMENT NOT NULL,
        failed BOOLEAN NOT NULL,
        PRIMARY KEY (run, number)
    """,
    # The runs whose job folders were removed, with the end of the job's output.
    "pruned": """
        run INTEGER PRIMARY KEY REFERENCES runs (id),
        at MOMENT NOT NULL,
        log TEXT NOT NULL
    """,
    # `news` is the change as JSON; `former_rank` and `former_s` are the user's rank and score before it.
    "feed": """
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at MOMENT NOT NULL,
        run INTEGER NOT NULL UNIQUE REFERENCES runs (id),
        task NAME NOT NULL,
        task_version TEXT NOT NULL,
        gpu NAME NOT NULL,
        user TEXT NOT NULL,
        former_rank INTEGER,
        former_s SCORE,
        news JSON NOT NULL
    """,
}
"""The tables of facts, whose rows never change."""

_DERIVED = {
    # The runs that have not ended.
    "in_flight": "run INTEGER PRIMARY KEY REFERENCES runs (id)",
    # The runners that have not ended.
    "live_runners": "runner INTEGER PRIMARY KEY REFERENCES runners (id)",
    # The submissions that no longer count: the newest of the decisions to remove and to readmit one says the same.
    "removed": "submission INTEGER PRIMARY KEY REFERENCES submissions (id)",
    # The submissions after their users' deadlines, which have no rank; the newest options of their boards say the same.
    "late": """
        submission INTEGER PRIMARY KEY REFERENCES submissions (id),
        due_at MOMENT NOT NULL
    """,
    # The team of a user on a board, a group with a `@` before its name, as it was at the user's last submission or at
    # the last change of the board's teams.
    "teams": """
        user TEXT NOT NULL,
        task NAME NOT NULL,
        team TEXT NOT NULL,
        PRIMARY KEY (user, task)
    """,
    # The runs that count. `entry` is the first submission of the user with the same code for the version of the task.
    "scores": f"""
        run INTEGER PRIMARY KEY REFERENCES runs (id),
        submission INTEGER NOT NULL REFERENCES submissions (id),
        task NAME NOT NULL,
        task_version TEXT NOT NULL,
        gpu NAME NOT NULL,
        user TEXT NOT NULL,{_SCORE}
    """,
    # The runs of the same code as one: `score_s` is the median, `run` is the run that has it, and `submitted_at` is the
    # time of the first submission. `bests` has the best one of each user without a team, and of each team as `user`.
    "entries": f"""
        task NAME NOT NULL,
        task_version TEXT NOT NULL,
        gpu NAME NOT NULL,
        user TEXT NOT NULL,
        run INTEGER NOT NULL REFERENCES runs (id),
        runs INTEGER NOT NULL,{_SCORE},
        PRIMARY KEY (task, task_version, gpu, user, entry)
    """,
    "bests": f"""
        task NAME NOT NULL,
        task_version TEXT NOT NULL,
        gpu NAME NOT NULL,
        user TEXT NOT NULL,
        run INTEGER NOT NULL REFERENCES runs (id),
        runs INTEGER NOT NULL,{_SCORE},
        PRIMARY KEY (task, task_version, gpu, user)
    """,
    # The time of the reference in each passing ranked run, that of a milestone too, and the reference of each board,
    # which follows from those by order statistics.
    "reference_times": """
        task NAME NOT NULL,
        task_version TEXT NOT NULL,
        gpu NAME NOT NULL,
        reference_s SCORE NOT NULL,
        run INTEGER NOT NULL REFERENCES runs (id),
        PRIMARY KEY (task, task_version, gpu, reference_s, run)
    """,
    "board_references": """
        task NAME NOT NULL,
        task_version TEXT NOT NULL,
        gpu NAME NOT NULL,
        median_s SCORE NOT NULL,
        runs INTEGER NOT NULL,
        low_s SCORE,
        high_s SCORE,
        PRIMARY KEY (task, task_version, gpu)
    """,
    # The time of each ended run, with its `runner` if it had no job of its own; and the time of each ended runner
    # without a run, in which `run` is null. `limited` ones count for a limit on the GPU time of `user`.
    "usage": """
        run INTEGER UNIQUE REFERENCES runs (id),
        user TEXT NOT NULL,
        limited BOOLEAN NOT NULL,
        ended_at MOMENT NOT NULL,
        seconds NUMBER NOT NULL,
        gpu_seconds NUMBER NOT NULL,
        runner INTEGER REFERENCES runners (id)
    """,
}
"""The tables that follow from the facts, so that ranks need no scan of all runs."""

_WITHOUT_ROWID = frozenset({"teams", "entries", "bests", "reference_times", "board_references"})

_INDEXES = {
    "submissions_by_user": "submissions (user)",
    "submissions_by_entrant": "submissions (user, entrant) WHERE entrant <> ''",
    "submissions_by_parent": "submissions (parent) WHERE parent IS NOT NULL",
    "tags_by_value": "tags (key, value, submission)",
    "runs_by_submission": "runs (submission, gpu)",
    "events_by_run": "events (run)",
    "events_by_runner": "events (runner) WHERE runner IS NOT NULL",
    "runner_events_by_runner": "runner_events (runner)",
    "boards_by_name": "boards (name, id)",
    "decisions_by_subject": "decisions (kind, subject, id)",
    "remarks_by_submission": "remarks (submission, id)",
    "submissions_by_user_and_task": "submissions (user, task, submitted_at)",
    "scores_by_board": "scores (task, task_version, gpu, score_s, submitted_at, run)",
    "scores_by_user": "scores (task, task_version, gpu, user, score_s, submitted_at, run)",
    "scores_by_submission": "scores (submission)",
    "scores_by_entry": "scores (task, task_version, gpu, user, entry, score_s)",
    "entries_by_board": "entries (task, task_version, gpu, score_s, submitted_at, run)",
    "entries_by_user": "entries (task, task_version, gpu, user, score_s, submitted_at, run)",
    "bests_by_score": "bests (task, task_version, gpu, score_s, submitted_at, run)",
    "teams_by_team": "teams (task, team, user)",
    "feed_by_board": "feed (task, gpu)",
    "feed_by_task": "feed (task)",
    "feed_by_gpu": "feed (gpu)",
    "feed_by_user": "feed (user)",
    "milestones": "submissions (task, task_version) WHERE milestone <> ''",
    "submissions_by_code": "submissions (code_sha256, task, user)",
    "submissions_by_tokens": "submissions (user, task, task_version, tokens_sha256) WHERE tokens_sha256 IS NOT NULL",
    "submissions_by_time": "submissions (submitted_at)",
    "bests_by_user": "bests (user)",
    "submissions_by_version": "submissions (task, task_version, submitted_at)",
    "usage_by_user": "usage (user, limited, ended_at, gpu_seconds)",
    "usage_by_runner": "usage (runner, run) WHERE runner IS NOT NULL",
}

# Plain joins, so that SQLite starts from the requested rows: one run, one submission, or all of them. Remarks are read
# by index, for the listed rows only.
_VIEWS = (
    """
    CREATE VIEW passing_runs AS
    SELECT runs.id AS run, submissions.id AS submission, submissions.task, submissions.task_version, runs.gpu,
           submissions.user, results.score_s, results.score_low_s, results.score_high_s, submissions.submitted_at,
           submissions.milestone, results.reference_s,
           (SELECT MIN(same.id) FROM submissions AS same
             WHERE same.user = submissions.user AND same.task = submissions.task
               AND same.task_version = submissions.task_version
               AND same.tokens_sha256 = submissions.tokens_sha256) AS entry
      FROM runs
      JOIN submissions ON submissions.id = runs.submission
      JOIN results ON results.run = runs.id
     WHERE submissions.mode = 'ranked'
       AND results.verdict = 'pass' AND results.score_s IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM removed WHERE removed.submission = submissions.id)
       AND NOT EXISTS (SELECT 1 FROM late WHERE late.submission = submissions.id)
    """,
    """
    CREATE VIEW runner_details AS
    SELECT runners.*, events.state, events.at, events.job_id, events.node, events.reason, events.evidence,
           events.expected_start, events.ended_in_queue_at, events.unanswered, events.cancel_requested, events.attempt,
           events.runner,
           (SELECT MIN(at) FROM runner_events WHERE runner = runners.id AND state = 'running') AS started_at,
           (SELECT COUNT(DISTINCT run) FROM events WHERE runner = runners.id) AS runs
      FROM runners
      JOIN runner_events AS events
        ON events.id = (SELECT MAX(id) FROM runner_events AS newest WHERE newest.runner = runners.id)
    """,
    """
    CREATE VIEW run_details AS
    SELECT runs.id, runs.submission, submissions.task, submissions.task_version, submissions.user,
           submissions.file_name, runs.gpu, runs.cluster, runs.partition, submissions.mode,
           COALESCE(retries.token, runs.token) AS token, COALESCE(retries.nonce, runs.nonce) AS nonce,
           COALESCE(retries.number, 0) AS retry,
           (SELECT COUNT(*) FROM retries WHERE run = runs.id AND failed) AS failures,
           runs.trust, runs.emulated, runs.harness_sha256,
           submissions.code_sha256, submissions.note, submissions.milestone, runs.account, runs.options, runs.fresh,
           runs.repeats, submissions.entrant, submissions.parent,
           (SELECT json_group_array(json_array(key, value))
              FROM (SELECT * FROM tags WHERE submission = submissions.id ORDER BY key)) AS tags,
           submissions.submitted_at AS created_at,
           (SELECT due_at FROM late WHERE late.submission = submissions.id) AS due_at,
           events.state, events.at, events.job_id, events.node, events.reason, events.evidence,
           events.expected_start, events.ended_in_queue_at, events.unanswered, events.cancel_requested, events.attempt,
           events.runner,
           results.verdict, results.message, results.score_s, results.score_low_s, results.score_high_s,
           results.ended_at,
           reference.median_s, reference.runs AS reference_runs, reference.low_s, reference.high_s,
           (SELECT json_group_array(json_object('text', text, 'by_user', by_user, 'at', at))
              FROM (SELECT * FROM remarks WHERE submission = submissions.id AND action = 'note' ORDER BY id)) AS notes,
           (SELECT json_object('of_submission', CAST(text AS INTEGER), 'by_user', by_user, 'at', at)
              FROM remarks WHERE submission = submissions.id AND action = 'rerun') AS rerun,
           CASE WHEN EXISTS (SELECT 1 FROM removed WHERE removed.submission = submissions.id) THEN
               (SELECT json_object('by_user', by_user, 'at', at, 'reason', reason) FROM decisions
                 WHERE kind = 'submission' AND subject = CAST(submissions.id AS TEXT) AND action = 'remove'
                 ORDER BY id DESC LIMIT 1)
           END AS removal
      FROM runs
      JOIN submissions ON submissions.id = runs.submission
      JOIN events ON events.id = (SELECT MAX(newest.id) FROM events AS newest WHERE newest.run = runs.id)
      LEFT JOIN retries ON retries.run = runs.id
            AND retries.number = (SELECT MAX(number) FROM retries AS newest WHERE newest.run = runs.id)
      LEFT JOIN results ON results.run = runs.id
      LEFT JOIN board_references AS reference ON reference.task = submissions.task
            AND reference.task_version = submissions.task_version AND reference.gpu = runs.gpu
    """,
)

_TRIGGERS = tuple(
    f"CREATE TRIGGER {table}_stay BEFORE UPDATE ON {table} "
    f"BEGIN SELECT RAISE(ABORT, 'rows of {table} are never changed'); END"
    for table in _FACTS
)


def _declared(column: re.Match[str]) -> str:
    """Return the declaration of a column with the type and the check of its kind."""
    name, kind, more = column.groups()
    kind, check = _KINDS[kind]
    check = f" AND ({check.format(name)})" if check else ""
    return f"{name} {kind}{more} CHECK (typeof({name}) IN ('{kind.lower()}', 'null'){check})"


def create(db: Database) -> None:
    """Create the tables in an empty database."""
    for table, columns in {**_FACTS, **_DERIVED}.items():
        declared = re.sub(r"^ *([a-z0-9_]+) ([A-Z_]+)([^,\n]*)", _declared, columns, flags=re.MULTILINE)
        db.execute(f"CREATE TABLE {table} ({declared}){' WITHOUT ROWID' if table in _WITHOUT_ROWID else ''}")
    for index, columns in _INDEXES.items():
        db.execute(f"CREATE INDEX {index} ON {columns}")
    for statement in (*_TRIGGERS, *_VIEWS):
        db.execute(statement)
    db.execute("INSERT INTO secrets VALUES (?)", [secrets.token_hex()])
