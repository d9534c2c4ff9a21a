"""The database as one reader may see it: without others' submissions after a freeze, with pseudonyms for users.

A transaction of such a reader has temporary views with the names of the tables and views that hold these rows; SQLite
finds them first. So every query of every gateway answers within these bounds, and none has to know of them. Writing
sees the tables themselves, and so does the query for milestones, which names `main.submissions` for its index.
"""

import hmac
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

import msgspec

from hpc_board.domain.roles import GROUP, TEAM_PSEUDONYM
from hpc_board.store.database import DatabaseFile
from hpc_board.store.row_values import encoded_json, time_text
from hpc_board.store.sqlite import Database, Row

_PSEUDONYM_DIGITS = 8

# A milestone is its author's, and no result of a participant.
_WITHHELD = """
INSERT INTO temp.withheld
SELECT id FROM main.submissions
 WHERE task = ? AND submitted_at > ? AND milestone = '' AND user NOT IN (SELECT value FROM json_each(?))
"""

_BOARD_AND_USER = "task, task_version, gpu, user"
_SAME_USER = "one.task = row.task AND one.task_version = row.task_version AND one.gpu = row.gpu AND one.user = row.user"
_SAME_RANKED = _SAME_USER.replace("one.user", "one.ranked")
_WITHHELD_OF_ENTRY = f"""
EXISTS (SELECT 1 FROM temp.withheld_scores AS one WHERE {_SAME_USER} AND one.entry = row.entry)
"""  # noqa: S608 - our names
_FROZEN_BOARD = """
EXISTS (SELECT 1 FROM temp.withheld_scores AS one
         WHERE one.task = row.task AND one.task_version = row.task_version AND one.gpu = row.gpu)
"""
_FROZEN = "EXISTS (SELECT 1 FROM temp.frozen_users AS one WHERE {0})"

# The users who have withheld scores, and all members of their teams.
_FROZEN_USERS = """
CREATE TEMP TABLE frozen_users AS
WITH one AS (SELECT DISTINCT row.task, row.task_version, row.gpu, row.user, teams.team
               FROM temp.withheld_scores AS row
               LEFT JOIN main.teams ON teams.user = row.user AND teams.task = row.task)
SELECT task, task_version, gpu, user, COALESCE(team, user) AS ranked FROM one
 UNION
SELECT one.task, one.task_version, one.gpu, teams.user, teams.team
  FROM one JOIN main.teams ON teams.task = one.task AND teams.team = one.team
"""

_WITHHELD_SCORES = """
CREATE TEMP TABLE withheld_scores AS
SELECT row.run, row.task, row.task_version, row.gpu, row.user, row.entry
  FROM temp.withheld
 CROSS JOIN main.scores AS row ON row.submission = withheld.submission
"""

_FROZEN_ENTRIES = f"""
CREATE TEMP TABLE frozen_entries AS
SELECT row.*
  FROM temp.frozen_users AS one
 CROSS JOIN main.entries AS row ON {_SAME_USER}
 WHERE NOT {_WITHHELD_OF_ENTRY}
"""  # noqa: S608 - our names

_LEFT_OF_ENTRIES = f"""
SELECT row.*
  FROM (SELECT DISTINCT {_BOARD_AND_USER}, entry FROM temp.withheld_scores) AS one
 CROSS JOIN main.scores AS row ON {_SAME_USER} AND one.entry = row.entry
 WHERE row.run NOT IN (SELECT run FROM temp.withheld_scores)
 ORDER BY row.task, row.task_version, row.gpu, row.user, row.entry, row.score_s, row.submitted_at, row.run
"""  # noqa: S608 - our names

_FROZEN_BESTS = f"""
CREATE TEMP TABLE frozen_bests AS
SELECT *
  FROM (SELECT row.*, ROW_NUMBER() OVER (PARTITION BY {_BOARD_AND_USER} ORDER BY score_s, submitted_at, run) AS place
          FROM temp.frozen_entries AS row
         WHERE EXISTS (SELECT 1 FROM temp.frozen_users AS one WHERE {_SAME_USER} AND one.ranked = one.user))
 WHERE place = 1
"""  # noqa: S608 - our names

