"""Short texts for columns: states, ages, deadlines, scores."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from rich.cells import cell_len

from hpc_board.domain.board_options import is_past
from hpc_board.domain.run import Run, RunState
from hpc_board.domain.runner import Runner
from hpc_board.model.result import Verdict
from hpc_board.model.task import Language, Mode, Task
from hpc_board.model.text import one_line
from hpc_board.report.formatting import span_text
from hpc_board.report.plain import bar
from hpc_board.report.run_words import age, outcome
from hpc_board.report.runners import left_text
from hpc_board.tui.palette import Tone

MODE_HELP = {
    Mode.TEST: "runs the test cases; not ranked",
    Mode.BENCHMARK: "times the benchmark cases; not ranked",
    Mode.RANKED: "tests, then benchmarks; a pass is ranked",
    Mode.PROFILE: "profiles the kernel; not ranked",
    Mode.SANITIZE: "looks for faulty accesses; not ranked",
}

SELECTED = "✓"
"""The sign of a row that Space has selected."""

MARKED = "*"
"""The sign before a row that is marked for a comparison."""

_SHARE_CELLS = 6
_LANGUAGES_CELLS = 5
_GPU_CELLS_MAX = 12

_TONES = {
    RunState.CREATED: Tone.WAITING,
    RunState.SUBMITTING: Tone.WAITING,
    RunState.QUEUED: Tone.WAITING,
    RunState.RUNNING: Tone.ACCENT,
    RunState.COLLECTING: Tone.ACCENT,
    RunState.CANCELLED: Tone.MUTED,
}


def state(run: Run) -> tuple[str, Tone]:
    """Return a run's verdict, or else its state, as in reports, with its tone."""
    passed = run.verdict is Verdict.PASS
    return outcome(run), Tone.GOOD if passed else _TONES.get(run.state, Tone.BAD)


def since(run: Run, now: datetime) -> str:
    """Return the age of a run for a sentence: "for 3 min", "3 min ago"."""
    return f"{age(run, now)} ago" if run.state.ended else f"for {age(run, now)}"


def holding(runner: Runner) -> tuple[str, Tone]:
    """Return the state of a runner that has not ended in a word, with its tone: "held", "waits", "ending"."""
    if runner.started_at is None:
        return "waits", Tone.WAITING
    return ("ending", Tone.WAITING) if runner.is_ending else ("held", Tone.GOOD)


def held_text(runner: Runner, now: datetime, *, brief: bool = False) -> str:
    """Return the GPU and the state of a runner: "H100 held, 24 min left", or "H100 24 min" if `brief`."""
    # A long name would leave no room for the time.
    gpu, (word, _) = one_line(runner.gpu, _GPU_CELLS_MAX), holding(runner)
    if word == "held":
        return f"{gpu} {left_text(runner, now)}" if brief else f"{gpu} held, {left_text(runner, now)} left"
    return f"{gpu} held, {word}" if word == "ending" and not brief else f"{gpu} {word}"


def time_left(deadline: datetime | None, now: datetime) -> tuple[str, Tone]:
    """Return the time to a deadline and its tone: the last day has that of a warning."""
    if deadline is None:
        return "-", Tone.MUTED
    if is_past(deadline, now):
        return "over", Tone.MUTED
    return span_text(deadline - now), Tone.WAITING if deadline - now < timedelta(days=1) else Tone.PLAIN


def languages(task: Task) -> str:
    """Return the languages that a task accepts, in few cells: "py", "py cu", "cpp+2", or "all"."""
    names = tuple(map(str, task.accepted))
    if len(names) == len(Language):
        return "all"
    both = " ".join(names)
    return both if len(both) <= _LANGUAGES_CELLS else f"{names[0]}+{len(names) - 1}"


def speed_text(share: float | str, cells: int) -> str:
    """Return the speed relative to the best time as a bar with a percentage, in `cells`."""
    room, share = cells - _SHARE_CELLS, float(share)
    return f"{bar(share, room):<{room}} {100 * share:3.0f} %"


def packed(parts: Sequence[str], width: int) -> str:
    """Return the parts with dots between them, in lines of `width` that end behind a part."""
    lines = [""]
    for part in filter(None, parts):
        longer = f"{lines[-1]} · {part}" if lines[-1] else part
        if cell_len(longer) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(part)
    return "\n".join(lines)


def listing(words: tuple[str, ...]) -> str:
    """Return words as an enumeration: "A", "A and B", "A, B and C"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else ""
