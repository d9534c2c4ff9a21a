"""The tools of coding agents: each is a Struct of its arguments, and answers from a board in few bytes.

The docstring of a tool is its description for agents. No tool has a rule of its own: the board has them, for the
account that runs the server. Submissions have the entrant and the budget of the server's environment.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from heapq import nlargest
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from hpc_board.board import Board
from hpc_board.board.held import live_runners
from hpc_board.domain.budget import default_budget, left_text
from hpc_board.domain.draft import Source, SubmissionRequest
from hpc_board.domain.job_options import JobOptions, check
from hpc_board.domain.origin import Origin, default_origin, entrant_of
from hpc_board.domain.run import Run as StoredRun
from hpc_board.errors import BoardError, InputError, Refused, SchedulerError, WaitExpired
from hpc_board.files import decoded
from hpc_board.model.names import suggestion
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.model.text import one_line, printable
from hpc_board.report.blocks import Block, Log, Paragraph, Tone
from hpc_board.report.plain import plain
from hpc_board.report.views.brief import compact, short_of
from hpc_board.report.views.runs import RunnerView, WholeRunView

if TYPE_CHECKING:
    from hpc_board.report.views.standings import KernelPairView

WAIT_SECONDS = 50
"""The usual wait of a call: many clients give a call up after a minute."""

TEXT_CHARACTERS_MAX = 8_000
"""The maximum length of a text in an answer."""

CODE_CHARACTERS_MAX = 60_000
"""That of a file, of which a part is of no use."""

_KERNELS_MAX = 8
_READ_SECONDS = 2.0
_COMMAND = re.compile(r"`hpc-board ([a-z]+)[^`\n]*`")
_MODE = re.compile(r"`--mode ([a-z]+)`")
_TOOLS_OF_COMMANDS = {
    "list": "tasks",
    "gpus": "tasks",
    "task": "task",
    "template": "task",
    "runs": "history",
    "run": "report",
    "code": "report part=code",
    "watch": "wait",
    "show": "standings",
    **{name: name for name in ("submit", "cancel", "compare", "hold", "release")},
}
"""The tools in the place of the commands that a text names."""

Number = Annotated[int, Meta(ge=1)]
Numbers = Annotated[list[Number], Meta(min_length=1, max_length=100)]
Seconds = Annotated[float, Meta(ge=0, le=600)]
Count = Annotated[int, Meta(ge=1, le=100)]
_MODES = Meta(extra_json_schema={"enum": list(map(str, Mode))})
_WORD = Meta(extra_json_schema={"type": "string"})


class Answer(msgspec.Struct, frozen=True):
    """An answer: its text, the next call, and whether the call failed."""

    text: str
    next: str
    failed: bool = False


class Tool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call of a tool."""

    only_reads: ClassVar[bool] = True

    def answer(self, board: Board) -> Answer:
        """Carry the call out.

        Raises:
            BoardError: the board refuses it.
        """
        raise NotImplementedError


class Tasks(Tool, frozen=True):
    """List the tasks, and the GPUs."""

    def answer(self, board: Board) -> Answer:
        from hpc_board.report.views.tasks import TaskView

        found = [TaskView.of(task, board.gpus.allowed(task)) for task in board.tasks.catalog().tasks]
        gpus = [gpu.name for gpu in board.gpus.all()]
        # Most tasks may run on all of them.
        tasks = [
            {key: value for key, value in each.items() if (key, value) != ("gpus", gpus)} for each in short_of(found)
        ]
        return Answer(_json({"gpus": gpus, "tasks": tasks}), "task")


