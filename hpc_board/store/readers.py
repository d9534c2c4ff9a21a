"""The database as one reader may see it: without others' submissions after a freeze, with pseudonyms for users.

A transaction of such a reader has temporary views with the names of the tables and views that hold these rows; SQLite
finds them first. So every query of every gateway answers within these bounds, and none has to know of them. Writing
sees the tables themselves.
"""

import hmac
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from sqlite3 import Connection

import msgspec

from hpc_board.store.database import DatabaseFile
from hpc_board.store.row_values import optional_time_text
from hpc_board.store.sqlite import Database

_PSEUDONYM_DIGITS = 8

_OTHERS = "FROM temp.withheld AS w WHERE w.task = {0}.task AND {0}.user <> w.reader"
_IS_WITHHELD = f"EXISTS (SELECT 1 {_OTHERS} AND {{0}}.submitted_at > w.frozen_at)"
_SCOPE = f"(SELECT w.scope {_OTHERS})"
_IS_ANONYMOUS = f"EXISTS (SELECT 1 {_OTHERS} AND w.scope IS NOT NULL)"
_USER = f"CASE WHEN {_IS_ANONYMOUS} THEN pseudonym({_SCOPE}, {{0}}.user) ELSE {{0}}.user END"
_ENTRANT = f"CASE WHEN {{0}}.entrant <> '' AND {_IS_ANONYMOUS} THEN entrant_pseudonym({_SCOPE}, {{0}}.user, "
_ENTRANT += "{0}.entrant) ELSE {0}.entrant END"

# A milestone is its author's, and no result of a participant.
_SUBMISSION_IS_WITHHELD = f"{{0}}.milestone = '' AND {_IS_WITHHELD}"

_OF_SUBMISSION = "EXISTS (SELECT 1 FROM main.submissions AS s WHERE s.id = row.submission AND {0})"
_OF_OTHER = _OF_SUBMISSION.format(_IS_ANONYMOUS.format("s"))

_BOARD_AND_USER = "task, task_version, gpu, user"
_SAME_USER = "one.task = row.task AND one.task_version = row.task_version AND one.gpu = row.gpu AND one.user = row.user"
_AMONG_WITHHELD = "EXISTS (SELECT 1 FROM temp.withheld_scores AS one WHERE {0})"
_WITHHELD_OF_USER = _AMONG_WITHHELD.format(_SAME_USER)
_WITHHELD_OF_ENTRY = _AMONG_WITHHELD.format(f"{_SAME_USER} AND one.entry = row.entry")

_WITHHELD_SCORES = f"""
CREATE TEMP TABLE withheld_scores AS
SELECT row.run, row.task, row.task_version, row.gpu, row.user, row.entry
  FROM temp.withheld
 CROSS JOIN main.submissions AS s ON s.task = withheld.task AND {_SUBMISSION_IS_WITHHELD.format("s")}
 CROSS JOIN main.scores AS row ON row.submission = s.id
"""  # noqa: S608 - our names

_FROZEN_ENTRIES = f"""
CREATE TEMP TABLE frozen_entries AS
SELECT row.*
  FROM (SELECT DISTINCT {_BOARD_AND_USER} FROM temp.withheld_scores) AS one
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

_FROZEN_BESTS = """
CREATE TEMP TABLE frozen_bests AS
SELECT *, ROW_NUMBER() OVER (PARTITION BY task, task_version, gpu, user ORDER BY score_s, submitted_at, run) AS place
  FROM temp.frozen_entries
"""


class Withheld(msgspec.Struct, frozen=True):
    """The bounds of a reader on the leaderboard `task`.

    Submissions of others after `frozen_at` are withheld, if it is not None. With a `scope`, others have pseudonyms,
    which are the same on all leaderboards of that scope.
    """

    task: str
    frozen_at: datetime | None
    scope: str | None


class Reader(msgspec.Struct, frozen=True):
    """A user with the bounds of their reading; `key` is the secret that pseudonyms derive from."""

    name: str
    withheld: tuple[Withheld, ...] = ()
    key: str = ""

    def pseudonym(self, scope: str, user: str) -> str:
        """Return the pseudonym of a user; no account has a space in its name."""
        return f"user {self._digits(scope, user)}"

    def entrant_pseudonym(self, scope: str, user: str, entrant: str) -> str:
        """Return the pseudonym of a user's entrant."""
        return self._digits(scope, user, entrant)

    def _digits(self, *names: str) -> str:
        message = msgspec.json.encode(names)
        return hmac.digest(self.key.encode(), message, "sha256").hex()[:_PSEUDONYM_DIGITS]


class ReaderFile(DatabaseFile):
    """The door to the database for the reader that `reader` returns; without bounds it is the door `whole`."""

    def __init__(self, whole: DatabaseFile, reader: Callable[[], Reader]) -> None:
        super().__init__(whole.path, whole.mounts, whole.busy_timeout_seconds)
        self._whole = whole
        self._reader = reader

    @contextmanager
    def session(self) -> Iterator[None]:
        """Keep both connections open, as `DatabaseFile.session` does."""
        with self._whole.session(), super().session():
            yield

    def rest(self) -> None:
        """Close both connections of this thread's session until its next transaction."""
        self._whole.rest()
        super().rest()

    @contextmanager
    def reading(self) -> Iterator[Database]:
        """Open the database for one call within the bounds of the reader."""
        reader = self._reader()
        if not reader.withheld:
            with self._whole.reading() as db:
                yield db
            return
        with super().reading() as db, _views(db, reader):
            yield db

    @contextmanager
    def writing(self) -> Iterator[Database]:
        """Open the database for one transaction, without bounds."""
        with self._whole.writing() as db:
            yield db

    def _connect(self, options: str = "mode=rw") -> Connection:
        connection = super()._connect(options)
        # A full disk hinders no reader.
        connection.execute("PRAGMA temp_store = MEMORY")
        return connection