_FROZEN_TEAMS = """
SELECT task, task_version, gpu, ranked, json_group_array(user) AS members
  FROM temp.frozen_users
 WHERE ranked <> user
 GROUP BY task, task_version, gpu, ranked
"""


class Withheld(msgspec.Struct, frozen=True):
    """The bounds of a reader on a leaderboard.

    Submissions of others after `frozen_at` are withheld, if it is not None. With a `scope`, others have pseudonyms,
    which are the same on all leaderboards of that scope; `teams` has the team of each member, whose pseudonym it is.
    All but the names in `own`, those of the reader, the reader's team and its members, are others.
    """

    frozen_at: datetime | None
    scope: str | None
    own: frozenset[str]
    teams: Mapping[str, str]

    @classmethod
    def of(cls, reader: str, frozen_at: datetime | None, scope: str | None, teams: Mapping[str, str]) -> "Withheld":
        """Return the bounds of the user `reader` on a leaderboard with these teams."""
        team = teams.get(reader, reader)
        return cls(frozen_at, scope, frozenset({reader, team, *(user for user in teams if teams[user] == team)}), teams)


class Reader(msgspec.Struct, frozen=True):
    """A user with the bounds of their reading, by leaderboard; `key` is the secret that pseudonyms derive from."""

    name: str
    withheld: Mapping[str, Withheld] = msgspec.field(default_factory=dict)
    key: str = ""

    def is_anonymous(self, task: str, user: str) -> bool:
        """Return whether a user or team is another one, on an anonymous leaderboard."""
        bounds = self.withheld.get(task)
        return bounds is not None and bounds.scope is not None and user not in bounds.own

    def shown_user(self, task: str, user: str) -> str:
        """Return the name of a user or team, or the pseudonym of a team or of a user without one.

        No account has a space in its name.
        """
        if not self.is_anonymous(task, user):
            return user
        ranked = self.withheld[task].teams.get(user, user)
        return f"{TEAM_PSEUDONYM if ranked.startswith(GROUP) else 'user '}{self._digits(task, ranked)}"

    def shown_entrant(self, task: str, user: str, entrant: str) -> str:
        """Return the name or the pseudonym of a user's entrant; empty for an anonymous member of a team."""
        if not entrant or not self.is_anonymous(task, user):
            return entrant
        return "" if user in self.withheld[task].teams else self._digits(task, user, entrant)

    def shown_text(self, task: str, user: str, text: str) -> str:
        """Return a text of a user's, which is empty for an anonymous one."""
        return "" if self.is_anonymous(task, user) else text

    def shown_name(self, task: str, user: str, name: str) -> str:
        """Return a hash of code or the name of a job; an anonymous user's is another one, with the same array index."""
        if not self.is_anonymous(task, user):
            return name
        array, dot, index = name.partition(".")
        return _digest(self.key, self._scope(task), array)[: len(array)] + dot + index

    def shown_holder(self, user: str) -> str:
        """Return the user of a runner; "" for another one if a leaderboard is anonymous, whose runs may be there."""
        return "" if user != self.name and any(each.scope for each in self.withheld.values()) else user

    def shown_runs(self, user: str, runs: int) -> int:
        """Return the number of runs at a runner of the reader's; 0 for another one, which runs after a freeze use."""
        return runs if user == self.name else 0

    def shown_news(self, task: str, text: str) -> str:
        """Return the news of an entry of the feed, in which others whom it passed have pseudonyms."""
        if self._scope(task) is None:
            return text
        news = msgspec.json.decode(text)
        for entry in filter(None, (news.get("beaten"), *news.get("fallen", ()))):
            entry["user"] = self.shown_user(task, entry["user"])
        return encoded_json(news)

    def is_frozen(self, task: str, at: str) -> bool:
        """Return whether a time is after the freeze of a leaderboard."""
        bounds = self.withheld.get(task)
        return bounds is not None and bounds.frozen_at is not None and at > time_text(bounds.frozen_at)

    def _scope(self, task: str) -> str | None:
        bounds = self.withheld.get(task)
        return None if bounds is None else bounds.scope

    def _digits(self, task: str, *names: str) -> str:
        return pseudonym_digest(self.key, self._scope(task), *names)