class Task(Tool, frozen=True):
    """Show a task: text, rules, cases, template and reference."""

    task: str
    language: Annotated[str, Meta(description="of the template: Python, Triton, C++, CUDA, HIP")] = ""
    file: Annotated[str, Meta(description="show only this file")] = ""

    def answer(self, board: Board) -> Answer:
        from hpc_board.catalog.template import compiled_header, reference_file, template_code, template_name
        from hpc_board.domain.catalog import require_texts
        from hpc_board.model.task import Template
        from hpc_board.report.tasks import task_report

        found = board.tasks.get(self.task)
        then = "submit"
        if self.file:
            require_texts(found)
            names = [*(file.name for file in found.files if file.text is not None), _HEADER]
            text = compiled_header() if self.file == _HEADER else found.text(self.file)
            if text is None:
                near = suggestion(self.file, names)
                raise InputError(
                    f"task {found.name} has no file {self.file}.{near}", hint=f"Files: {', '.join(names)}."
                )
            return Answer(_bounded(text, CODE_CHARACTERS_MAX), then)
        parts = [plain(task_report(found, [gpu.name for gpu in board.gpus.allowed(found)], datetime.now(UTC)))]
        if found.templates:
            chosen = template_name(found, self.language or None, "" if self.language else found.submission_name)
            language = Template(chosen).language
            parts.append(f"--- template ({chosen}), kernel{language.extensions[0]} ---\n{template_code(found, chosen)}")
            if language.compiled:
                then = f"submit; file={_HEADER} shows that header"
        if not found.published_version and (reference := reference_file(found)):
            parts.append(f"--- {reference.name} ---\n{reference.text}")
        return Answer(_bounded("\n".join(parts), CODE_CHARACTERS_MAX), then)


_HEADER = "hpc_board.h"


class Submit(Tool, frozen=True, rename={"entrant": "as"}):
    """Submit a kernel, wait for its runs, and return them in brief."""

    only_reads: ClassVar[bool] = False
    task: str
    code: str
    file_name: Annotated[str, Meta(description="its ending is the language: .py .cpp .cu .hip")] = "kernel.py"
    gpu: Annotated[str, Meta(description="if there are several: one, a list, or all")] = ""
    mode: Annotated[str, _MODES] = "test"
    note: Annotated[str, Meta(description="your idea, for history")] = ""
    entrant: Annotated[str, Meta(description="your name")] = ""
    case: Annotated[int, Meta(ge=0, description="only this number")] = 0
    effort: Annotated[str, Meta(description="quick, or % of a benchmark")] = ""
    key: Annotated[str, Meta(description="repeated, it sends nothing twice")] = ""
    if_new: Annotated[bool, Meta(description="reuse the run of an identical file")] = False
    wait_seconds: Seconds = WAIT_SECONDS

    def answer(self, board: Board) -> Answer:
        source = Source(self.file_name, decoded(self.code.encode(), "code"))
        gpus = (self.gpu,) if self.gpu else ()
        origin = default_origin(os.environ)
        if self.entrant and origin.entrant not in ("", self.entrant):
            # Each name has a budget of its own.
            raise InputError(f"this server submits as {origin.entrant}.", hint="Leave `as` out.")
        origin = origin if origin.entrant else Origin(self.entrant)
        options = JobOptions(case=str(self.case or ""), effort=self.effort)
        check(options, "submit")
        request = SubmissionRequest(source, self.task, gpus, self.mode, self.note, options, origin)
        budget = default_budget(os.environ)
        found = board.submissions.submit([request], key=self.key, if_new=self.if_new, budget=budget)
        ended = _ended(board, [run.id for run in found], self.wait_seconds)
        if budget is None:
            return ended
        left = left_text(budget, board.submissions.budget_left(budget, found[0].origin.entrant), found[0].author)
        return replace(ended, next=f"{ended.next} ({left})")


class Wait(Tool, frozen=True):
    """Wait for runs to end, and return them in brief."""

    runs: Numbers
    wait_seconds: Seconds = WAIT_SECONDS

    def answer(self, board: Board) -> Answer:
        return _ended(board, self.runs, self.wait_seconds)


class Report(Tool, frozen=True):
    """Show a run in words: cases, times, errors, advice; or its code or output."""

    run: Number
    part: Annotated[Literal["report", "code", "output"], _WORD] = "report"

    def answer(self, board: Board) -> Answer:
        from hpc_board.report.logs import nothing_printed, run_logs
        from hpc_board.report.runs import run_summary

        _refresh(board)
        if self.part == "code":
            _, code = board.submissions.code(self.run)
            return Answer(_bounded(code.decode(), CODE_CHARACTERS_MAX), "submit")
        whole = board.runs.whole(self.run)
        log = board.runs.log(self.run)
        then = _next_of([whole.run])
        if self.part == "output":
            logs = run_logs(whole.result, log)
            if logs:
                return Answer(_bounded(plain(logs)), then)
            may_read = whole.run.user == board.user or board.leaderboards.manages(whole.run.task)
            return Answer(nothing_printed(whole.run, may_read=may_read), then)
        blocks = run_summary(whole.run, whole.result, whole.history, whole.placing, log=log, reader=board.user)
        told = [_told(each, self.run) for each in blocks]
        if whole.run.state.ended and whole.run.verdict is not Verdict.PASS:
            own = [each.text for each in told if isinstance(each, Paragraph) and each.tone is Tone.PLAIN]
            is_sanitizable = any("`mode=sanitize`" in text for text in own)
            then = "submit mode=sanitize, or a corrected one" if is_sanitizable else "submit a corrected one"
        return Answer(_bounded(plain(told)), then)


