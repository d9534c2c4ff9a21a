"""Output of the job and the kernel of a run: shortened for a report, or complete."""

import textwrap
from collections.abc import Iterator
from functools import partial

from hpc_board.domain.run import Run
from hpc_board.errors import Refused
from hpc_board.model.result import Log as Printed
from hpc_board.model.result import Result
from hpc_board.model.task import Mode
from hpc_board.model.text import printable
from hpc_board.report.blocks import Bars, Block, Heading, Log
from hpc_board.report.formatting import count_text
from hpc_board.report.kernels import kernel_bars, kernel_numbers, loop_blocks
from hpc_board.report.plain import bar_lines, plain
from hpc_board.report.profiles import profile_blocks
from hpc_board.report.run_words import state_text
from hpc_board.report.tones import diagnostic_tones

_JOB = "job output"
_TAIL_LINES = 20
_BUILD_HEAD_LINES = 30
_MESSAGE_HEAD_LINES = 5
_LINE_CHARACTERS_MAX = 500
_CELLS_MIN = 20
_TRACEBACK = "\nTraceback (most recent call last):\n"


def kernel_logs(run: Run, result: Result) -> Iterator[Log]:
    """Yield the compiler output and the last lines of the kernel's streams, with a pointer to the rest."""
    build = _text(result.build)
    if build.strip():
        shown = _shortened(build, _all_kept(run), head=_BUILD_HEAD_LINES, tail=_TAIL_LINES)
        yield Log("compiler", shown, diagnostic_tones(shown))
    for title, printed in (("stdout", result.stdout), ("stderr", result.stderr)):
        text = _text(printed)
        if text.strip():
            yield Log(title, _last_lines(text, run))


def profile_log(result: Result, loops_of: str = "") -> Iterator[Block]:
    """Yield bars and numbers of the kernels, and the profile, or the output of the tools of mode sanitize, if any.

    Before the profile are the loops of the file with the name `loops_of`.
    """
    text = _text(result.profile)
    if text.strip() and result.mode == Mode.SANITIZE:
        yield Log("sanitizer", text)
    elif text.strip():
        yield from kernel_bars(result.kernels)
        yield from kernel_numbers(result.kernels)
        if loops_of:
            yield from loop_blocks(result.loops, result.remarks, loops_of)
        yield from profile_blocks(text)


def profile_text(result: Result, loops_of: str, width: int) -> str:
    """Return `profile_log` as lines of at most `width` cells, and of at least some, without the titles' empty lines."""
    width = max(_CELLS_MIN, width)
    wrap = partial(textwrap.fill, width=width, subsequent_indent="    ", break_on_hyphens=False)
    lines: list[str] = []
    for block in profile_log(result, loops_of):
        if isinstance(block, Bars):
            lines += (line for line, _ in bar_lines(block, width))
        else:
            lines += (wrap(line) if len(line) > width else line for line in plain([block], width).splitlines())
        lines += [""] * (not isinstance(block, Heading))
    return "\n".join(lines)


def job_log(run: Run, log: str) -> Iterator[Log]:
    """Yield the last lines of the job output, with a pointer to the rest; nothing if it is empty."""
    if log.strip():
        yield Log(_JOB, _last_lines(printable(log, len(log)), run))


def message_log(run: Run, title: str, message: str) -> Log:
    """Return a message of many lines, without the middle of a very long one, or the error before its own traceback."""
    text = printable(message, len(message)).strip("\n")
    error, traceback, rest = text.partition(_TRACEBACK)
    if traceback and rest.endswith(f"\n{error}"):
        text = f"{traceback}{rest}".strip("\n")
    return Log(title, _shortened(text, f"more: {json_command(run)}", head=_MESSAGE_HEAD_LINES, tail=_TAIL_LINES))


def run_logs(result: Result | None, log: str) -> tuple[Log, ...]:
    """Return the kept output of the job (`log`) and its kernel; empty streams are left out."""
    texts = [(_JOB, printable(log, len(log)))]
    if result is not None:
        texts += [
            ("compiler output", _text(result.build)),
            ("kernel stdout", _text(result.stdout)),
            ("kernel stderr", _text(result.stderr)),
        ]
    return tuple(Log(title, text) for title, text in texts if text.strip())


def nothing_printed(run: Run, *, may_read: bool = True) -> str:
    """Return the sentence for a run without output.

    Raises:
        Refused: the user may not read it.
    """
    if not may_read:
        raise Refused(
            f"only {run.user}, the board's creator and admins may read the output of run {run.id}.",
            hint="`hpc-board runs` lists your runs.",
        )
    return f"Run {run.id} has no output{'' if run.state.ended else ' yet'}: {state_text(run.state)}."


def _text(printed: Printed) -> str:
    return printable(printed.text, len(printed.text))


def _last_lines(text: str, run: Run) -> str:
    return _shortened(text, _all_kept(run), tail=_TAIL_LINES)


def json_command(run: Run) -> str:
    """Return the command, or the option of the same command, that prints all values of a run."""
    return f"`hpc-board run {run.id} --json`" if run.stored else "`--json`"


def _all_kept(run: Run) -> str:
    return f"full output: `hpc-board run {run.id} --log`" if run.stored else f"full output: {json_command(run)}"


def _shortened(text: str, rest: str, *, tail: int, head: int = 0) -> str:
    """Return the first `head` and the last `tail` lines, the number of omitted lines, and the place of the `rest`."""
    lines = text.rstrip("\n").splitlines()
    left_out = len(lines) - head - tail
    kept = [*lines[:head], *lines[-tail:]] if left_out > 0 else lines
    cut = [line if len(line) <= _LINE_CHARACTERS_MAX else f"{line[:_LINE_CHARACTERS_MAX]}…" for line in kept]
    above = [f"[... long lines cut; {rest} ...]"] if cut != kept else []
    between = [f"[... {count_text(left_out, 'line')} left out; {rest} ...]"] if left_out > 0 else []
    return "\n".join([*above, *cut[:head], *between, *cut[head:]])
