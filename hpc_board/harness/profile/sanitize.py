"""An evaluation in mode `sanitize`: the tests in a worker under each tool, and the faults that the tools found."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hpc_board.harness.measure.bench import Bench
from hpc_board.harness.measure.phases import Say, tested
from hpc_board.harness.processes.calls import CallFailed
from hpc_board.harness.processes.output import Printed
from hpc_board.harness.processes.spawn import NotForked
from hpc_board.harness.profile.evaluation import Workers
from hpc_board.harness.profile.profilers import Unusable
from hpc_board.harness.profile.sanitizers import Tool, findings, logged
from hpc_board.model.result import Case, Log, Verdict
from hpc_board.model.sanitizer import SanitizerFinding
from hpc_board.model.text import one_line, printable

_LOG = "sanitizer-log"
_PRINTED_BYTES_MAX = 2**26
_TEXT_MAX = 90_000
_TOOL_TEXT_MAX = 16_000
"""Limit of the log of a tool, and of the output beside it."""


class Sanitize:
    """The findings and the output of the tools that have run."""

    def __init__(
        self, workers: Workers, bench: Bench, say: Say, renamed: Callable[[str], str], *, deadline: float
    ) -> None:
        self.findings: list[SanitizerFinding] = []
        self._workers = workers
        self._bench = bench
        self._say = say
        self._renamed = renamed
        self._deadline = deadline
        self._parts: list[str] = []
        self._failed: CallFailed | None = None

    def run(self, tool: Tool) -> list[Case]:
        """Run the tests under a tool; return their cases, none if the submission could not be loaded.

        Raises:
            Unusable: the tool started no worker, or one that cannot open the device, or ended without its summary; or
                the board requires the system-call filter, under which the tool cannot work.
        """
        home, folder = self._workers.folders()
        # A tool within the worker's process can write only there; the file of another is out of the worker's reach.
        log = (folder if tool.traced else home) / _LOG
        printed = Printed(min(self._workers.limits.printed_bytes, _PRINTED_BYTES_MAX))
        marks = "nvtx" if tool.traced else "asan"
        cases: list[Case] = []
        failure: CallFailed | None = None
        try:
            worker = self._workers.started(tool.command(log), home, folder, printed, traced=tool.traced, marks=marks)
            cases = [*tested(self._bench, worker, self._say, secret=False, ranked=False)]
            failure = _failure(cases)
        except (NotForked, Unusable) as error:
            raise Unusable(f"{tool.name} was not used: {error}") from None
        except CallFailed as error:
            failure = error
        unfinished = self._unfinished(failure)
        self._workers.dismiss()
        texts, is_cut = self._texts(log, printed)
        # UndefinedBehaviorSanitizer prints its faults; a log out of the worker's reach has all of the tool's words.
        read = texts[0] if tool.traced else "\n".join(texts)
        found = findings(tool, read)
        self.findings += found
        shown = [printable(each, _TOOL_TEXT_MAX) for each in texts if each]
        self._parts.append(
            "\n".join([f"{tool.name}: {len(found) or 'no'} fault{'' if len(found) == 1 else 's'}", *shown])
        )
        if failure is not None and failure.verdict is Verdict.DEVICE_ERROR:
            raise Unusable(f"under {tool.name}, {failure.message}")
        failure = failure or unfinished
        if failure is None and is_cut:
            failure = CallFailed(
                Verdict.OUTPUT_LIMIT,
                f"the log of {tool.name} is incomplete: too long, in too many files, or not a regular file",
            )
        if failure is None and not found and tool.done not in read:
            lines = [line for each in texts for line in each.splitlines() if line.strip()] or ["it printed nothing"]
            raise Unusable(f"{tool.name} ended without a summary: {one_line(lines[-1])}")
        if failure is not None and self._failed is None:
            self._failed = CallFailed(failure.verdict, f"under {tool.name}, {failure.message}")
        return cases

    def _texts(self, log: Path, printed: Printed) -> tuple[tuple[str, str], bool]:
        """Return the log of a tool and the output beside it, and whether a part of one is missing."""
        (text, is_cut), beside = logged(log), printed.log()
        return (self._renamed(text), self._renamed(beside.text)), is_cut or beside.omitted_bytes > 0

    def _unfinished(self, failure: CallFailed | None) -> CallFailed | None:
        """Have the worker end, and its tool write the rest of its log; return the failure if they do not.

        After a `failure` for its time, the worker would not end by itself.
        """
        seconds = max(0.0, min(self._workers.limits.load_seconds, self._deadline - time.monotonic()))
        end = time.monotonic() + seconds
        if self._workers.finish(end, killed=failure is not None and failure.verdict is Verdict.TIMEOUT):
            return None
        if time.monotonic() < end:
            return CallFailed(Verdict.OUTPUT_LIMIT, "it exceeded its output limit")
        return CallFailed(Verdict.TIMEOUT, f"the process did not finish within {seconds:.4g} s after the last case")

    def leave_out(self, tools: Sequence[str]) -> None:
        """Note the tools that were not run, since the time for all of them was over."""
        message = f"the time limit for all tools was reached; not run: {', '.join(tools)}"
        self._parts.append(message)
        if self._failed is None:
            self._failed = CallFailed(Verdict.TIMEOUT, message)
        else:
            self._failed.message += f"; {message}"

    def check(self) -> None:
        """Check that the tools found no fault, and that no case failed under any of them.

        Raises:
            CallFailed: they did, or one has.
        """
        faults = [each for each in self.findings if not each.warning]
        if faults:
            first = faults[0]
            where = ", ".join(filter(None, (first.kernel, first.place)))
            more = f"; {len(faults) - 1} more" if len(faults) > 1 else ""
            message = f"{first.tool} found: {first.kind}{f' in {where}' if where else ''}{more}"
            raise CallFailed(Verdict.CRASH, message)
        if self._failed is not None:
            raise self._failed

    def log(self) -> Log:
        """Return the logs and the output of all tools, bounded in size."""
        printed = Printed(_TEXT_MAX)
        printed.add("\n\n".join(self._parts).encode("utf-8", "replace"))
        return printed.log()


def _failure(cases: Sequence[Case]) -> CallFailed | None:
    """Return the failure of the first case that did not pass."""
    failed = next((case for case in cases if case.verdict is not Verdict.PASS), None)
    if failed is None:
        return None
    return CallFailed(failed.verdict, f"test case {failed.index + 1}: {failed.message}")