def _told(block: Block, run: int) -> Block:
    """Return a block of a report with tools in place of commands, except in output and messages of the submission."""
    if isinstance(block, Log):
        return replace(block, text=block.text.replace(f"`hpc-board run {run} --log`", "`report part=output`"))
    if not isinstance(block, Paragraph) or block.tone is not Tone.PLAIN:
        return block
    # An agent's machine is not that of the server, for whose files the other commands are.
    lines = [line for line in block.text.splitlines() if not line.startswith("`hpc-board ")]
    return Paragraph(_in_words_of_tools("\n".join(lines)))


class Profile(Tool, frozen=True):
    """Profile a run's file once, and return its kernels and loops."""

    only_reads: ClassVar[bool] = False
    run: Number
    wait_seconds: Seconds = WAIT_SECONDS

    def answer(self, board: Board) -> Answer:
        from hpc_board.report.kernels import kernel_lines, loop_blocks

        number = self.run
        if board.runs.get(number).mode is not Mode.PROFILE:
            again = board.submissions.again(number, mode="profile", entrant=default_origin(os.environ).entrant)
            number = board.submissions.submit([again], if_new=True, budget=default_budget(os.environ))[0].id
        waited = _ended(board, [number], self.wait_seconds)
        found = board.runs.whole(number)
        if not found.run.state.ended:
            return replace(waited, next=f"profile run={number}")
        if found.result is None or found.run.verdict is not Verdict.PASS:
            return waited
        then = f"submit; report run={number} has the whole profile"
        loops = loop_blocks(found.result.loops, found.result.remarks, found.run.file_name)
        lines = [*kernel_lines(found.result.kernels, with_rest=False), *loops]
        return Answer(_bounded(plain(lines) if lines else found.result.profile.text), then)


class Compare(Tool, frozen=True):
    """Compare two runs of a task case by case, with confidence intervals."""

    run: Number
    other: Number

    def answer(self, board: Board) -> Answer:
        from hpc_board.report.views.standings import ComparisonsView, ComparisonView

        found = board.submissions.compare(self.run, self.other)
        views = [ComparisonView.of(each.runs, each.results, each.comparison) for each in found]
        boards = [replace(each, kernels=nlargest(_KERNELS_MAX, each.kernels, _share)) for each in views]
        keys = (
            "gpu",
            "runs",
            "score.speedup",
            "score.speedup_low",
            "score.speedup_high",
            "score.text",
            "cases.case",
            "cases.text",
            "kernels.case",
            "kernels.kernels.name",
            "kernels.kernels.duration_ns",
            "kernels.kernels.time_share",
            "kernels.changes",
            "caveats",
        )
        fields = [f"boards.{key}" for key in keys]
        view = ComparisonsView(task=found[0].runs[0].task, boards=boards)
        return Answer(_json(short_of(view, fields)["boards"]), "submit")


def _share(pair: "KernelPairView") -> float:
    """Return the larger share of a kernel of two profiles in the time of its case."""
    return max(each.time_share or 0 for each in pair.kernels if each is not None)


class Standings(Tool, frozen=True):
    """Show the best ranked runs of a task, your rank, and the reference; or a competition."""

    task: str = ""
    gpu: str = ""
    competition: str = ""
    top: Count = 5

    def answer(self, board: Board) -> Answer:
        from hpc_board.report.views import view_of
        from hpc_board.report.views.grading import OverallView
        from hpc_board.report.views.standings import PageView

        _refresh(board)
        if self.competition:
            overall = view_of(OverallView, board.standings.overall(self.competition, limit=self.top))
            keys = ("scoring.name", "tasks", "total", *(f"rows.{key}" for key in ("rank", "user", "score", "passed")))
            return Answer(_json(short_of(overall, keys)), "standings task=NAME")
        if not self.task:
            raise InputError("standings needs a task or a competition.", hint="`tasks` lists the tasks.")
        gpus = [self.gpu] if self.gpu else [gpu.name for gpu in board.gpus.allowed(board.tasks.get(self.task))]
        pages = [PageView.of(page) for page in board.standings.pages(self.task, gpus, limit=self.top)]
        of_row = ("rank", "user", "score_s", "speedup", "run", "runs")
        of_board = [f"{place}.{key}" for place in ("rows", "own") for key in of_row]
        return Answer(_json(short_of(pages, ("gpu", "total", *of_board, "marks.name", "marks.score_s"))), "submit")


