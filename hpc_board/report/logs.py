"""What the job and the kernel of a run printed: in short for a report, or all that was kept."""

import re
from collections.abc import Iterator

from hpc_board.domain.run import Run, RunState
from hpc_board.model.result import Log as Printed
from hpc_board.model.result import Result
from hpc_board.model.text import printable
from hpc_board.report.blocks import Log
from hpc_board.report.formatting import count_text

_JOB = "the job's output"
_TAIL_LINES = 20
_BUILD_HEAD_LINES = 30
_MESSAGE_HEAD_LINES = 5
_LINE_CHARACTERS_MAX = 500
_PREFIXES_MAX = 5
_TRACEBACK = "Traceback (most recent call last):"

_LEFT_NONE = "its job left none, and what a kernel prints is kept with a result only"
_NOTHING_BECAUSE = {
    RunState.CREATED: "its job has not been sent yet",
    RunState.SUBMITTING: "its job is on its way to the scheduler",
    RunState.QUEUED: "its job has not started yet",
    RunState.RUNNING: "its job has printed nothing yet, and what the kernel prints comes with the result",
    RunState.COLLECTING: "its job has printed nothing, and what the kernel printed comes with the result",
    RunState.FINISHED: "neither its job nor its kernel printed anything",
}


def kernel_logs(run: Run, result: Result) -> Iterator[Log]:
    """The compiler's words, the last lines of each stream that the kernel printed to, and where the rest is."""
    build = _text(result.build)
    if build.strip():
        yield Log("compiler", _shortened(build, _all_kept(run), head=_BUILD_HEAD_LINES, tail=_TAIL_LINES))
    for title, printed in (("stdout", result.stdout), ("stderr", result.stderr)):
        text = _text(printed)
        if text.strip():
            yield Log(title, _last_lines(text, run))


def profile_log(result: Result) -> Iterator[Log]:
    """All of a profile, which is what a run in that mode is for; nothing where there is none."""
    text = _text(result.profile)
    if text.strip():
        yield Log("profile", text)


def job_log(run: Run, log: str) -> Iterator[Log]:
    """The last lines of the job's own output, and where the rest is; nothing where it is empty."""
    if log.strip():
        yield Log(_JOB, _last_lines(printable(log, len(log)), run))


def message_log(run: Run, title: str, message: str) -> Log:
    """A message of many lines, without the middle of a very long one, and without what its traceback says again."""
    text = _unrepeated(printable(message, len(message)).strip("\n"))
    rest = f"`hpc-board run {run.id} --json` has more" if run.stored else "--json has more"
    return Log(title, _shortened(text, rest, head=_MESSAGE_HEAD_LINES, tail=_TAIL_LINES))


def _unrepeated(text: str) -> str:
    """A text without the lines before a traceback that ends with them, whatever stands before their exception."""
    said, mark, traceback = text.partition(f"\n{_TRACEBACK}")
    for _ in range(_PREFIXES_MAX):
        # A traceback has the exception's name with that of its module.
        if mark and re.search(rf"\n(\w+\.)*{re.escape(said.rstrip())}\s*\Z", traceback):
            return f"{_TRACEBACK}{traceback}"
        _, _, said = said.partition(": ")
    return text


def run_logs(result: Result | None, log: str) -> tuple[Log, ...]:
    """All that was kept of what the job (`log`) and its kernel printed; streams without anything are left out."""
    texts = [(_JOB, printable(log, len(log)))]
    if result is not None:
        texts += [
            ("what the compiler printed", _text(result.build)),
            ("what the kernel printed to stdout", _text(result.stdout)),
            ("what the kernel printed to stderr", _text(result.stderr)),
        ]
    return tuple(Log(title, text) for title, text in texts if text.strip())


def nothing_printed(run: Run) -> str:
    """Why nothing is there that this run printed, in one sentence."""
    reason = _NOTHING_BECAUSE.get(run.state)
    if reason is None:
        reason = _LEFT_NONE if run.status.job_id else "it ended before it had a job"
    return f"Run {run.id} has no output: {reason}."


def _text(printed: Printed) -> str:
    return printable(printed.text, len(printed.text))


def _last_lines(text: str, run: Run) -> str:
    return _shortened(text, _all_kept(run), tail=_TAIL_LINES)


def _all_kept(run: Run) -> str:
    return (
        f"`hpc-board run {run.id} --log` prints all that was kept" if run.stored else "--json prints all that was kept"
    )


def _shortened(text: str, rest: str, *, tail: int, head: int = 0) -> str:
    """The first `head` and the last `tail` lines, between them how many are missing, and where the `rest` is."""
    lines = text.rstrip("\n").splitlines()
    left_out = len(lines) - head - tail
    kept = [*lines[:head], *lines[-tail:]] if left_out > 0 else lines
    cut = [line if len(line) <= _LINE_CHARACTERS_MAX else f"{line[:_LINE_CHARACTERS_MAX]}…" for line in kept]
    above = [f"[... the ends of long lines left out; {rest} ...]"] if cut != kept else []
    between = [f"[... {count_text(left_out, 'line')} left out; {rest} ...]"] if left_out > 0 else []
    return "\n".join([*above, *cut[:head], *between, *cut[head:]])
