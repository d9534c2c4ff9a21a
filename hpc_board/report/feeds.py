"""The feed as lines."""

from collections.abc import Iterable

from hpc_board.domain.feed import PODIUM, FeedEntry, FeedKind, News
from hpc_board.domain.standing import gain_text, ordinal
from hpc_board.domain.time_change import WITHIN_NOISE, change_text, exceeds
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Facts, Paragraph
from hpc_board.report.formatting import count_text, moment_text, score_text

_PLACES = {1: "first", 2: "second", 3: "third"}


def feed_lines(entries: Iterable[FeedEntry]) -> Facts | Paragraph:
    """Return one line for each entry, in the order given."""
    rows = tuple((moment_text(entry.at), feed_line(entry)) for entry in entries)
    return Facts(rows) if rows else Paragraph("No changes yet.")


def feed_line(entry: FeedEntry) -> str:
    """Return a change in words: "ada took first place on softmax_py, H100: 12.3 µs (was bob, 13.0 µs)"."""
    news, deed = entry.news, _deed(entry.news)
    where = f"{one_line(entry.task)}, {one_line(entry.gpu)}{' (emulated)' if entry.emulated else ''}"
    comma = "," if "," in deed else ""
    return f"{one_line(entry.author)} {deed}{comma} on {where}: {score_text(news.score_s)}{_told(entry)}"


def feed_change(entry: FeedEntry) -> str:
    """Return a change for a column beside the event: "1.06x faster than bob; 2nd to 1st place".

    The event says that a record is the first place, and the line in words names who left the first three.
    """
    news, before_s = entry.news, entry.news.replaced_s
    parts = []
    if before_s is not None:
        whom = one_line(news.beaten.user) if news.kind is FeedKind.RECORD and news.beaten is not None else ""
        is_noise = entry.change_spread is not None and not exceeds(before_s, news.score_s, entry.change_spread)
        noise, change = f"{WITHIN_NOISE} of {whom or 'the score before'}", change_text(before_s, news.score_s)
        parts.append(noise if is_noise else f"{change} than {whom or 'before'}")
    if news.is_first:
        parts.append("first score")
    elif news.former_rank is not None and news.rank < news.former_rank:
        parts.append(f"{ordinal(news.former_rank)} to {ordinal(news.rank)} place")
    elif news.former_rank is None and news.kind is not FeedKind.RECORD:
        parts.append(f"{ordinal(news.rank)} place")
    return "; ".join(parts)


def record_text(entry: FeedEntry) -> tuple[str, str]:
    """Return a new record in words, with its title: "Record on H100", "matmul 1.23 ms, by ada"."""
    words = f"{one_line(entry.task)} {score_text(entry.news.score_s)}, by {one_line(entry.author)}"
    return f"Record on {one_line(entry.gpu)}", words


def _told(entry: FeedEntry) -> str:
    told = "; ".join(filter(None, (_compared(entry), _fallen(entry.news))))
    return f" ({told})" if told else ""


def _deed(news: News) -> str:
    place = _PLACES.get(news.rank, f"{news.rank}th")
    if news.is_first:
        return "set the first score"
    if news.kind is FeedKind.RECORD:
        return "improved first place" if news.former_rank == 1 and not news.beaten else "took first place"
    if news.kind is FeedKind.PODIUM:
        return "shares first place" if news.rank == 1 else f"took {place} place"
    if news.kind is FeedKind.FIRST:
        return f"passed for the first time, rank {news.rank}"
    return f"set a personal best, rank {news.rank}"


def _compared(entry: FeedEntry) -> str:
    """Return the former holder of the record or the next user of the first three, else the user's former best."""
    news = entry.news
    if news.rank <= PODIUM and news.beaten is not None:
        # Several users can share a place that is not a record, so the next one need not have held it.
        other = f"{one_line(news.beaten.user)}, {score_text(news.beaten.score_s)}"
        if news.kind is not FeedKind.RECORD:
            return f"ahead of {other}"
        return f"was {other}: {change_text(news.beaten.score_s, news.score_s, entry.change_spread)}"
    if news.former_s is not None:
        return gain_text(news.score_s, news.rank, news.former_s, news.former_rank, entry.change_spread)
    return ""


def _fallen(news: News) -> str:
    names = [one_line(each.user) for each in news.fallen]
    if len(names) > PODIUM:
        names = [*names[:PODIUM], count_text(len(names) - PODIUM, "other")]
    return f"no longer in the top three: {', '.join(names)}" if names else ""
