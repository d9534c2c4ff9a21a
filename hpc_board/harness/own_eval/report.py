"""The report of a task's own eval: KernelBot's `key: value` lines, its exit statuses, and the resulting cases.

The submission runs in the same process as the eval, or below it, and could write any of this itself. So the lines are
bounded and each is accepted once; a value that is missing, reported twice, or at odds with the clock is never a pass.

A first-generation eval prints one line `score: SECONDS` within its output instead. It imports the submission as
`train`, knows neither modes nor cases nor seeds, and checks and times in one run.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpc_board.harness.device.faults import LIBRARIES
from hpc_board.harness.processes.calls import CallFailed
from hpc_board.harness.processes.signals import signal_name
from hpc_board.model.result import LIBRARY_MISSING, TIME_NS_MIN, Case, Timing, Verdict
from hpc_board.model.score import duration_text
from hpc_board.model.task import CaseValue, case_text
from hpc_board.model.text import one_line, printable

REPORT_BYTES_MAX = 4 * 2**20
"""Size limit of a report; a program that exceeds it is stopped."""

_KEYS_MAX = 50_000
_MESSAGE_MAX = 8000
_RUNS_MAX = 10**9
_NUMBER_MAX = 1e18
"""Thirty years in nanoseconds; sums of such numbers stay finite."""
_ROUNDING = 1e-6
_KEY = re.compile(r"(?:(?:test|benchmark)\.(?:0|[1-9][0-9]{0,4})\.[a-z_]{1,32}|(?:test|benchmark)-count|check)")
_MODULE_MISSING = re.compile(r"(?:ModuleNotFoundError|ImportError): No module named '([a-z.]{1,40})'")

_SCORE = re.compile(rb"\s*score:\s*([0-9]{1,12}(?:\.[0-9]{1,12})?(?:[eE][+-]?[0-9]{1,3})?)s?\s*")
_FAILED = re.compile(rb"check_implementation failed")
_LINE_BYTES_MAX = 4096

_TOO_LARGE = f"it reported more than {REPORT_BYTES_MAX // 2**20} MiB, or {_KEYS_MAX:,} values"

USAGE, DEVICE_FAILED, NO_PIPE, NOT_VALID, BAD_CASE, TOO_LATE = 2, 110, 111, 112, 113, 114
"""Exit statuses with a meaning of their own."""


class Report:
    """The lines received through a program's pipe so far; `fault` is the error in them, "" for none.

    A line that begins with no key of the protocol continues the previous value: messages may have several lines.
    """

    def __init__(self) -> None:
        self.fault = ""
        self.too_large = False
        self._values: dict[str, list[str]] = {}
        self._last: list[str] = []
        self._rest = bytearray()
        self._bytes = 0

    @property
    def empty(self) -> bool:
        """Return whether the report is still empty."""
        return not self._values

    def add(self, data: bytes) -> None:
        """Add the next piece of the pipe's content; ignore it once the report was too large."""
        self._bytes += len(data)
        self.too_large = self.too_large or self._bytes > REPORT_BYTES_MAX
        if not self.too_large:
            # A long line may arrive byte by byte: only a piece that ends a line is worth a copy.
            self._rest += data
            if b"\n" in data:
                *lines, rest = bytes(self._rest).split(b"\n")
                self._rest = bytearray(rest)
                for line in lines:
                    self._take(line)

    def end(self) -> None:
        """Process a last line without a line break."""
        rest, self._rest = bytes(self._rest), bytearray()
        if rest and not self.too_large:
            self._take(rest)

    def _take(self, line: bytes) -> None:
        text = line.decode("utf-8", errors="replace")
        key, colon, value = text.partition(":")
        if not colon or not _KEY.fullmatch(key.strip()):
            self._last.append(text)
            return
        key = key.strip()
        if key in self._values:
            self.fault = self.fault or f"it reported {key} twice"
            self._last = []
        elif len(self._values) >= _KEYS_MAX:
            self.too_large = True
        else:
            self._last = self._values[key] = [value.strip()]

    def word(self, key: str) -> str:
        """Return the first line of a value, "" if it is missing."""
        return self._values.get(key, [""])[0]

    def text(self, key: str) -> str:
        """Return a value with all its lines, safe to show. KernelBot's evals write line breaks as two characters."""
        lines = "\n".join(self._values.get(key, [])).replace("\\n", "\n")
        return printable(lines, _MESSAGE_MAX).strip()

    @property
    def failed(self) -> str:
        """Return the first failed case by its key, such as "test.0"; "" if none failed."""
        failed = (key for key, lines in self._values.items() if key.endswith(".status") and lines[0] == "fail")
        return next(failed, "").rpartition(".")[0]

    def begun(self, phase: str) -> int:
        """Return the number of cases of a phase that the report has named so far."""
        numbers = [int(key.split(".")[1]) for key in self._values if key.startswith(f"{phase}.")]
        return max(numbers, default=-1) + 1