class History(Tool, frozen=True, rename={"entrant": "as"}):
    """List your newest runs, all or those chosen."""

    task: str = ""
    mode: str = ""
    entrant: str = ""
    note: str = ""
    key: str = ""
    limit: Count = 10

    def answer(self, board: Board) -> Answer:
        from hpc_board.runs.drafts import mode_called

        task = board.tasks.get(self.task).name if self.task else None
        mode = mode_called(self.mode) if self.mode else None
        _refresh(board)
        entrant = entrant_of(self.entrant, board.user) if self.entrant else None
        runs = board.runs.list(task=task, mode=mode, entrant=entrant, note=self.note, key=self.key, limit=self.limit)
        fields = ("id", "task", "gpu", "mode", "state", "verdict", "score_s", "entrant", "note")
        found = short_of([_view(board, run.id) for run in runs], fields)
        found = [{key: each[key] for key in each if key != "state" or not each["verdict"]} for each in found]
        if going := [run.id for run in runs if not run.state.ended]:
            return Answer(_json(found), f"wait runs={going}")
        return Answer(_json(found), "report run=N part=code, or submit" if found else "tasks, then submit")


class Cancel(Tool, frozen=True):
    """Cancel your runs."""

    only_reads: ClassVar[bool] = False
    runs: Numbers

    def answer(self, board: Board) -> Answer:
        from hpc_board.report.run_words import ended_before_text

        cancelled = board.runs.cancel_each(self.runs)
        for found in cancelled:
            if found.error is not None:
                raise found.error
        ended = [ended_before_text(found.run) for found in cancelled if found.run is not None and found.ended_before]
        answer = _of_runs(board, self.runs)
        return replace(answer, text="\n".join([*ended, answer.text]))


class Hold(Tool, frozen=True):
    """Hold a GPU, so that your runs start at once; it ends when idle."""

    only_reads: ClassVar[bool] = False
    gpu: str
    minutes: Annotated[int, Meta(ge=0, description="at most")] = 0

    def answer(self, board: Board) -> Answer:
        runner = board.runners.hold(self.gpu, 60 * self.minutes or None, unless_held=True)
        return _of_runner(RunnerView.of(runner, datetime.now(UTC)), f"submit; release runner={runner.id} at the end")


class Release(Tool, frozen=True):
    """Release a GPU that you hold."""

    only_reads: ClassVar[bool] = False
    runner: Number

    def answer(self, board: Board) -> Answer:
        try:
            released = board.runners.release(self.runner)
        except (InputError, Refused) as error:
            held = ", ".join(f"runner {runner.id} on {runner.gpu}" for runner in live_runners(board))
            error.hint = f"You hold {held}." if held else "You hold no GPU."
            raise
        return _of_runner(RunnerView.of(released, datetime.now(UTC)), "standings")


TOOLS: Mapping[str, type[Tool]] = {
    "tasks": Tasks,
    "task": Task,
    "submit": Submit,
    "wait": Wait,
    "report": Report,
    "profile": Profile,
    "compare": Compare,
    "standings": Standings,
    "history": History,
    "cancel": Cancel,
    "hold": Hold,
    "release": Release,
}
"""The tools by name, in the order of their use."""


