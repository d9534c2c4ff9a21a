"""Values in words, short enough for a column: states, ages, deadlines, scores."""

from datetime import datetime, timedelta

from hpc_board.domain.run import Run, RunState
from hpc_board.model.gpu import Availability
from hpc_board.model.result import Verdict
from hpc_board.model.score import duration_text
from hpc_board.model.task import Language, Mode, Ranking, Task
from hpc_board.report.formatting import span_text
from hpc_board.report.run_columns import outcome
from hpc_board.report.run_words import age
from hpc_board.tui.palette import Tone

MODE_HELP = {
    Mode.TEST: "is it correct? Runs the test cases",
    Mode.BENCHMARK: "how fast is it? Does not count on the board",
    Mode.PROFILE: "where does the time go? Does not count on the board",
    Mode.RANKED: "tests, then benchmarks; a pass counts on the board",
}

RANKED_BY = {
    Ranking.LAST: "the last benchmark",
    Ranking.MEAN: "the arithmetic mean",
    Ranking.GEOM: "the geometric mean",
}

MARKED = "*"
"""The sign in front of what was chosen to be compared."""

_LANGUAGES_CELLS = 5

_TONES = {
    RunState.CREATED: Tone.WAITING,
    RunState.SUBMITTING: Tone.WAITING,
    RunState.QUEUED: Tone.WAITING,
    RunState.RUNNING: Tone.ACCENT,
    RunState.COLLECTING: Tone.ACCENT,
    RunState.CANCELLED: Tone.MUTED,
}


def state(run: Run) -> tuple[str, Tone]:
    """The verdict of a finished run or else its state, as reports have it, and the tone of that word."""
    passed = run.verdict is Verdict.PASS
    return outcome(run), Tone.GOOD if passed else _TONES.get(run.state, Tone.BAD)


def score(seconds: float | None) -> str:
    """A score with its unit; empty where there is none."""
    return "" if seconds is None else duration_text(seconds * 1e9)


def since(run: Run, now: datetime) -> str:
    """The age of a run in a sentence: "for 3 min", "3 min ago"."""
    return f"{age(run, now)} ago" if run.state.ended else f"for {age(run, now)}"


def time_left(deadline: datetime | None, now: datetime) -> tuple[str, Tone]:
    """How long a task stays open, and the tone of it: the last day is worth a warning."""
    if deadline is None:
        return "open", Tone.MUTED
    if deadline <= now:
        return "closed", Tone.MUTED
    return span_text(deadline - now), Tone.WAITING if deadline - now < timedelta(days=1) else Tone.PLAIN


def moment(at: datetime | None) -> str:
    """A point in time of this person's clock, to the minute; empty where there is none."""
    return "" if at is None else at.astimezone().strftime("%Y-%m-%d %H:%M")


def capacity(available: Availability) -> tuple[str, str]:
    """What is free of a GPU ("3/8 free") and how many jobs wait for it ("12 queued"); "?" where nobody says."""
    free, total, queued = (
        "?" if count is None else str(count) for count in (available.free, available.total, available.queued)
    )
    return f"{free}/{total} free", f"{queued} queued"


def languages(task: Task) -> str:
    """The languages that a task takes, in few cells: "py", "py cu", "cpp+2", or "all"."""
    names = tuple(map(str, task.accepted))
    if len(names) == len(Language):
        return "all"
    both = " ".join(names)
    return both if len(both) <= _LANGUAGES_CELLS else f"{names[0]}+{len(names) - 1}"


def listing(words: tuple[str, ...]) -> str:
    """Words as a sentence has them: "A", "A and B", "A, B and C"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else ""