@dataclass(frozen=True)
class Ended:
    """The end of a program: by itself with a `status` (-n for signal n), or stopped for a `verdict`.

    `last_words` is the last line of its standard error. `as_alone`: the submission ends with that status also if it
    runs by itself, without an eval.
    """

    status: int
    seconds: float
    verdict: Verdict | None = None
    message: str = ""
    last_words: str = ""
    as_alone: bool = False


@dataclass(frozen=True)
class Stage:
    """One start of the eval: its `mode`, the numbered cases of a phase, and its time.

    `seed` is the value of POPCORN_SEED, None for no variable; `secret` marks a seed that is never shown.
    """

    mode: str
    phase: str
    cases: tuple[tuple[int, Mapping[str, CaseValue]], ...]
    seconds: float
    seed: int | None = None
    secret: bool = False

    @property
    def cases_text(self) -> str:
        """Return the file of cases as KernelBot writes it: one per line."""
        return "".join(f"{case_text({key: _listed(value) for key, value in case.items()})}\n" for _, case in self.cases)


def _listed(value: CaseValue) -> CaseValue:
    """Return a value of a case such that it prints like one of YAML's lists in Python."""
    listed: CaseValue = list(map(_listed, value)) if isinstance(value, tuple) else value  # type: ignore[assignment]
    return listed


def reported(report: Report, stage: Stage, floor_ns: float) -> list[Case]:
    """Return the cases of a stage decided by the report, up to the first undecided one."""
    cases: list[Case] = []
    for number, (index, case) in enumerate(stage.cases):
        verdict, message, timing = _reported_case(report, stage, f"{stage.phase}.{number}", floor_ns)
        if verdict is None:
            break
        cases.append(Case(stage.phase, index, case_text(case), verdict, message, timing))
    return cases


def _reported_case(
    report: Report, stage: Stage, key: str, floor_ns: float
) -> tuple[Verdict | None, str, Timing | None]:
    status = report.word(f"{key}.status")
    if status == "fail":
        return Verdict.WRONG_VALUE, report.text(f"{key}.error") or "the task's check reports a wrong output", None
    if status not in ("", "pass"):
        return Verdict.PROTOCOL_VIOLATION, f"its status is {one_line(status, 80)}, neither pass nor fail", None
    if stage.phase == "test":
        return (Verdict.PASS if status else None), report.text(f"{key}.message"), None
    if stage.mode == "profile":
        return (Verdict.PASS if report.word(f"{key}.report") else None), "", None
    if not report.word(f"{key}.mean"):
        return None, "", None
    try:
        timing = _timing(report, key)
    except ValueError as error:
        return Verdict.PROTOCOL_VIOLATION, f"its times are invalid: {error}", None
    if timing.mean_ns < floor_ns:
        words = (
            f"a mean of {duration_text(timing.mean_ns)} is less than {duration_text(floor_ns)}, which no call can take"
        )
        return Verdict.BELOW_FLOOR, words, timing
    return Verdict.PASS, "", timing