def schema_of(tool: type[Tool]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments, without the bounds: an agent reads all schemas before its task."""
    _, components = msgspec.json.schema_components([tool])
    found = components[tool.__name__]
    properties = {
        name: {
            **{key: each[key] for key in ("type", "enum", "description") if key in each},
            **({"items": {"type": each["items"]["type"]}} if "items" in each else {}),
            **({"default": each["default"]} if each.get("default") else {}),
        }
        for name, each in found["properties"].items()
    }
    return {
        "type": "object",
        "properties": properties,
        **({"required": found["required"]} if found["required"] else {}),
    }


def called(board: Board, name: str, arguments: Mapping[str, Any]) -> Answer:
    """Return the answer of the tool `name`; an error is an answer, too, with the next step of the agent."""
    try:
        with board.session():
            return _tool(name, arguments).answer(board)
    except BoardError as error:
        told = printable(error.message, TEXT_CHARACTERS_MAX)
        hint = _in_words_of_tools(printable(error.hint, TEXT_CHARACTERS_MAX))
        return Answer(f"{error.kind}: {told}", hint or f"Correct the arguments of {name}.", failed=True)


def _in_words_of_tools(text: str) -> str:
    """Return a text for users of the command line with tools in place of commands."""

    def tool(command: re.Match[str]) -> str:
        name = "report part=output" if "--log" in command[0] else _TOOLS_OF_COMMANDS.get(command[1])
        return f"`{name}`" if name else command[0]

    return _MODE.sub(r"`mode=\1`", _COMMAND.sub(tool, text))


def _tool(name: str, arguments: Mapping[str, Any]) -> Tool:
    """Return the call of a tool.

    Raises:
        InputError: there is no such tool, or its arguments are invalid.
    """
    if name not in TOOLS:
        raise InputError(
            f'unknown tool "{one_line(name, 80)}".{suggestion(name, [*TOOLS])}', hint=f"Tools: {_names(TOOLS)}."
        )
    known = TOOLS[name].__struct_encode_fields__
    for each, value in arguments.items():
        if each not in known:
            near = suggestion(each, known)
            hint = f"Arguments of {name}: {_names(known)}."
            raise InputError(f'{name} has no argument "{one_line(each, 80)}".{near}', hint=hint)
        if isinstance(value, str) and "\N{REPLACEMENT CHARACTER}" in value:
            raise InputError(f"{each} is not valid UTF-8.", hint="In code, write other characters as escapes.")
    try:
        return msgspec.convert(dict(arguments), TOOLS[name], strict=False)
    except msgspec.ValidationError as error:
        properties = _json(schema_of(TOOLS[name])["properties"])
        raise InputError(f"{name}: {one_line(str(error), 400)}.", hint=f"Arguments of {name}: {properties}") from error


def _names(known: Sequence[str] | Mapping[str, Any]) -> str:
    return ", ".join(known) or "none"


def _refresh(board: Board) -> None:
    """Update the runs in flight; without an answer of a scheduler in time, the last known state is shown."""
    with suppress(SchedulerError):
        board.runs.advance(within_seconds=_READ_SECONDS)


def _view(board: Board, number: int) -> WholeRunView:
    return WholeRunView.with_result(board.runs.whole(number), samples=False)


def _ended(board: Board, numbers: Sequence[int], wait_seconds: float) -> Answer:
    """Return runs in brief, once they have ended or the time is over."""
    wanted = list(dict.fromkeys(numbers))
    try:
        for _ in board.runs.wait(wanted, timeout_seconds=wait_seconds):
            pass
    except WaitExpired:
        pass
    return _of_runs(board, wanted)


def _of_runs(board: Board, numbers: Sequence[int]) -> Answer:
    """Return runs in brief, and the next call after them."""
    found = [board.runs.whole(number) for number in numbers]
    views = short_of([WholeRunView.with_result(each, samples=False) for each in found])
    # The agent has just named the file, and the line of a run has its interval.
    told = dict.fromkeys(("file_name", "score_low_s", "score_high_s"))
    shown = [{**view, **(told if "verdict_line" in view else {"file_name": None})} for view in views]
    return Answer(_json(shown), _next_of([each.run for each in found]))


def _next_of(runs: Sequence[StoredRun]) -> str:
    """Return the next call after these runs."""
    going = [run.id for run in runs if not run.state.ended]
    if going:
        return f"wait runs={going}"
    failed = next((run for run in runs if run.verdict is not Verdict.PASS), None)
    if failed is not None:
        return f"report run={failed.id} has the details; then submit"
    if runs[0].mode is Mode.RANKED:
        return f"submit a faster one, profile run={runs[0].id}, or compare"
    return "submit mode=ranked" if runs[0].mode in (Mode.TEST, Mode.BENCHMARK) else "submit"


def _of_runner(runner: RunnerView, then: str) -> Answer:
    fields = ("id", "gpu", "state", "takes_runs", "left_seconds", "expected_start", "reason")
    return Answer(_json(short_of(runner, fields)), then)


def _json(value: Any) -> str:
    return json.dumps(compact(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _bounded(text: str, most: int = TEXT_CHARACTERS_MAX) -> str:
    safe = printable(text, len(text))
    return safe if len(safe) <= most else f"{safe[:most]}\n... ({len(safe) - most} more characters)"