@contextmanager
def _views(db: Database, reader: Reader) -> Iterator[None]:
    """Put the views of a reader before the tables until the end of the transaction."""
    for function, number in ((reader.pseudonym, 2), (reader.entrant_pseudonym, 3)):
        db.connection.create_function(function.__name__, number, function, deterministic=True)
    db.connection.create_function("shown_news", 2, partial(_shown_news, reader), deterministic=True)
    db.execute("SAVEPOINT views")
    try:
        db.execute("CREATE TEMP TABLE withheld (task TEXT PRIMARY KEY, frozen_at TEXT, scope TEXT, reader TEXT)")
        rows = [(each.task, optional_time_text(each.frozen_at), each.scope, reader.name) for each in reader.withheld]
        db.connection.executemany("INSERT INTO temp.withheld VALUES (?, ?, ?, ?)", rows)
        _create_views(db)
        yield
    finally:
        db.execute("ROLLBACK TO views")
        db.execute("RELEASE views")


def _create_views(db: Database) -> None:
    hidden = _SUBMISSION_IS_WITHHELD
    shown = {"user": _USER, "entrant": _ENTRANT, "file_name": _unless_anonymous("file_name")}
    _view(db, "submissions", shown | {"note": _unless_anonymous("note")}, f"NOT ({hidden.format('row')})")
    account = f"CASE WHEN {_OF_OTHER} THEN '' ELSE row.account END"
    _view(db, "runs", {"account": account}, f"NOT {_OF_SUBMISSION.format(hidden.format('s'))}")
    _view(db, "tags", {}, f"NOT {_OF_OTHER}")
    _view(db, "remarks", {}, f"NOT (row.action = 'note' AND {_OF_OTHER})")
    _view(db, "scores", {"user": _USER}, f"NOT {_IS_WITHHELD.format('row')}")
    # The news of an own run names those whom it passed.
    news = {"user": _USER, "news": f"coalesce(shown_news({_SCOPE_OF_BOARD}, row.news), row.news)"}
    _view(db, "feed", news, f"NOT EXISTS (SELECT 1 {_OF_BOARD} AND row.at > w.frozen_at)")
    _freeze(db)
    text = db.value("SELECT sql FROM main.sqlite_master WHERE name = 'run_details'")
    db.execute(text.replace("CREATE VIEW", "CREATE TEMP VIEW", 1))


_OF_BOARD = "FROM temp.withheld AS w WHERE w.task = row.task"
_SCOPE_OF_BOARD = f"(SELECT w.scope {_OF_BOARD})"


def _unless_anonymous(column: str) -> str:
    return f"CASE WHEN {_IS_ANONYMOUS} THEN '' ELSE {{0}}.{column} END"


def _freeze(db: Database) -> None:
    """Create the views of entries and bests, which lose the runs of withheld submissions."""
    from hpc_board.store.ranking import entry_rows

    db.execute(_WITHHELD_SCORES)
    db.execute(f"CREATE INDEX temp.withheld_by_entry ON withheld_scores ({_BOARD_AND_USER}, entry)")
    if db.row("temp.withheld_scores", "TRUE", ()) is None:
        for table in ("entries", "bests"):
            _view(db, table, {"user": _USER}, "TRUE")
        return
    db.execute(_FROZEN_ENTRIES)
    for row in entry_rows(db.query(_LEFT_OF_ENTRIES)):
        names = ", ".join(f":{name}" for name in row)
        db.execute(f"INSERT INTO temp.frozen_entries ({', '.join(row)}) VALUES ({names})", row)  # noqa: S608
    db.execute(_FROZEN_BESTS)
    for table, frozen in (("entries", "TRUE"), ("bests", "row.place = 1")):
        _view(db, table, {"user": _USER}, f"NOT {_WITHHELD_OF_USER}", others=frozen)


def _view(db: Database, table: str, shown: Mapping[str, str], where: str, *, others: str = "") -> None:
    """Create a view in the place of a table, with the columns that are `shown` otherwise, and the rows of `where`.

    With `others`, these rows of the frozen table follow.
    """
    names = [row["name"] for row in db.query(f"PRAGMA main.table_info({table})")]
    columns = ", ".join(f"{shown[name].format('row')} AS {name}" if name in shown else f"row.{name}" for name in names)
    text = f"CREATE TEMP VIEW {table} AS SELECT {columns} FROM main.{table} AS row WHERE {where}"  # noqa: S608
    if others:
        text += f" UNION ALL SELECT {columns} FROM temp.frozen_{table} AS row WHERE {others}"  # noqa: S608
    db.execute(text)


def _shown_news(reader: Reader, scope: str | None, text: str) -> str | None:
    """Return the news of an entry of the feed with pseudonyms; None without a scope."""
    if scope is None:
        return None
    news = msgspec.json.decode(text)
    for entry in filter(None, (news.get("beaten"), *news.get("fallen", ()))):
        if entry["user"] != reader.name:
            entry["user"] = reader.pseudonym(scope, entry["user"])
    return msgspec.json.encode(news).decode()