def _timing(report: Report, key: str) -> Timing:
    """Return the times that a benchmark reports; it has no samples, so its mean serves as the median too.

    Raises:
        ValueError: the values are no valid times.
    """
    mean = _number(report.word(f"{key}.mean"), "mean", TIME_NS_MIN)
    best, worst = (_number(report.word(f"{key}.{name}") or str(mean), name, TIME_NS_MIN) for name in ("best", "worst"))
    std, err = (_number(report.word(f"{key}.{name}") or "0", name, least=0.0) for name in ("std", "err"))
    runs = _number(report.word(f"{key}.runs") or "1", "runs")
    if not best * (1 - _ROUNDING) <= mean <= worst * (1 + _ROUNDING):
        raise ValueError(f"the mean {mean:g} is not between best {best:g} and worst {worst:g}")
    if runs != int(runs) or runs > _RUNS_MAX:
        raise ValueError(f"runs is {runs:g}")
    return Timing(int(runs), mean, mean, std, err, best, worst, ())


def _number(text: str, name: str, least: float = math.ulp(0.0)) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{name} is {one_line(text, 40)!r}") from None
    if not least <= value < _NUMBER_MAX:
        raise ValueError(f"{name} is {value:g}")
    return value


def failure(report: Report, stage: Stage, cases: Sequence[Case], ended: Ended) -> CallFailed | None:
    """Return the failure of a stage as a whole, independent of its `cases`; None if it has passed."""
    if report.too_large:
        return CallFailed(Verdict.OUTPUT_LIMIT, _TOO_LARGE)
    if ended.verdict is not None:
        return CallFailed(ended.verdict, ended.message)
    if report.fault:
        return CallFailed(Verdict.PROTOCOL_VIOLATION, report.fault)
    if ended.status != 0:
        return by_status(stage, ended, begun=not report.empty)
    check = report.word("check")
    if not check and report.failed:
        return CallFailed(Verdict.WRONG_VALUE, report.text(f"{report.failed}.error") or "the task's check failed")
    if not check:
        message = "it exited with status 0 before the task's eval had printed `check`: did it call exit?"
        return CallFailed(Verdict.CRASH, message)
    if check != "pass":
        return CallFailed(Verdict.WRONG_VALUE, "the task's check reports a wrong output")
    return _miscounted(report, stage, cases) or _impossible(cases, ended)


def by_status(stage: Stage, ended: Ended, *, begun: bool = False) -> CallFailed:
    """Return the failure for a program that ended with another status than 0.

    A program that has `begun` to report knows its mode, its pipe and its cases: then those statuses are the
    submission's, as are all statuses with which the submission ends by itself.
    """
    status, words = ended.status, f": {ended.last_words}" if ended.last_words else ""
    if status < 0:
        return CallFailed(Verdict.CRASH, f"the task's eval was killed by signal {-status} ({signal_name(-status)})")
    if ended.as_alone and status in (USAGE, DEVICE_FAILED, NO_PIPE, NOT_VALID, BAD_CASE, TOO_LATE):
        words = f", as does the submission on its own{words}"
        return CallFailed(Verdict.CRASH, f"the task's eval ended before it was done (exit status {status}){words}")
    if begun and status in (USAGE, NO_PIPE, BAD_CASE):
        return CallFailed(Verdict.CRASH, f"the task's eval ended before it was done (exit status {status}){words}")
    missing = _MODULE_MISSING.search(ended.last_words)
    if not begun and missing and missing[1] in LIBRARIES:
        message = f"the Python of this job lacks a library, {LIBRARY_MISSING}{words}"
        return CallFailed(Verdict.INFRA_ERROR, message)
    verdict, meaning = {
        USAGE: (Verdict.TASK_ERROR, f"the task's eval does not know the mode {stage.mode}"),
        DEVICE_FAILED: (Verdict.CRASH, "a call of the device's library failed"),
        NO_PIPE: (Verdict.INFRA_ERROR, "the task's eval could not open its pipe, or the file of cases"),
        NOT_VALID: (Verdict.WRONG_VALUE, "the task's check reports a wrong output"),
        BAD_CASE: (Verdict.TASK_ERROR, "the task's eval cannot read a case of its own task.yml"),
        TOO_LATE: (Verdict.TIMEOUT, "the task's eval reports that it took too long"),
        1: (Verdict.EXCEPTION, "the task's eval was ended by an exception"),
    }.get(status, (Verdict.CRASH, "the task's eval ended before it was done"))
    return CallFailed(verdict, f"{meaning} (exit status {status}){words}")


