"""The feed: one row for each run that improved its user's score, with its change of the leaderboard."""

from datetime import datetime

from hpc_board.domain.feed import Entry, FeedEntry, News, news
from hpc_board.store import ranking
from hpc_board.store.row_values import decoded, decoded_json, encoded_json, time_text
from hpc_board.store.sqlite import Database, Row

ENTRIES = """
SELECT feed.*, scores.submission, scores.user AS submitter, runs.emulated,
       iif(feed.user = submissions.user, submissions.entrant, '') AS entrant,
       CASE WHEN json_extract(feed.news, '$.kind') = 'record' AND json_extract(feed.news, '$.beaten.user') IS NOT NULL
            THEN {beaten} ELSE {former} END AS former_run
  FROM feed
 CROSS JOIN scores ON scores.run = feed.run
 CROSS JOIN runs ON runs.id = feed.run
 CROSS JOIN submissions ON submissions.id = scores.submission
 WHERE {where}
 ORDER BY feed.id DESC
 LIMIT :limit OFFSET :offset
"""


def enter(db: Database, counted: ranking.Score, at: datetime) -> None:
    """Enter a run on its leaderboard, and add a line if it is the first one of its code and its user's or team's best.

    Further runs of the same code move the median up and down.
    """
    former = ranking.former(db, counted.board, counted.user)
    podium = ranking.podium(db, counted.board)
    ranking.enter(db, counted)
    held = ranking.former(db, counted.board, counted.user)
    if held is None:
        raise RuntimeError(f"run {counted.run} counts, but its user is not on the board")
    rank, score_s = held
    if ranking.runs_of_code(db, counted) > 1 or (former is not None and score_s >= former[1]):
        return
    beaten = ranking.passed_by(db, counted.board, score_s, None if former is None else former[1])
    user = ranking.ranked_as(db, counted.board.task, counted.user)
    told = news(Entry(user, score_s), rank, podium, former, beaten)
    db.insert("feed", _row(counted, user, told, at))


def _row(counted: ranking.Score, user: str, told: News, at: datetime) -> dict[str, object]:
    return {
        "at": time_text(at),
        "run": counted.run,
        **counted.board._asdict(),
        "user": user,
        "former_rank": told.former_rank,
        "former_s": told.former_s,
        "news": encoded_json(told),
    }


def entry(row: Row) -> FeedEntry:
    """Return the entry in a row of `ENTRIES`."""
    return decoded(FeedEntry, {**row, "news": decoded_json(News, row["news"])})
