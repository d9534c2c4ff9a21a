"""Formatting of times, moments, counts and messages."""

from datetime import datetime, timedelta

from hpc_board.domain.clock import span_words
from hpc_board.domain.reference import Reference, Speedup
from hpc_board.domain.score_interval import full_score_text
from hpc_board.domain.time_change import ratio_text
from hpc_board.model.result import WIDE_INTERVAL
from hpc_board.model.score import duration_text
from hpc_board.model.task import Ranking
from hpc_board.model.text import one_line, printable
from hpc_board.report.blocks import Tone

RANKING_WORDS = {
    Ranking.LAST: "the last benchmark",
    Ranking.MEAN: "the arithmetic mean of the benchmarks",
    Ranking.GEOM: "the geometric mean of the benchmarks",
}
"""The times by which a task ranks, in words."""

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def score_text(score_s: float | None) -> str:
    """Return a score with its unit; empty for None."""
    return "" if score_s is None else duration_text(score_s * 1e9)


def speedup_text(speedup: float | None) -> str:
    """Return a speedup over the reference; empty if unknown."""
    return "" if speedup is None else ratio_text(speedup)


def speedup_fact(speedup: Speedup, reference: Reference) -> tuple[str, str]:
    """Return a speedup with its interval and the reference as a fact."""
    text = full_speedup_text(speedup.ratio, speedup.low, speedup.high)
    return "speedup", f"{text} over the task's reference, {reference_text(reference)}"


def full_speedup_text(speedup: float, low: float | None, high: float | None) -> str:
    """Return a speedup, with its interval if that is wide: "2.31x (2.10x to 2.52x)"."""
    is_wide = low is not None and high is not None and high - low > WIDE_INTERVAL * speedup
    return speedup_text(speedup) + (f" ({speedup_text(low)} to {speedup_text(high)})" if is_wide else "")


def reference_text(reference: Reference) -> str:
    """Return the time of a reference with its interval and the number of runs."""
    time = full_score_text(reference.median_s, reference.interval)
    return f"{time} in 1 ranked run" if reference.runs == 1 else f"{time}, the median of {reference.runs:,} ranked runs"


def speedup_tone(speedup: float | None) -> Tone:
    """Return the tone of a speedup: bad if it is slower than the reference."""
    return Tone.BAD if speedup is not None and speedup < 1 else Tone.PLAIN


def moment_text(moment: datetime | None) -> str:
    """Return a moment in the reader's time zone, to the minute; empty for None."""
    return "" if moment is None else moment.astimezone().strftime("%Y-%m-%d %H:%M")


def span_text(length: timedelta) -> str:
    """Return a length of time in its largest unit: "12 s", "3 min", "5 h", "2 d"."""
    seconds = max(0, int(length.total_seconds()))
    for limit, unit, size in ((60, "s", 1), (3600, "min", 60), (48 * 3600, "h", 3600)):
        if seconds < limit:
            return f"{seconds // size} {unit}"
    return f"{seconds // 86400} d"


def late_text(seconds: float | None) -> str:
    """Return the time by which a submission missed its deadline: "late by 2 h"; empty for None."""
    return "" if seconds is None else f"late by {span_words(seconds)}"


def bytes_text(count: int) -> str:
    """Return a number of bytes in its largest binary unit: "512 MiB", "1.2 GiB"."""
    for unit, size in (("TiB", 2**40), ("GiB", 2**30)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 2**20:.0f} MiB" if count >= 2**20 else f"{count / 1024:.0f} KiB"


def count_text(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is one."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def telling_line(message: str, limit: int = 500) -> str:
    """Return the main line of a message: the exception's line of a traceback, else the first."""
    lines = [line for line in printable(message, len(message)).splitlines() if line.strip()]
    if not lines:
        return ""
    if not lines[0].lstrip().startswith("Traceback (most recent call last)"):
        return one_line(lines[0], limit)
    last_frame = max((number for number, line in enumerate(lines) if line.startswith('  File "')), default=0)
    # The message of the exception may have several lines.
    unindented = (line for line in lines[last_frame + 1 :] if not line[0].isspace())
    return one_line(next(unindented, lines[-1]), limit)


def amount_text(value: float) -> str:
    """Return a number with a unit prefix: "3.35 T"."""
    for prefix in _PREFIXES[:-1]:
        if value < 1000:
            return f"{value:.3g} {prefix}"
        value /= 1000
    return f"{value:.3g} {_PREFIXES[-1]}"
