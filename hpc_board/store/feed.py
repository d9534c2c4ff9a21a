"""The feed: one row for each run that improved its user's score, with its change of the leaderboard."""

import json
from collections.abc import Collection
from datetime import datetime
from typing import Any

from hpc_board.domain.feed import Entry, FeedEntry, News, news
from hpc_board.store import ranking
from hpc_board.store.row_values import decoded, decoded_json, time_text
from hpc_board.store.rows import row_id
from hpc_board.store.sqlite import Database, Row

_ENTRIES = """
SELECT feed.*, scores.submission, runs.emulated, {former} AS former_run
  FROM feed
 CROSS JOIN scores ON scores.run = feed.run
 CROSS JOIN runs ON runs.id = feed.run
 WHERE {where}
 ORDER BY feed.id DESC
 LIMIT :limit
"""


def enter(db: Database, counted: ranking.Score, at: datetime) -> None:
    """Enter a run on its leaderboard, and add an entry if it is its user's best."""
    former = ranking.former(db, counted.board, counted.user)
    podium = ranking.podium(db, counted.board)
    ranking.enter(db, counted)
    if former is not None and counted.score_s >= former[1]:
        return
    held = ranking.former(db, counted.board, counted.user)
    if held is None:
        raise RuntimeError(f"run {counted.run} counts, and its user is not on the board")
    beaten = ranking.passed_by(db, counted.board, counted.score_s, None if former is None else former[1])
    told = news(Entry(counted.user, counted.score_s), held[0], podium, former, beaten)
    db.insert("feed", _row(counted, told, at))


def feed(
    db: Database,
    *,
    task: str | None,
    gpu: str | None,
    user: str | None,
    before: int | None,
    limit: int,
    among: Collection[str] | None = None,
) -> tuple[FeedEntry, ...]:
    """Return entries as `StandingsGateway.feed` does."""
    given: dict[str, Any] = {"task": task, "gpu": gpu, "user": user}
    filters = {column: value for column, value in given.items() if value is not None}
    conditions = [f"feed.{column} = :{column}" for column in filters]
    if before is not None:
        conditions.append("feed.id < :before")
        filters["before"] = row_id(before)
    if among is not None:
        # The sign keeps SQLite from collecting all entries of these tasks before it takes the newest.
        conditions.append("+feed.task IN (SELECT value FROM json_each(:among))")
        filters["among"] = json.dumps(sorted(among))
    where = " AND ".join(conditions) or "TRUE"
    rows = db.query(_ENTRIES.format(former=ranking.FORMER_RUN, where=where), {**filters, "limit": limit})
    return tuple(map(_entry, rows))


def _row(counted: ranking.Score, told: News, at: datetime) -> dict[str, object]:
    return {
        "at": time_text(at),
        "kind": told.kind.value,
        "run": counted.run,
        **counted.board._asdict(),
        "user": counted.user,
        "rank": told.rank,
        "score_s": told.score_s,
        "former_rank": told.former_rank,
        "former_s": told.former_s,
        "beaten_user": told.beaten and told.beaten.user,
        "beaten_s": told.beaten and told.beaten.score_s,
        "fallen": json.dumps([[each.user, each.score_s] for each in told.fallen]),
    }


def _entry(row: Row) -> FeedEntry:
    beaten = Entry(row["beaten_user"], row["beaten_s"]) if row["beaten_user"] else None
    fallen = tuple(Entry(*each) for each in decoded_json(list[tuple[str, float]], row["fallen"]))
    return decoded(FeedEntry, {**row, "news": decoded(News, {**row, "beaten": beaten, "fallen": fallen})})
