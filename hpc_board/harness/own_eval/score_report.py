"""The report of a first-generation KernelBot eval: one line `score: SECONDS` within its output.

Such an eval imports the submission as `train`, knows neither modes nor cases nor seeds, and checks and times in one
run.
"""

import re

from hpc_board.harness.own_eval.report import Ended, Stage, by_status
from hpc_board.harness.processes.calls import CallFailed
from hpc_board.model.result import Timing, Verdict
from hpc_board.model.score import duration_text

_SCORE = re.compile(rb"\s*score:\s*([0-9]{1,12}(?:\.[0-9]{1,12})?(?:[eE][+-]?[0-9]{1,3})?)s?\s*")
_FAILED = re.compile(rb"check_implementation failed")
_LINE_BYTES_MAX = 4096


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
        return CallFailed(Verdict.WRONG_VALUE, f"the task's check says that it is wrong: {words}"), None
    if ended.status != 0:
        return by_status(stage, ended), None
    if len(scores.seconds) != 1:
        how = "no" if not scores.seconds else "more than one"
        verdict = Verdict.PROTOCOL_VIOLATION if scores.seconds else Verdict.CRASH
        return CallFailed(verdict, f"it printed {how} line `score: SECONDS`, and ended with status 0"), None
    mean_ns = scores.seconds[0] * 1e9
    if mean_ns > ended.seconds * 1e9:
        message = f"it reports a score of {duration_text(mean_ns)}, and ran for {duration_text(ended.seconds * 1e9)}"
        return CallFailed(Verdict.TIMING_INCONSISTENT, message), None
    if mean_ns < floor_ns:
        message = f"a score of {duration_text(mean_ns)} is less than {duration_text(floor_ns)}, which no call takes"
        return CallFailed(Verdict.BELOW_FLOOR, message), None
    return None, Timing(1, mean_ns, mean_ns, 0.0, 0.0, mean_ns, mean_ns, ())
