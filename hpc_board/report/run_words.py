"""Short texts for a run's progress and times."""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from hpc_board.domain.run import Progress, Run, RunState
from hpc_board.model.result import HIDDEN_MESSAGE, Verdict
from hpc_board.model.task import HIDDEN
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Tone
from hpc_board.report.formatting import span_text

START, JUDGED = "start", "end"
"""The harness's first step, and its last one, before it writes the result."""

_VERDICT_WORDS = {
    Verdict.WRONG_DTYPE: "wrong type",
    Verdict.WRONG_NONFINITE: "wrong (NaN or inf)",
    Verdict.WRONG_ALIASED: "output aliases input",
    Verdict.MUTATED_INPUT: "modified its input",
    Verdict.COMPILE_ERROR: "failed to compile",
    Verdict.COMPILE_TIMEOUT: "compile time limit",
    Verdict.LOAD_ERROR: "failed to load",
    Verdict.CRASH: "crashed",
    Verdict.TIMEOUT: "time limit",
    Verdict.TIMING_INCONSISTENT: "inconsistent timing",
    Verdict.BELOW_FLOOR: "impossibly fast",
    Verdict.UNSTABLE: "unstable timing",
    Verdict.INFRA_ERROR: "system error",
}
"""The words of verdicts whose JSON names are no words."""

_STATE_WORDS = {RunState.NODE_FAIL: "node failure", RunState.TIMEOUT: "job timeout"}

_CASE_FIRST = r"(?s)(?P<place>\w+ case \d+( of \d+)?( \(.*?\))?): (?P<message>.+)"
_COMPILER_FIRST = (
    r"(?s)\S+ (?:exited with status|was killed by signal) \d+: "
    r"(?P<place>[^\s:(]+(?:\(\d+\)|:\d+(?::\d+)?)): (?:fatal )?error: (?P<message>.+)"
)
"""The message of a failed compilation, whose error is in the form of GCC and Clang or in that of nvcc."""
_CANCEL = re.compile(r"^cancel(?:led| requested) (by \S+)(?: at \S+ UTC)?")
_CANCELLED_BY = re.compile(r"cancel(?:led| requested) by (?P<user>\S+)")
_SPEC = r"(\w+): ([^;]+)(?:; |$)"
_ROUND = re.compile(r" \(process (\d{1,3}) of (\d{1,3})\)$|(?P<again>, measuring again: .*), (\d{1,3}) of (\d{1,3})$")
_VERDICT_CHARACTERS_MAX = 40


def verdict_text(verdict: Verdict) -> str:
    """Return a verdict in words."""
    return _VERDICT_WORDS.get(verdict, str(verdict).replace("_", " "))


def state_text(state: RunState) -> str:
    """Return a state in words."""
    return _STATE_WORDS.get(state, str(state).replace("_", " "))


def outcome_words(outcome: Verdict | RunState) -> str:
    """Return a verdict or a state in words."""
    return verdict_text(outcome) if isinstance(outcome, Verdict) else state_text(outcome)


def ended_before_text(run: Run) -> str:
    """Return the answer to the cancellation of a run that had ended already."""
    return f"Run {run.id} has already ended: {outcome(run)}."


def outcome(run: Run) -> str:
    """Return the verdict of a finished run in words, else its state, or that it is being cancelled."""
    if run.status.cancel_requested and not run.state.ended:
        return "cancelling"
    return outcome_words(run.verdict or run.state)


def canceller(run: Run) -> str:
    """Return the user who cancelled a run, empty for other ends, and if its reason names none."""
    found = _CANCELLED_BY.match(run.status.reason) if run.state is RunState.CANCELLED else None
    return found["user"] if found else ""


def at_runner(run: Run) -> str:
    """Return the runner of a run in words, "at runner 3"; empty for a run with a job of its own."""
    return "" if run.status.runner is None else f"at runner {run.status.runner}"


def run_tone(run: Run) -> Tone:
    """Return the tone of a run: good if it passed, quiet if it was cancelled, bad if it ended otherwise."""
    if run.verdict is Verdict.PASS:
        return Tone.GOOD
    if run.state is RunState.CANCELLED:
        return Tone.QUIET
    return Tone.BAD if run.state.ended else Tone.PLAIN


def cause_first(message: str) -> str:
    """Return a message with the case or the line of the source at its end: "3 values differ, in test case 2 of 5".

    A hidden case has no cause, and comes first.
    """
    if message.endswith(HIDDEN_MESSAGE):
        return message
    found = re.fullmatch(_CASE_FIRST, message) or re.fullmatch(_COMPILER_FIRST, message)
    return f"{found['message']}, in {found['place']}" if found else message


def without_verdict(message: str, verdict: Verdict | None) -> str:
    """Return a message that follows its verdict's words, without a repetition of them."""
    return message if verdict is None else message.removeprefix(f"{verdict_text(verdict)} ")


class ShortSpecs(msgspec.Struct, frozen=True):
    """The short texts of cases, "8192 x 257", and the names of their numbers, "rows x cols"; whole texts have none."""

    texts: tuple[str, ...]
    names: str = ""