def _miscounted(report: Report, stage: Stage, cases: Sequence[Case]) -> CallFailed | None:
    """Return a failure unless the report covers exactly the cases that were sent; a profile has no count."""
    sent, count = len(stage.cases), report.word(f"{stage.phase}-count")
    if len(cases) == sent == report.begun(stage.phase) and count in ("", str(sent)):
        return None
    if stage.mode == "leaderboard" and count == "1" and len(cases) == 1 < sent:
        message = f"its eval times one benchmark of {sent} in mode leaderboard, which fits only `ranking_by: last`"
        return CallFailed(Verdict.TASK_ERROR, message)
    told_of = max(len(cases), report.begun(stage.phase))
    message = f"it was sent {sent} cases, reported {told_of}, and counted {one_line(count, 40) or 'none'}"
    return CallFailed(Verdict.PROTOCOL_VIOLATION, message)


def _impossible(cases: Sequence[Case], ended: Ended) -> CallFailed | None:
    """Return a failure if the reported calls took longer than the program ran."""
    claimed_ns = math.fsum(case.timing.mean_ns * case.timing.samples for case in cases if case.timing)
    if claimed_ns <= ended.seconds * 1e9:
        return None
    message = f"it reports {duration_text(claimed_ns)} of calls, but ran for {duration_text(ended.seconds * 1e9)}"
    return CallFailed(Verdict.TIMING_INCONSISTENT, message)


class Scores:
    """The scores in a program's standard output; more than one are as invalid as none."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.failed = False
        self._rest = b""

    def add(self, data: bytes) -> None:
        """Add the next piece of the stream."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[:_LINE_BYTES_MAX]
        for line in lines:
            self._take(line)

    def end(self) -> None:
        """Process a last line without a line break."""
        rest, self._rest = self._rest, b""
        self._take(rest)

    def _take(self, line: bytes) -> None:
        self.failed = self.failed or _FAILED.search(line) is not None
        found = _SCORE.fullmatch(line)
        if found and len(self.seconds) < 2:
            self.seconds.append(float(found[1]))


def scored(scores: Scores, stage: Stage, ended: Ended, floor_ns: float) -> tuple[CallFailed | None, Timing | None]:
    """Return the failure of a program, or the time that it reported."""
    if ended.verdict is not None:
        return CallFailed(ended.verdict, ended.message), None
    if scores.failed or (ended.status == 1 and ended.last_words.startswith("AssertionError")):
        words = ended.last_words or "check_implementation failed"
        return CallFailed(Verdict.WRONG_VALUE, f"the task's check reports a wrong output: {words}"), None
    if ended.status != 0:
        return by_status(stage, ended), None
    if len(scores.seconds) != 1:
        how = "no" if not scores.seconds else "more than one"
        verdict = Verdict.PROTOCOL_VIOLATION if scores.seconds else Verdict.CRASH
        return CallFailed(verdict, f"it printed {how} line `score: SECONDS`, and exited with status 0"), None
    mean_ns = scores.seconds[0] * 1e9
    if mean_ns > ended.seconds * 1e9:
        message = f"it reports a score of {duration_text(mean_ns)}, but ran for {duration_text(ended.seconds * 1e9)}"
        return CallFailed(Verdict.TIMING_INCONSISTENT, message), None
    if mean_ns < floor_ns:
        message = f"a score of {duration_text(mean_ns)} is less than {duration_text(floor_ns)}, which no call can take"
        return CallFailed(Verdict.BELOW_FLOOR, message), None
    return None, Timing(1, mean_ns, mean_ns, 0.0, 0.0, mean_ns, mean_ns, ())
