"""An evaluation in mode `sanitize`: the tests in a worker under each tool, and the faults that the tools found."""

from collections.abc import Callable

from hpc_board.harness.measure.bench import Bench
from hpc_board.harness.measure.phases import Say, tested
from hpc_board.harness.processes.calls import CallFailed
from hpc_board.harness.processes.output import Printed
from hpc_board.harness.profile.evaluation import Workers
from hpc_board.harness.profile.sanitizers import Tool, ToolUnusable, findings
from hpc_board.model.result import Case, Log, Verdict
from hpc_board.model.sanitizer import SanitizerFinding
from hpc_board.model.text import one_line, printable

_TEXT_MAX = 90_000
_TOOL_TEXT_MAX = 32_000


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
        """Run the tests under a tool; return their cases.

        Raises:
            ToolUnusable: the tool ended without its summary.
            Unusable: the board requires the system-call filter, under which the tool cannot work.
            NotForked: the tool started no worker.
            CallFailed: the submission could not be loaded.
        """
        home, folder = self._workers.folders()
        try:
            worker, printed = self._workers.started(
                tool.command, home, folder, traced=tool.traced, marks="nvtx" if tool.traced else "asan"
            )
            cases = [*tested(self._bench, worker, self._say, secret=False, ranked=False)]
            worker.child.finish(self._deadline)
        finally:
            self._workers.dismiss()
        text = self._renamed(printed.log().text)
        found = findings(tool, text)
        self.findings += found
        self._parts.append(f"{tool.name}: {len(found) or 'no'} faults\n{printable(text, _TOOL_TEXT_MAX)}")
        failed = next((case for case in cases if case.verdict is not Verdict.PASS), None)
        if tool.done not in text and not found and failed is None:
            lines = [line for line in text.splitlines() if line.strip()] or ["it printed nothing"]
            raise ToolUnusable(f"{tool.name} ended without a summary: {one_line(lines[-1])}")
        if failed is not None and self._failed is None:
            message = f"under {tool.name}, test case {failed.index + 1}: {failed.message}"
            self._failed = CallFailed(failed.verdict, message)
        return cases

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
        """Return the output of all tools, bounded in size."""
        printed = Printed(_TEXT_MAX)
        printed.add("\n\n".join(self._parts).encode("utf-8", "replace"))
        return printed.log()
