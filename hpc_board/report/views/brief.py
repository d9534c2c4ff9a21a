"""The short forms of JSON: the brief objects of runs and tasks, and a choice of an object's keys."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from hpc_board.model.text import one_line
from hpc_board.report.kernels import loop_text, numbers_text
from hpc_board.report.tasks import first_sentence
from hpc_board.report.views import Moment, Nanoseconds, Seconds, View
from hpc_board.report.views.results import CaseView
from hpc_board.report.views.runs import LookView, RunView, SubmissionView, WholeRunView
from hpc_board.report.views.tasks import TaskView

_NAMES_BYTES_MAX = 39
"""The bytes of the names of GPU and file together; the latter is cut first."""

_GPU_BYTES_MAX = 24
_FILE_BYTES_MIN = 6
_OF_TOLERANCE_BYTES = len(',"of_tolerance":0.12')
_SPEC_BYTES_MAX = 40
_PATTERN_BYTES_MAX = 80
_DESCRIPTION_BYTES_MAX = 80
_KERNEL_BYTES_MAX = 120
_LISTED_BYTES = len("[]\n")
_PASSED_BYTES_MAX = 450 - _LISTED_BYTES
_BYTES_MAX = 500 - _LISTED_BYTES
_NUMBERS_MAX = 8
_KERNELS_MAX = 2
_NAME_MAX = 40
_DIGITS = 4
_EXACT = 2**53
"""The bound below which each float with a whole number is exact; a larger one keeps its exponent."""


class BriefRunView(View, frozen=True):
    """A run in brief: keys without news are left out, numbers have four digits, and a text that is cut ends with ….

    Long names of files and GPUs lose their end.
    """

    id: int
    """the number of the run"""
    gpu: str
    file_name: str
    mode: str
    submission: int | UnsetType = UNSET
    """the number of its submission, where that is another one; left out for a test that passed"""
    state: str | UnsetType = UNSET
    """the [state](results.md#states-of-a-run) of a run without a verdict"""
    verdict: str | UnsetType = UNSET
    """the [verdict](results.md#verdicts)"""
    message: str | UnsetType = UNSET
    """the explanation of the verdict, of an end without one, or of a wait"""
    cases: int | UnsetType = UNSET
    """the number of its cases"""
    failed: int | UnsetType = UNSET
    """the number of those that failed"""
    spec: str | UnsetType = UNSET
    """the arguments of the first case that failed"""
    wrong: int | UnsetType = UNSET
    """the number of wrong elements in its output"""
    pattern: str | UnsetType = UNSET
    """their places in words"""
    cause: str | UnsetType = UNSET
    """the cause that their values prove: `never_written`, `uninitialized_read` or `overflow`"""
    of_tolerance: float | UnsetType = UNSET
    """the largest ratio of an error to the tolerance: of the first failed case, or of all cases of a run that passed"""
    score_s: Seconds | UnsetType = UNSET
    """the score of a run that passed in mode `benchmark` or `ranked`"""
    score_low_s: Seconds | UnsetType = UNSET
    """the lower bound of the score's 80 % confidence interval"""
    score_high_s: Seconds | UnsetType = UNSET
    """its upper bound"""
    rank: int | UnsetType = UNSET
    """the rank in the standings"""
    late_s: Seconds | UnsetType = UNSET
    """the time by which the submission missed the deadline: it has no rank"""
    verdict_line: str | UnsetType = UNSET
    """the meaning of a ranked run that passed in the standings"""
    times_ns: list[Nanoseconds] | UnsetType = UNSET
    """the times of the first eight benchmark cases"""
    advice: list[str] | UnsetType = UNSET
    """the kinds of the remarks on its times"""
    kernels: list[str] | UnsetType = UNSET
    """of a profile, the two kernels, or functions on a CPU, with the largest shares of their case's time"""
    loop: str | UnsetType = UNSET
    """of a profiled C++ file, the innermost loop with the most scalar operations, by its line"""
    repeats: int | UnsetType = UNSET
    """the number of the newest earlier run of an identical file"""
    entrant: str | UnsetType = UNSET
    """the entrant of the user's account who made it"""

    @classmethod
    def of(cls, run: RunView) -> "BriefRunView":
        """Return the brief object of a run."""
        failed = [case for case in run.cases if case.verdict != "pass"]
        is_passed_test = (run.mode, run.verdict) == ("test", "pass")
        times = [_rounded(case.time_ns) for case in run.cases if isinstance(case.time_ns, float)]
        ratios = [] if failed else [case.of_tolerance for case in run.cases if isinstance(case.of_tolerance, float)]
        room = _NAMES_BYTES_MAX - (_OF_TOLERANCE_BYTES if ratios else 0)
        gpu = _cut(run.gpu, min(_GPU_BYTES_MAX, room - _FILE_BYTES_MIN))
        found = cls(
            id=run.id,
            gpu=gpu,
            file_name=_cut(run.file_name, room - len(json.dumps(gpu)) + 2),
            mode=run.mode,
            submission=UNSET if run.submission == run.id or is_passed_test else run.submission,
            state=UNSET if run.verdict else run.state,
            verdict=run.verdict or UNSET,
            cases=len(run.cases) or UNSET,
            failed=len(failed) or UNSET,
            score_s=_rounded(run.score_s),
            score_low_s=_rounded(run.score_low_s),
            score_high_s=_rounded(run.score_high_s),
            rank=run.rank or UNSET,
            late_s=_rounded(run.late_s),
            times_ns=times[:_NUMBERS_MAX] or UNSET,
            advice=[each.kind for each in run.advice] or UNSET if isinstance(run, WholeRunView) else UNSET,
            kernels=_kernels_of(run) or UNSET if isinstance(run, WholeRunView) else UNSET,
            repeats=run.repeats or UNSET,
            entrant=run.entrant or UNSET,
            **(_of_failed(failed[0]) if failed else {"of_tolerance": round(max(ratios), 2) if ratios else UNSET}),
        )
        texts = {
            "verdict_line": run.verdict_line or "",
            "message": _once(run.message) or run.reason,
            "loop": _loop_of(run),
        }
        for key, text in texts.items():
            room = (_PASSED_BYTES_MAX if run.verdict == "pass" else _BYTES_MAX) - _size(
                {**msgspec.to_builtins(found), key: ""}
            )
            found = replace(found, **{key: _shortened(text, room) or UNSET})
        return found


def _once(message: str) -> str:
    """Return a message without the end of its traceback, where that repeats the first line."""
    head, _, rest = message.partition("\n")
    return f"{head}\n{rest.strip().removesuffix(head)}".strip()


def _kernels_of(run: WholeRunView) -> list[str]:
    has_cases = len({each.case for each in run.kernels}) > 1
    longest = sorted(run.kernels, key=lambda each: -(each.time_share or 0))[:_KERNELS_MAX]
    kernels = [
        f"{f'case {each.case + 1}, ' if has_cases else ''}{one_line(each.name, _NAME_MAX)}: {numbers_text(each)}"
        for each in longest
    ]
    return [_shortened(each, _KERNEL_BYTES_MAX) for each in kernels]


def _loop_of(run: RunView) -> str:
    loops = run.loops if isinstance(run, WholeRunView) else ()
    loop = max(loops, key=lambda each: each.scalar_arithmetic, default=None)
    return "" if loop is None else f"line {loop.line}: {loop_text(loop)}"


def _of_failed(case: CaseView) -> dict[str, Any]:
    found: dict[str, Any] = {"spec": _shortened(case.spec, _SPEC_BYTES_MAX, "; ")}
    if isinstance(case.mismatch, View):
        found["wrong"] = UNSET if case.mismatch.wrong is None else case.mismatch.wrong
        found["pattern"] = _shortened(case.mismatch.pattern, _PATTERN_BYTES_MAX) or UNSET
        found["cause"] = case.mismatch.cause or UNSET
        found["of_tolerance"] = _rounded(case.mismatch.of_tolerance)
    return found


class BriefLookView(View, frozen=True):
    """Your runs in flight, and those that ended since the last look, in numbers."""

    in_flight: dict[str, int]
    """the number of runs in flight by state"""
    ended: dict[str, int]
    """the number of ended runs by verdict, of those without one by state"""
    failed: list[int]
    """the newest eight of them that did not pass"""
    runners: int
    """the number of runners that have not ended"""

    @classmethod
    def of(cls, look: LookView) -> "BriefLookView":
        """Return the brief object of a look."""
        return cls(
            in_flight=Counter(run.state for run in look.in_flight),
            ended=Counter(run.verdict or run.state for run in look.ended),
            failed=[run.id for run in look.ended if run.verdict != "pass"][:_NUMBERS_MAX],
            runners=len(look.runners),
        )


class BriefTaskView(View, frozen=True):
    """A task in a list, in brief."""

    name: str
    """the name of the task"""
    languages: list[str]
    """the languages that it accepts"""
    gpus: list[str]
    """the GPUs on which it may run here"""
    description: str
    """the beginning of its description"""
    deadline: Moment | UnsetType = UNSET
    """its deadline, if it has one"""

    @classmethod
    def of(cls, task: TaskView) -> "BriefTaskView":
        """Return the brief object of a task."""
        return cls(
            name=task.name,
            languages=task.languages,
            gpus=task.gpus,
            deadline=task.deadline or UNSET,
            description=_shortened(first_sentence(task.description), _DESCRIPTION_BYTES_MAX),
        )


def short_of(view: Any, fields: Sequence[str] = ()) -> Any:
    """Return an object or a list of them with these keys alone, or in brief without any.

    Submissions become their runs, among whose keys are then those of the submission. A key of an inner object is behind
    that of its own, as in `job.node`. Objects without a brief form become `compact`.
    """
    sent = view if isinstance(view, list) else [view]
    if not all(isinstance(each, SubmissionView) for each in sent):
        return _with_keys(msgspec.to_builtins(view), _tree(fields)) if fields else _brief(view)
    if not fields:
        return [_brief(run) for each in sent for run in each.runs]
    merged = [{**each, **run} for each in msgspec.to_builtins(sent) for run in each["runs"]]
    return _with_keys(merged, _tree(fields))


def _brief(view: Any) -> Any:
    if isinstance(view, list):
        return list(map(_brief, view))
    if isinstance(view, RunView):
        return msgspec.to_builtins(BriefRunView.of(view))
    if isinstance(view, LookView):
        return msgspec.to_builtins(BriefLookView.of(view))
    if type(view) is TaskView:
        return msgspec.to_builtins(BriefTaskView.of(view))
    return compact(msgspec.to_builtins(view))


def compact(value: Any) -> Any:
    """Return a value of JSON without the keys that are `null`, empty or false; numbers have four digits."""
    if isinstance(value, list):
        return list(map(compact, value))
    if isinstance(value, dict):
        kept = {key: compact(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each is not False and each not in (None, "", [], {})}
    return _rounded(value) if isinstance(value, float) and value else value


def _tree(fields: Sequence[str]) -> dict[str, Any]:
    """Return the keys of an object, each with those of its inner object; one without any is whole."""
    found: dict[str, Any] = {}
    for field in fields:
        inner = found
        for key in field.split("."):
            inner = inner.setdefault(key, {})
    return found


def _with_keys(value: Any, keys: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_with_keys(each, keys) for each in value]
    if not keys or not isinstance(value, dict):
        return value
    return {key: _with_keys(value[key], inner) for key, inner in keys.items() if key in value}


def _rounded(number: float | None) -> Any:
    """Return a number with its first digits; UNSET without one."""
    if not number:
        return UNSET
    found = round(number, _DIGITS - 1 - math.floor(math.log10(abs(number))))
    return int(found) if abs(found) < _EXACT and found.is_integer() else found


def _shortened(text: str, bytes_max: int, separator: str = " ") -> str:
    """Return a text on one line that takes so many bytes in JSON: without its last words, for which there is a ….

    It is empty if nothing fits before the ….
    """
    whole = one_line(text, bytes_max + 1)
    if _cut(whole, bytes_max) == whole:
        return whole
    kept = _cut(whole, bytes_max - len(json.dumps("…")) + 2)
    return f"{''.join(kept.rpartition(separator)[:2]) or kept}…" if kept else ""


def _cut(text: str, bytes_max: int) -> str:
    """Return a text on one line, cut so that it takes so many bytes in JSON."""
    line = one_line(text, bytes_max + 1)
    sizes = accumulate(len(json.dumps(character)) - 2 for character in line)
    return line[: sum(size <= bytes_max for size in sizes)]


def _size(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":")))