def pseudonym_digest(key: str, scope: str | None, *names: str) -> str:
    """Return the digits of a pseudonym in a scope; that of exports is None."""
    return _digest(key, scope, *names)[:_PSEUDONYM_DIGITS]


def _digest(key: str, scope: str | None, *names: str) -> str:
    return hmac.digest(key.encode(), msgspec.json.encode((scope, *names)), "sha256").hex()


class ReaderFile(DatabaseFile):
    """The door to the same database as `whole`, with its connections, for the reader that `reader` returns."""

    def __init__(self, whole: DatabaseFile, reader: Callable[[Database], Reader]) -> None:
        super().__init__(whole.path, whole.mounts, whole.busy_timeout_seconds, whole.sessions)
        self._reader = reader

    @contextmanager
    def reading(self) -> Iterator[Database]:
        """Open the database for one call within the bounds of the reader, which are of the same state."""
        with super().reading() as db:
            reader = self._reader(db)
            if reader.withheld:
                _create_views(db, reader)
            yield db
            # The views end with the transaction, which has written nothing else.
            db.connection.rollback()


def _create_views(db: Database, reader: Reader) -> None:
    """Put the views of a reader before the tables until the transaction is undone."""
    # A full disk hinders no reader.
    db.execute("PRAGMA temp_store = MEMORY")
    functions = (reader.is_anonymous, reader.is_frozen, reader.shown_user, reader.shown_text, reader.shown_news)
    of_jobs = (reader.shown_entrant, reader.shown_name, reader.shown_holder, reader.shown_runs)
    for function in (*functions, *of_jobs):
        db.connection.create_function(function.__name__, -1, function, deterministic=True)
    db.execute("CREATE TEMP TABLE withheld (submission INTEGER PRIMARY KEY)")
    for task, bounds in reader.withheld.items():
        if bounds.frozen_at is not None:
            db.execute(_WITHHELD, [task, time_text(bounds.frozen_at), encoded_json(sorted(bounds.own))])
    texts = {column: f"shown_text(row.task, row.user, row.{column})" for column in ("file_name", "note")}
    texts["code_sha256"] = "shown_name(row.task, row.user, row.code_sha256)"
    shown = {"user": _USER, "entrant": "shown_entrant(row.task, row.user, row.entrant)"}
    _view(db, "submissions", shown | texts, "row.id NOT IN temp.withheld")
    token, nonce = "shown_name(s.task, s.user, row.token)", "shown_text(s.task, s.user, row.nonce)"
    account = _OF_SUBMISSION.format("shown_text(s.task, s.user, row.account)")
    names = {"token": _OF_SUBMISSION.format(token), "nonce": _OF_SUBMISSION.format(nonce)}
    _view(db, "runs", {**names, "account": account}, _IS_SHOWN)
    _view(db, "retries", {"token": _OF_RUN.format(token), "nonce": _OF_RUN.format(nonce)}, _RUN_IS_SHOWN)
    # Runs at one runner have its user, and its job.
    of_runner = {
        "job_id": _OF_RUN.format("shown_text(s.task, s.user, row.job_id)"),
        "runner": f"CASE WHEN {_OF_RUN.format('is_anonymous(s.task, s.user)')} THEN NULL ELSE row.runner END",
    }
    _view(db, "events", of_runner, _RUN_IS_SHOWN)
    of_other = _OF_SUBMISSION.format("is_anonymous(s.task, s.user)")
    _view(db, "tags", {}, f"NOT {of_other}")
    _view(db, "remarks", {}, f"NOT (row.action = 'note' AND {of_other})")
    _view(db, "scores", {"user": _USER}, _IS_SHOWN)
    # The news of an own run names those whom it passed.
    news = {"user": _USER, "news": "shown_news(row.task, row.news)"}
    _view(db, "feed", news, "NOT is_frozen(row.task, row.at)")
    # With the sizes of groups, the number of its members would name a team.
    _view(db, "reference_times", {}, _RUN_IS_SHOWN)
    _view(db, "teams", {}, "NOT is_anonymous(row.task, row.user)")
    _freeze(db)
    of_holder = {"user": "shown_holder(row.user)", "runs": "shown_runs(row.user, row.runs)"}
    _view(db, "runner_details", of_holder, "TRUE")
    text = db.value("SELECT sql FROM main.sqlite_master WHERE name = 'run_details'")
    db.execute(text.replace("CREATE VIEW", "CREATE TEMP VIEW", 1))