def short_specs(specs: Iterable[str]) -> ShortSpecs:
    """Return the texts of cases without seeds and repeated names; whole where cases look the same or one is hidden."""
    whole = tuple(map(one_line, specs))
    parts = [[(name, value.strip()) for name, value in re.findall(_SPEC, text) if name != "seed"] for text in whole]
    names = {tuple(name for name, _ in each) for each in parts}
    texts = tuple(" x ".join(value for _, value in each) for each in parts)
    is_any_hidden = any(text.startswith(HIDDEN) for text in whole)
    if len(names) != 1 or not all(texts) or len(set(texts)) < len(texts) or is_any_hidden:
        return ShortSpecs(whole)
    return ShortSpecs(texts, " x ".join(names.pop()))


def why(run: Run) -> str:
    """Return the reason for a run's state: the judge's message, its cause first, or the scheduler's."""
    if run.message or run.status.reason:
        return without_verdict(cause_first(run.message), run.verdict) or run.status.reason
    if run.state.ended or run.state is RunState.SUBMITTING:
        return run.status.source
    return f"on {run.status.node}" if run.status.node else ""


class Round(msgspec.Struct, frozen=True):
    """The measurement of all benchmarks by process `number` of `of`, or of uncertain ones `again`."""

    number: int
    of: int
    again: bool = False


def round_of(step: Progress) -> Round | None:
    """Return the round of a benchmark, which is at the end of the judge's message; None if there is only one."""
    found = _ROUND.search(step.message) if step.phase == "benchmark" else None
    if found is None:
        return None
    number, of = map(int, filter(str.isdigit, filter(None, found.groups())))
    return Round(number, of, again=found["again"] is not None)


def round_text(found: Round, between: str = " of ") -> str:
    """Return a round in words: "round 2 of 3", "repeat 1 of 5"."""
    return f"{'repeat' if found.again else 'round'} {found.number}{between}{found.of}"


def step_message(step: Progress) -> str:
    """Return the message of a step without its round or its verdict, which `place_text` has, or mode and GPU."""
    if step.phase in (START, JUDGED):
        return ""
    return _ROUND.sub(lambda found: found["again"] or "", step.message) if round_of(step) else step.message


def place_text(step: Progress, *, short: bool = False) -> str:
    """Return the position of a running harness: "round 2 of 3, benchmark 1 of 4".

    If `short`, it is "round 2/3, benchmark 1/4". A step without a round or a case has neither;
    the last one has the verdict.
    """
    if step.phase == JUDGED:
        known = step.message in set(Verdict)
        words = verdict_text(Verdict(step.message)) if known else one_line(step.message, _VERDICT_CHARACTERS_MAX)
        return f"verdict: {words}{'' if short else '; the result follows'}"
    if step.phase == START:
        return "starting the judge"
    phase = one_line(step.phase, 20) if short else step.phase
    if step.case is None or step.of is None:
        return phase
    between, found = "/" if short else " of ", round_of(step)
    place = f"{phase} {step.case}{between}{step.of}"
    return place if found is None else f"{round_text(found, between)}, {place}"


def why_now(run: Run, progress: Progress | None) -> str:
    """Return a run's current step, if any, and the reason for its state."""
    step = "" if progress is None or run.status.cancel_requested else place_text(progress, short=True)
    # In a narrow list, the user is the part that must not be cut; the state says the rest, and the age when.
    return " · ".join(filter(None, (step, _CANCEL.sub(r"\1", why(run)))))


def waited(run: Run, started: datetime | None, now: datetime) -> timedelta | None:
    """Return a run's waiting time before its start; None if its start is unknown."""
    if run.state.unsent or run.state is RunState.QUEUED:
        return now - run.created_at
    return None if started is None else max(timedelta(0), started - run.created_at)


def ran(run: Run, started: datetime | None, now: datetime) -> timedelta | None:
    """Return a run's time on its node; None if its start is unknown."""
    if run.state is RunState.RUNNING:
        return now - (started or run.status.at)
    if started is None or run.state.unsent or run.state is RunState.QUEUED:
        return None
    return max(timedelta(0), (run.ended_at or run.status.at) - started)


def span(length: timedelta | None) -> str:
    """Return a duration in its largest unit, empty for None."""
    return "" if length is None else span_text(length)


def times(run: Run, started: datetime | None, now: datetime) -> str:
    """Return a run's waiting and running time in one line: "waits 3 min", "waited 4 s · ran 12 s"."""
    wait, time = waited(run, started, now), ran(run, started, now)
    waits = run.state.unsent or run.state is RunState.QUEUED
    parts = [
        f"{'waits' if waits else 'waited'} {span(wait)}" if wait is not None else "",
        f"{'ran' if run.state.ended else 'has run'} {span(time)}" if time is not None else "",
    ]
    return " · ".join(filter(None, parts))


def start_text(at: datetime, now: datetime) -> str:
    """Return an expected start: "in 12 min", "05-18 09:00" for a distant one, "soon" for a past one."""
    if at <= now:
        return "soon"
    if at - now < timedelta(hours=12):
        return f"in {span_text(at - now)}"
    return f"{at.astimezone():%m-%d %H:%M}"


def age(run: Run, now: datetime) -> str:
    """Return the time since a run's last change of state, or since the end of its job."""
    return span_text(now - (run.ended_at or run.status.at))


def trust(run: Run) -> str:
    """Return the trust in a time: "self-run", "verified, emulated"."""
    return ", ".join(filter(None, (run.trust, "emulated" if run.emulated else "")))