_USER = "shown_user(row.task, row.user)"
_IS_SHOWN = "row.submission NOT IN temp.withheld"
_OF_SUBMISSION = "(SELECT {0} FROM main.submissions AS s WHERE s.id = row.submission)"
_OF_RUN = "(SELECT {0} FROM main.runs AS r JOIN main.submissions AS s ON s.id = r.submission WHERE r.id = row.run)"
_RUN_IS_SHOWN = "(SELECT submission FROM main.runs AS r WHERE r.id = row.run) NOT IN temp.withheld"


def _freeze(db: Database) -> None:
    """Create the views of entries, bests and references, which lose the runs of withheld submissions."""
    from hpc_board.store.ranking import best_of_members, board_of, entry_rows, reference_row

    db.execute(_WITHHELD_SCORES)
    db.execute(f"CREATE INDEX temp.withheld_by_entry ON withheld_scores ({_BOARD_AND_USER}, entry)")
    if db.row("temp.withheld_scores", "TRUE", ()) is None:
        for table in ("entries", "bests"):
            _view(db, table, {"user": _USER}, "TRUE")
        return
    db.execute(_FROZEN_USERS)
    for name in ("user", "ranked"):
        db.execute(f"CREATE INDEX temp.frozen_by_{name} ON frozen_users (task, task_version, gpu, {name})")
    db.execute(_FROZEN_ENTRIES)
    for row in entry_rows(db.query(_LEFT_OF_ENTRIES)):
        _insert(db, "temp.frozen_entries", row)
    db.execute(f"CREATE INDEX temp.frozen_entries_by_user ON frozen_entries ({_BOARD_AND_USER}, score_s)")
    db.execute(_FROZEN_BESTS)
    for team in list(db.query(_FROZEN_TEAMS)):
        members, counts = msgspec.json.decode(team["members"], type=list[str]), "submission NOT IN temp.withheld"
        best = best_of_members(db, board_of(team), members, entries="temp.frozen_entries", counts=counts)
        if best is not None:
            _insert(db, "temp.frozen_bests", {**best, "user": team["ranked"]})
    db.execute("CREATE TEMP TABLE frozen_board_references AS SELECT * FROM main.board_references WHERE FALSE")
    for row in list(db.query("SELECT DISTINCT task, task_version, gpu FROM temp.withheld_scores")):
        if (reference := reference_row(db, board_of(row))) is not None:
            _insert(db, "temp.frozen_board_references", reference)
    _view(db, "board_references", {}, f"NOT {_FROZEN_BOARD}", has_frozen=True)
    for table, same in (("entries", _SAME_USER), ("bests", _SAME_RANKED)):
        _view(db, table, {"user": _USER}, f"NOT {_FROZEN.format(same)}", has_frozen=True)


def _insert(db: Database, table: str, row: Row) -> None:
    names = ", ".join(f":{name}" for name in row)
    db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({names})", row)  # noqa: S608 - our names


def _view(db: Database, table: str, shown: Mapping[str, str], where: str, *, has_frozen: bool = False) -> None:
    """Create a view in the place of a table, with the columns that are `shown` otherwise, and the rows of `where`.

    If it `has_frozen` rows, those of the frozen table follow.
    """
    names = [row["name"] for row in db.query(f"PRAGMA main.table_info({table})")]
    columns = ", ".join(f"{shown.get(name, f'row.{name}')} AS {name}" for name in names)
    text = f"CREATE TEMP VIEW {table} AS SELECT {columns} FROM main.{table} AS row WHERE {where}"  # noqa: S608
    if has_frozen:
        text += f" UNION ALL SELECT {columns} FROM temp.frozen_{table} AS row"  # noqa: S608
    db.execute(text)
