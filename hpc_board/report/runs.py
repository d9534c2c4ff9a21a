"""A run as blocks: its outcome, its cases, and all that is known of it."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import PurePath
from typing import Any

from hpc_board.domain.board_options import moment_words
from hpc_board.domain.comparison import LeaderRun
from hpc_board.domain.gpu_names import parse_gpu_name
from hpc_board.domain.origin import tag_words
from hpc_board.domain.run import RETRY, Progress, Run, RunState, Status
from hpc_board.domain.score_interval import full_score_text
from hpc_board.domain.standing import Placing, verdict_line
from hpc_board.domain.submission import NOTE_CHARACTERS_MAX
from hpc_board.domain.usage import Usage, usage_of
from hpc_board.model.means import means_text
from hpc_board.model.mismatch import Cause, Mismatch
from hpc_board.model.peaks import Peak, Share
from hpc_board.model.result import (
    PUBLIC_PASSED,
    STOPPED,
    USAGE,
    Case,
    Result,
    Timing,
    Verdict,
    case_share,
    device_peak,
)
from hpc_board.model.sanitizer import SanitizerFinding
from hpc_board.model.score import duration_text, figures
from hpc_board.model.task import OWN, Mode
from hpc_board.model.text import one_line, printable, with_article
from hpc_board.report.blocks import Block, Column, Facts, Heading, Paragraph, Table, Tone, table
from hpc_board.report.case_bars import best_times, case_bars
from hpc_board.report.explanations import failed_case, state_meaning, verdict_meaning
from hpc_board.report.formatting import (
    amount_text,
    bytes_text,
    count_text,
    late_text,
    moment_text,
    span_text,
    speedup_fact,
    speedup_text,
    speedup_tone,
    telling_line,
)
from hpc_board.report.kernels import kernel_lines, loop_blocks
from hpc_board.report.logs import job_log, json_command, kernel_logs, message_log, profile_log
from hpc_board.report.moderation import removal_text
from hpc_board.report.run_progress import BegunCase, begun_cases
from hpc_board.report.run_words import (
    JUDGED,
    at_runner,
    canceller,
    cause_first,
    outcome,
    place_text,
    run_tone,
    short_specs,
    state_text,
    step_message,
    verdict_text,
    without_verdict,
)
from hpc_board.report.times import (
    hidden_ratio_text,
    in_rows,
    noise_advice,
    noise_line,
    processors_of,
    scatter_name,
    scatter_text,
)

_TRUST = {
    "self-run": "self-run: the user's account sends the job",
    "verified": "verified: the board's account sends the job",
}
_BY_INPUTS = (
    Verdict.WRONG_SHAPE,
    Verdict.WRONG_DTYPE,
    Verdict.WRONG_VALUE,
    Verdict.WRONG_NONFINITE,
    Verdict.WRONG_ALIASED,
    Verdict.MUTATED_INPUT,
    Verdict.EXCEPTION,
    Verdict.CRASH,
    Verdict.TIMEOUT,
)
"""The verdicts that may depend on a call's input values, and so on their seed."""

_CELL_CHARACTERS_MAX = 200
_CHILDREN_MAX = 20
_FAILED = "failed to "
_SEED = re.compile(r"; seed: *-?\d+\b|\bseed: *-?\d+; ")
_SHORT_HASH = 12


def run_report(
    run: Run,
    result: Result | None,
    history: Sequence[Status] = (),
    progress: Sequence[Progress] = (),
    placing: Placing | None = None,
    *,
    log: str = "",
    reader: str = "",
    best: LeaderRun | None = None,
    children: Sequence[int] = (),
) -> tuple[Block, ...]:
    """Return all that is known of a run: outcome, explanation, cases, output, evidence and machine.

    `placing` is the place of a run that counts in the standings; `log` is the job's output, shown without a result;
    `reader` is the user who reads it; `best` is rank 1 of the board, if it is another run; `children` are the
    submissions that continue its own.
    """
    blocks = run_outcome(run, result, history, progress, placing, log=log, reader=reader, whole=True, best=best)
    of_run = Heading("Run"), Facts(tuple(_run_facts(run, children)))
    return (_title(run), *blocks, *of_run, *_noise_blocks(result), *machine_blocks(result))


def run_summary(
    run: Run,
    result: Result | None,
    history: Sequence[Status] = (),
    placing: Placing | None = None,
    *,
    log: str = "",
    reader: str = "",
    best: LeaderRun | None = None,
) -> tuple[Block, ...]:
    """Return the short report of a run that has ended: outcome, times, failures and profile."""
    first, *rest = run_outcome(run, result, history, placing=placing, log=log, reader=reader, best=best)
    if result is not None and not result.interrupted:
        rest += [*profile_log(result), Paragraph(_vouching_text(run, result), Tone.QUIET)]
    return (_title(run), first, *rest)


def trial_report(run: Run, result: Result) -> tuple[Block, ...]:
    """Return the report of a submission that was judged on this machine, for a task that may be on no board."""
    title = Heading(f"{one_line(run.file_name)} for {run.task}, mode {run.mode}, on this machine's {run.gpu}")
    return (title, *run_outcome(run, result, whole=True), *_noise_blocks(result), *machine_blocks(result))


def run_outcome(
    run: Run,
    result: Result | None,
    history: Sequence[Status] = (),
    progress: Sequence[Progress] = (),
    placing: Placing | None = None,
    *,
    log: str = "",
    logs: bool = True,
    tables: bool = True,
    tests: bool = False,
    reader: str = "",
    whole: bool = False,
    best: LeaderRun | None = None,
) -> tuple[Block, ...]:
    """Return the first part of a report: outcome, times and failures.

    `logs` is whether it has the output of a kernel that failed, and of a job without a result, `tables` whether it has
    those of the cases, `tests` whether a pass in mode test has its tests. A `whole` one has all
    passed tests, the profile and the output of a kernel that passed besides. `best` is as for `run_report`.
    """
    blocks: list[Block] = [*_removal_blocks(run)]
    if result is not None and not result.interrupted:
        passed = result.verdict is Verdict.PASS
        has_tests = whole or not passed or (tests and run.mode is Mode.TEST)
        shown = [case for case in result.cases if case.phase != "test" or has_tests]
        blocks += _result_blocks(run, result, placing, shown, reader, best, tables=tables)
        blocks += profile_log(result) if whole else ()
        blocks += kernel_logs(run, result) if logs and (whole or not passed) else ()
    elif run.state.ended:
        blocks += _end_blocks(run, history, log if logs else "", result, reader)
    else:
        blocks += _waiting_blocks(run, progress, best, tables=tables)
    return tuple(blocks)


def outcome_line(run: Run, result: Result | None, placing: Placing | None = None, *, reader: str = "") -> Paragraph:
    """Return the outcome of a run that has ended with its number, on one line."""
    return _outcome(run, result, placing, reader, f"Run {run.id}: ")


def _title(run: Run) -> Heading:
    return Heading(f"Run {run.id}: {run.task} on {run.gpu}, mode {run.mode}")


def _vouching_text(run: Run, result: Result) -> str:
    """Return account, harness, isolation, node and job of a run in one line."""
    isolation, clock = result.provenance.get("isolation"), result.provenance.get("clock")
    parts = (
        run.trust,
        "evaluated by the task's own harness" if _by_own_eval(result) else "",
        f"isolation {isolation}" if isolation else "",
        f"clock {clock}" if clock else "",
        "run as root" if result.provenance.get("root") else "",
        f"node {run.status.node}" if run.status.node else "",
        f"job {run.status.job_id}" if run.status.job_id else "",
        at_runner(run),
    )
    return " · ".join(one_line(part) for part in parts if part)


def run_evidence(
    run: Run, history: Sequence[Status], result: Result | None = None, children: Sequence[int] = ()
) -> tuple[Block, ...]:
    """Return every status of a run with its time and source, the facts on the run and its job, and its remarks.

    `machine_blocks` has the hashes that the result has.
    """
    blocks: list[Block] = [_history_table(history)]
    last = run.status
    if last.unanswered:
        blocks.append(Paragraph("Submission unconfirmed; looking up the job until the scheduler answers."))
    if last.cancel_requested and not run.state.ended:
        blocks.append(Paragraph("Cancel requested; retrying until the scheduler answers."))
    facts = (
        ("job name", one_line(run.token)),
        ("expected start", moment_text(last.expected_start) if last.expected_start else ""),
        ("left the queue", moment_text(last.ended_in_queue_at) if last.ended_in_queue_at else ""),
        ("submission sha256", run.code_sha256[:_SHORT_HASH]),
        ("harness sha256", run.harness_sha256[:_SHORT_HASH]),
    )
    of_machine = result.provenance if result else {}
    of_job = tuple(fact for fact in facts if fact[1] and fact[0].replace(" ", "_") not in of_machine)
    return (*blocks, Heading("Run"), Facts((*_run_facts(run, children), *of_job)), *_noise_blocks(result))


def _removal_blocks(run: Run) -> Iterator[Block]:
    removal = run.remarks.removal
    if removal is not None:
        yield Paragraph(f"Not in the standings: {removal_text(removal)}", Tone.BAD)
    if run.late_seconds is not None:
        late = f"{late_text(run.late_seconds)}; the deadline was {moment_words(run.due_at)}"
        yield Paragraph(
            f"Not in the standings: {late}." if run.mode is Mode.RANKED else f"{late.capitalize()}.", Tone.BAD
        )


def _verdict_line(run: Run, placing: Placing | None, reader: str) -> str:
    """Return the place of a run on its board in words; empty if it does not count."""
    if run.score_s is None:
        return ""
    if run.milestone:
        return f"Milestone {one_line(run.milestone)} on {run.gpu}: {full_score_text(run.score_s, run.interval)}"
    if placing is None:
        return ""
    return verdict_line(run.gpu, run.score_s, placing, run.interval, own=run.user == reader)


def _result_blocks(
    run: Run,
    result: Result,
    placing: Placing | None,
    cases: Sequence[Case],
    reader: str,
    best: LeaderRun | None,
    *,
    tables: bool,
) -> Iterator[Block]:
    yield _outcome(run, result, placing, reader)
    yield from _of_tolerance_blocks(result)
    if used := means_text(result.means):
        yield Paragraph(f"{one_line(used)}.")
    yield from kernel_lines(result.kernels, f"; all numbers: {json_command(run)}")
    yield from loop_blocks(result.loops, result.remarks, run.file_name)
    yield from finding_lines(result.findings, json_command(run))
    found = {each.tool for each in result.findings}
    clean = [tool for tool in str(result.provenance.get("sanitizer", "")).split(", ") if tool and tool not in found]
    if clean and result.verdict is Verdict.PASS:
        yield Paragraph(f"{one_line(', '.join(clean))}: no faults.")
    if result.verdict is not Verdict.PASS:
        meaning = verdict_meaning(
            result.verdict,
            result.message,
            task=run.task,
            on_cpu=_on_cpu(run),
            stored=run.stored,
            failed=failed_case(result.cases),
            file_name=run.file_name,
        )
        yield Paragraph(f"{meaning.what}\n{meaning.next}{_reproduction_note(run, result)}")
    if run.emulated:
        yield Paragraph(
            f"Emulated: this cluster runs {run.gpu} jobs on a CPU; the times do not apply to {with_article(run.gpu)}.",
            Tone.UNSURE,
        )
    peak, processors = device_peak(result), processors_of(result)
    own_eval, told = _by_own_eval(result), _same_failures(result) > 1
    yield from _case_blocks(
        run, cases, own_eval=own_eval, peak=peak, processors=processors, told=told, tables=tables, best=best
    )
    if "\n" in result.message.strip():
        yield message_log(run, "message", result.message)


def _of_tolerance_blocks(result: Result) -> Iterator[Paragraph]:
    """Yield the largest error of a run that passed as a share of the tolerance, if it is known."""
    known = [(case.of_tolerance, case) for case in result.cases if case.of_tolerance is not None]
    if known and result.verdict is Verdict.PASS:
        ratio, case = max(known, key=lambda each: each[0])
        yield Paragraph(f"The {of_tolerance_text(ratio)} ({case.phase} {case.index + 1}).")


def of_tolerance_text(ratio: float) -> str:
    """Return the largest error of a right output in words."""
    return f"largest error is {_percent_text(ratio)} of the tolerance"


def _percent_text(ratio: float) -> str:
    return "under 0.1 %" if 0 < ratio < 0.001 else f"{figures(100 * ratio, 2)} %"


def _raised_at(run: Run, result: Result) -> str:
    """Return the place in the run's file of the exception that it reports, "kernel.py:9: "; empty without one."""
    line = _raised_line(run, result)
    return f"{one_line(run.file_name)}:{line}: " if line else ""


def _raised_line(run: Run, result: Result) -> str:
    file = re.escape(one_line(run.file_name))
    failed = next((case.message for case in result.cases if case.verdict is result.verdict), "")
    for text in (result.message, failed):
        if lines := re.findall(rf'^  File "{file}", line (\d{{1,7}})', text, re.MULTILINE):
            return str(lines[-1])
    return ""


def faulty_line(run: Run, result: Result) -> str:
    """Return the line of the run's file that raised its exception or has the first compiler error; empty if unknown."""
    place = rf"(?:^|[\s/]){re.escape(run.file_name)}[:(](\d{{1,7}})\b.{{0,200}}\berror\b"
    error = re.search(place, result.build.text, re.MULTILINE)
    return _raised_line(run, result) or (error[1] if error else "")


def _reproduction_note(run: Run, result: Result) -> str:
    """Return lines on the inputs of the failed case, and the commands that judge the file on the reader's machine."""
    if PUBLIC_PASSED in result.message:
        text = "The case shows the public seed; reproduce the failure locally with other seeds."
        return f"\n{text}{_local_commands(run, run.mode)}"
    case = next((case for case in result.cases if case.verdict is not Verdict.PASS), None)
    if case is None or case.is_hidden or case.verdict not in _BY_INPUTS or _by_own_eval(result):
        return ""
    if case.phase != "test" and run.mode is not Mode.PROFILE:
        text = "The failing seed is secret and differs from the one shown; try several seeds to reproduce the failure."
        return f"\n{text}{_local_commands(run, run.mode)}"
    if case.phase != "test" or not run.stored:
        return ""
    text = f"`hpc-board run {run.id} --case {case.index + 1} --inputs FILE` writes the inputs of the case."
    return f"\n{text}{_local_commands(run, Mode.TEST)}"


def _local_commands(run: Run, mode: Mode) -> str:
    """Return a line with the commands that judge a stored run's file on the reader's machine, in this mode."""
    if not run.stored:
        return ""
    # Another name than the file's own, which is likely to be there.
    file = shlex.quote(f"run{run.id}{PurePath(one_line(run.file_name)).suffix}")
    judge = f"hpc-board task test {run.task} --submission {file}"
    if mode is not Mode.TEST:
        judge += f" --mode {mode}"
    if not _on_cpu(run):
        model = parse_gpu_name(run.gpu).model
        judge += f" --device {'cuda' if model is None else model.device}"
    return f"\n`hpc-board code {run.id} -o {file}` and `{judge}` judge it on your machine."


def _on_cpu(run: Run) -> bool:
    return run.emulated or run.gpu.upper() == "CPU"


def _by_own_eval(result: Result) -> bool:
    return result.provenance.get("harness") == OWN


def _case_blocks(
    run: Run,
    cases: Sequence[Case],
    *,
    own_eval: bool,
    peak: Peak | None = None,
    processors: int | None = None,
    told: bool = False,
    tables: bool = True,
    best: LeaderRun | None = None,
) -> Iterator[Block]:
    """Yield the tables of tests and benchmarks, the bars of these, and the details of the first failure.

    The tables have no messages if the outcome has `told` the only one. Without `tables`, there are no wrong values.
    """
    tests = [case for case in cases if case.phase == "test"]
    others = [case for case in cases if case.phase != "test"]
    if tests and tables:
        yield _tests_table("Tests", tests, told=told)
    if others:
        timed = any(case.timing for case in others)
        best_ns = best_times(others, best)
        if tables and not timed:
            yield _tests_table("Benchmarks", others, told=told)
        elif tables:
            yield _benchmarks_table(others, best_ns, best.name if best else "", own_eval=own_eval, peak=peak, told=told)
        if timed:
            specs = short_specs(case.spec for case in others).texts
            pairs = zip(specs, others, strict=True)
            yield from case_bars(
                [(text, case.timing, best_ns.get(case.index)) for text, case in pairs if case.timing], best
            )
        if timed and all(case.verdict is Verdict.PASS for case in cases):
            if noise := noise_line(others, processors):
                yield Paragraph(noise, Tone.UNSURE)
            if hidden := hidden_ratio_text(others):
                yield Paragraph(hidden)
    for case in cases:
        if "\n" in case.message.strip():
            yield message_log(run, f"{case.phase} {case.index + 1}", case.message)
            break
    wrong = [(case, case.mismatch) for case in cases if tables and case.mismatch is not None]
    for case, mismatch in wrong[:1]:
        yield Heading(f"Wrong values of {case.phase} {case.index + 1}")
        yield from mismatch_blocks(mismatch)
    if len(wrong) > 1:
        more = count_text(len(wrong) - 1, "other wrong case")
        page = " and the page Cases of the app show" if run.stored else " shows"
        yield Paragraph(f"{json_command(run)}{page} the values of {more}.")


def _cases_title(title: str, cases: Sequence[Case | BegunCase]) -> str:
    """Return the title of a table of cases, with the names of its numbers."""
    names = short_specs(case.spec for case in cases).names
    return f"{title} (case: {names})" if names else title


def _outcome(
    run: Run, result: Result | None, placing: Placing | None = None, reader: str = "", before: str = ""
) -> Paragraph:
    text = f"{before}{_outcome_text(run, result, placing, reader)}"
    # That a run passed is good; its time, which follows, may be slower than its user's best.
    toned = text.find(". ") + 1 if run.verdict is Verdict.PASS else 0
    return Paragraph(text, run_tone(run), toned or None)


def _outcome_text(run: Run, result: Result | None, placing: Placing | None = None, reader: str = "") -> str:
    """Return the outcome of a run that has ended, in one or two sentences."""
    if result is not None and not result.interrupted:
        passed = result.verdict is Verdict.PASS
        return _passed_text(run, result, placing, reader) if passed else _failed_text(run, result)
    is_finished = run.state is RunState.FINISHED
    if user := canceller(run):
        after = span_text((run.ended_at or run.status.at) - run.created_at)
        return f"Cancelled by {'you' if user == reader else one_line(user)} after {after}."
    reason = printable(run.message if is_finished else run.status.reason).strip()
    return f"{'Finished' if is_finished else 'Ended without a result'}: {outcome(run)}" + (
        f"; {reason}" if reason else "."
    )


def _passed_text(run: Run, result: Result, placing: Placing | None, reader: str) -> str:
    counts = _counts_text(result)
    parts = [f"Passed: {counts}." if counts else "Passed."]
    line = _verdict_line(run, placing, reader)
    if line:
        parts.append(f"{line}.")
    elif run.score_s is not None:
        parts.append(f"Score {full_score_text(run.score_s, run.interval)}.")
    if result.message:
        parts.append(f"{'The benchmark ' if STOPPED in result.provenance else ''}{one_line(result.message, 200)}.")
    return " ".join(parts)


def _counts_text(result: Result) -> str:
    """Return the number of cases of each kind: "5 tests and 1 benchmark"."""
    counts = {phase: sum(case.phase == phase for case in result.cases) for phase in ("test", "benchmark")}
    return " and ".join(count_text(count, phase) for phase, count in counts.items() if count)


def _passed_counts(result: Result) -> str:
    """Return the number of passed cases of an interrupted run: "2 tests and 1 benchmark passed"."""
    from dataclasses import replace

    passed = tuple(case for case in result.cases if case.verdict is Verdict.PASS)
    return f"{_counts_text(replace(result, cases=passed)) or 'no cases'} passed"


def _failed_text(run: Run, result: Result) -> str:
    line = telling_line(result.message, 2000)
    cause = cause_first(line)
    more = f" and {same - 1} more" if (same := _same_failures(result)) > 1 and cause != line else ""
    message = f"{_raised_at(run, result)}{cause}{more}"
    verdict = verdict_text(result.verdict)
    told = f"{verdict[0].upper()}{verdict[1:]}"
    if not verdict.startswith(_FAILED):
        told = f"{'Failed' if result.verdict.blames_kernel else 'Not evaluated'}: {verdict}"
    rest = without_verdict(message, result.verdict)
    if rest != message:
        return f"{told} {rest}"
    return f"{told}{';' if ':' in told else ':'} {message}" if message else f"{told}."


def _tests_table(title: str, cases: Sequence[Case], *, told: bool) -> Table:
    """Return a row for each test; consecutive ones with the same failure share one."""
    specs = short_specs(case.spec for case in cases).texts
    groups = [tuple(group) for _, group in groupby(zip(cases, specs, strict=True), lambda each: _sameness(each[0]))]
    return table(
        groups,
        (Column("#", right=True), _numbers),
        (Column("OUTCOME", toned=True), lambda group: verdict_text(group[0][0].verdict)),
        (
            Column("MESSAGE", flexible=True, least=20, wraps=True, optional=True),
            lambda group: "" if told else without_verdict(_cell(group[0][0]), group[0][0].verdict),
        ),
        (
            Column("OF TOLERANCE", right=True, leaves=1, optional=True),
            lambda group: "" if group[0][0].of_tolerance is None else _percent_text(group[0][0].of_tolerance),
        ),
        (
            Column("CASE", flexible=True, optional=True),
            lambda group: group[0][1] + (f" and {len(group) - 1} more" if len(group) > 1 else ""),
        ),
        tones=tuple(Tone.PLAIN if group[0][0].verdict is Verdict.PASS else Tone.BAD for group in groups),
        title=_cases_title(title, cases),
    )


def _numbers(group: Sequence[tuple[Case, str]]) -> str:
    first, last = group[0][0].index + 1, group[-1][0].index + 1
    return f"{first}" if len(group) == 1 else f"{first} to {last}"


def _cell(case: Case) -> str:
    return telling_line(case.message, _CELL_CHARACTERS_MAX)


def _sameness(case: Case) -> tuple[Any, ...]:
    """Return a key that is equal for cases with the same failure, which a message tells; any other case has its own."""
    failed = case.verdict is not Verdict.PASS and case.message.strip()
    return (case.verdict, telling_line(case.message)) if failed else (case.index,)


def _same_failures(result: Result) -> int:
    """Return the number of the failed cases if they failed alike, else 0."""
    failed = [case for case in result.cases if case.verdict is not Verdict.PASS]
    return len(failed) if len({_sameness(case) for case in failed}) == 1 else 0


def _benchmarks_table(
    cases: Sequence[Case],
    best_ns: Mapping[int, float],
    of_best: str,
    *,
    own_eval: bool,
    peak: Peak | None,
    told: bool,
) -> Table:
    """Return benchmarks with their times: without medians for a task's own eval, with shares of a known `peak`."""
    rowed = any(in_rows(case.timing) for case in cases)
    time = "MEAN" if own_eval else "TIME" if rowed else "MEDIAN"

    def of_time(text: Callable[[Timing], str]) -> Callable[[tuple[Case, str]], str]:
        return lambda row: text(row[0].timing) if row[0].timing else ""

    def number(name: str, leaves: int = 0) -> Column:
        return Column(name, right=True, leaves=leaves, optional=True)

    return table(
        list(zip(cases, short_specs(case.spec for case in cases).texts, strict=True)),
        (Column("#", right=True), lambda row: str(row[0].index + 1)),
        (Column("OUTCOME"), lambda row: verdict_text(row[0].verdict)),
        (number(time), of_time(lambda timing: duration_text(timing.mean_ns if own_eval else timing.time_ns))),
        (
            number("REFERENCE"),
            of_time(lambda timing: duration_text(timing.reference_ns) if timing.reference_ns else ""),
        ),
        (
            Column("SPEEDUP", right=True, optional=True, toned=True),
            of_time(lambda timing: "" if own_eval else speedup_text(timing.speedup)),
        ),
        (number(of_best.upper()), lambda row: duration_text(best_ns[row[0].index]) if row[0].index in best_ns else ""),
        (Column("CASE", flexible=True, least=10, optional=True), lambda row: row[1]),
        (Column(scatter_name(cases).upper(), right=not rowed, leaves=3, optional=True), of_time(scatter_text)),
        (Column("OF PEAK", optional=True), lambda row: _share_text(case_share(row[0], peak))),
        # Rows of calls have neither mean nor number.
        (number("MEAN", 1), of_time(lambda time: "" if own_eval or in_rows(time) else duration_text(time.mean_ns))),
        (number("CALLS", 2), of_time(lambda timing: "" if in_rows(timing) else str(timing.samples))),
        (Column("MESSAGE", flexible=True, wraps=True, optional=True), lambda row: "" if told else _cell(row[0])),
        tones=tuple(speedup_tone(case.timing.speedup if case.timing else None) for case in cases),
        title=_cases_title("Benchmarks", cases),
        note=_peak_text(cases, peak),
    )


def _share_text(share: Share | None) -> str:
    if share is None:
        return ""
    unit = "B/s" if share.resource == "memory" else "op/s"
    return f"{100 * share.share:.0f} % {share.resource}, {amount_text(share.reached)}{unit}"


def _peak_text(cases: Sequence[Case], peak: Peak | None) -> str:
    """Return the explanation of the shares in the table, if it has some."""
    found = [share for share in (case_share(case, peak) for case in cases) if share is not None]
    if peak is None or not found:
        return ""
    units = {
        "memory": "B/s of memory bandwidth",
        "arithmetic": "op/s of float32 arithmetic" if peak.is_measured else "op/s, those of its fastest matrix format",
    }
    peaks = dict.fromkeys(f"{amount_text(share.rate)}{units[share.resource]}" for share in found)
    whose, how = ("processors'", ", as measured by `admin check`") if peak.is_measured else ("device's", "")
    return f"Of peak: the task's minimal work as a share of the {whose} {' or '.join(peaks)}{how}."


def _end_blocks(run: Run, history: Sequence[Status], log: str, partial: Result | None, reader: str) -> Iterator[Block]:
    yield _outcome(run, None, reader=reader)
    if run.state is RunState.FINISHED or (reader and canceller(run) == reader):
        return
    if partial is not None:
        message = printable(partial.message).strip()
        yield Paragraph(f"Progress: {_passed_counts(partial)}" + (f"; {message}" if message else "."))
    meaning = state_meaning(run.state)
    yield Paragraph(f"{meaning.what}\n{meaning.next}")
    if partial is not None:
        yield from _case_blocks(run, partial.cases, own_eval=_by_own_eval(partial))
    yield Heading("Evidence")
    yield _history_table(history, brief=True)
    yield from job_log(run, log)


def _history_table(history: Sequence[Status], *, brief: bool = False) -> Table:
    """Return the states of a run with their evidence; a `brief` table leaves out dates and jobs."""
    at = "%H:%M:%S" if brief else "%Y-%m-%d %H:%M:%S"
    return table(
        history,
        (Column("AT" if brief else "SINCE"), lambda status: status.at.astimezone().strftime(at)),
        (Column("STATE"), lambda status: state_text(status.state)),
        None if brief else (Column("JOB", optional=True), lambda status: one_line(status.job_id, 40)),
        (Column("REASON", flexible=True, optional=not brief), lambda status: one_line(status.reason, 500)),
        (Column("SOURCE", flexible=True, optional=not brief), _source),
        empty="No history.",
    )


def _source(status: Status) -> str:
    return one_line(status.source, 500) or (f"attempt {status.attempt}" if status.attempt else "")


def _waiting_blocks(run: Run, progress: Sequence[Progress], best: LeaderRun | None, *, tables: bool) -> Iterator[Block]:
    state, status, reason = run.state, run.status, one_line(run.status.reason, 500)
    if status.cancel_requested and state is not RunState.SUBMITTING:
        yield Paragraph("Cancelling: waiting for the end of the job.")
    elif state is RunState.QUEUED:
        yield Paragraph(f"Queued: {reason}" if reason else "Queued.")
        if status.expected_start:
            yield Paragraph(f"Expected start: {moment_text(status.expected_start)} (estimate of the scheduler).")
    elif state is RunState.RUNNING and progress:
        step = step_text(progress[-1])
        yield Paragraph(f"{step[0].upper()}{step[1:]}." if progress[-1].phase == JUDGED else f"Running: {step}")
        yield from _so_far_blocks(progress, best, tables=tables)
    elif state is RunState.SUBMITTING and (status.unanswered or status.cancel_requested):
        source = f"; last attempt unconfirmed: {one_line(status.source, 500)}" if status.unanswered else "."
        yield Paragraph(f"Submitting to the scheduler{source}")
        if status.cancel_requested:
            yield Paragraph(f"Cancel pending until the scheduler answers: {reason}.")
        else:
            yield Paragraph("Looking up the job; it is sent again if the scheduler does not have it.")
    elif state is RunState.CREATED and status.reason.startswith(RETRY):
        yield Paragraph(f"Sent again: {one_line(run.explanation, 500)}")
    elif state is RunState.CREATED and run.blocked_by:
        yield Paragraph(f"Stored; the job cannot be sent yet: {one_line(run.blocked_by, 500)}")
        yield Paragraph(
            "The board's service retries it; on a personal board, `hpc-board poll`, `watch` and the app do."
        )
    elif state is RunState.COLLECTING and reason:
        yield Paragraph(f"No result yet: {one_line(run.explanation, 500)}")
    else:
        sentences = {
            RunState.CREATED: "Stored; the job is not sent yet.",
            RunState.SUBMITTING: "Submitting to the scheduler.",
            RunState.RUNNING: "Running: no report from the harness yet.",
            RunState.COLLECTING: "Job ended; waiting for its result.",
        }
        yield Paragraph(sentences[state])


def _so_far_blocks(progress: Sequence[Progress], best: LeaderRun | None, *, tables: bool) -> Iterator[Block]:
    """Yield the times of benchmarks that are still measured, in a table and as bars."""
    begun = [case for case in begun_cases(progress) if case.timed]
    rows = [
        (case, case.timed, text)
        for case, text in zip(begun, short_specs(case.spec for case in begun).texts, strict=True)
        if case.timed
    ]
    if rows:
        best_ns = best_times(begun, best)
        found = table(
            rows,
            (Column("#", right=True), lambda row: str(row[0].index + 1)),
            (Column("SO FAR", right=True), lambda row: duration_text(row[1].time_ns)),
            (
                Column("REFERENCE", right=True, optional=True),
                lambda row: duration_text(row[1].reference_ns) if row[1].reference_ns else "",
            ),
            (Column("SPEEDUP", right=True, optional=True, toned=True), lambda row: speedup_text(row[1].speedup)),
            (
                Column(best.name.upper() if best else "", right=True, optional=True),
                lambda row: duration_text(best_ns[row[0].index]) if row[0].index in best_ns else "",
            ),
            (Column("CASE", flexible=True, optional=True), lambda row: row[2]),
            tones=tuple(speedup_tone(timed.speedup) for _, timed, _ in rows),
            title=_cases_title("Benchmarks so far", begun),
        )
        if tables:
            yield found
        yield from case_bars([(text, timed, best_ns.get(case.index)) for case, timed, text in rows], best)


def step_text(step: Progress) -> str:
    """Return the position of a running harness on one line, without the seed: "benchmark 2 of 5: size: 1024"."""
    place, message = place_text(step), _SEED.sub("", step_message(step))
    return one_line(f"{place}: {message}" if message else place)


def _run_facts(run: Run, children: Sequence[int]) -> Iterator[tuple[str, str]]:
    when = f"{'at' if run.state.ended else 'since'} {moment_text(run.ended_at or run.status.at)}"
    yield "state", f"{state_text(run.state)} {when}"
    yield "file", f"{one_line(run.file_name)} (submission {run.submission})".lstrip()
    if run.note:
        yield "note", one_line(run.note, NOTE_CHARACTERS_MAX)
    if run.failures:
        jobs = "one job" if run.failures == 1 else f"{run.failures} jobs"
        yield "retries", f"{run.failures}: the cluster failed {jobs} before this one"
    if run.options.given:
        yield "options", one_line(run.options.text, 1_000)
    yield from _remark_facts(run)
    yield from origin_facts(run, children)
    yield "user", one_line(run.user)
    if run.account:
        yield "account", f"{one_line(run.account)} (owner of the job)"
    yield from speedup_facts(run)
    yield "submitted", moment_text(run.created_at)
    job = ", ".join(filter(None, (run.status.job_id, at_runner(run) or ("separate: --fresh" if run.fresh else ""))))
    place = f"{run.cluster}, partition {run.partition}" if run.partition else run.cluster
    yield "cluster", one_line(place)
    if job:
        yield "job", one_line(job)
    if run.status.node:
        yield "node", one_line(run.status.node)
    yield "trust", _TRUST.get(run.trust, one_line(run.trust))


def speedup_facts(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the speedup of a run over the reference of its board, if both are known."""
    if run.speedup is not None and run.reference is not None:
        yield speedup_fact(run.speedup, run.reference)


def origin_facts(run: Run, children: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Yield the entrant of a run, its tags, its parent and its children, as far as it has them."""
    if run.origin.entrant:
        yield "entrant", one_line(run.author)
    if run.origin.tags:
        yield "tags", one_line(", ".join(tag_words(run.origin.tags)), 1_000)
    if run.origin.parent is not None:
        yield "parent", f"submission {run.origin.parent}"
    if children:
        named = ", ".join(map(str, children[-_CHILDREN_MAX:]))
        yield "children", f"submission{'s' if children[1:] else ''} {named}"


def _remark_facts(run: Run) -> Iterator[tuple[str, str]]:
    for note in run.remarks.notes:
        yield "note", f"{one_line(note.text, NOTE_CHARACTERS_MAX)} ({moment_text(note.at)})"
    rerun = run.remarks.rerun
    if rerun is not None:
        yield "rerun", f"of submission {rerun.of_submission}, by {one_line(rerun.by_user)}"


def _noise_blocks(result: Result | None) -> Iterator[Block]:
    if result is not None and (remarks := noise_advice(result)):
        yield Heading("Remarks on the times")
        yield from (Paragraph(each.text) for each in remarks)


def machine_blocks(result: Result | None) -> Iterator[Block]:
    """Return the use of memory and processors, and the facts on machine and tools, the hashes last."""
    if result is None:
        return
    usage = usage_of(result)
    if usage is not None:
        yield Heading("Resources")
        yield Facts(tuple(_usage_facts(usage)))
    told = {name: fact for name, fact in result.provenance.items() if name not in USAGE}
    rows = [(one_line(name).replace("_", " "), _fact_text(name, fact)) for name, fact in told.items()]
    if result.started_at:
        rows.append(("started", _told_moment_text(result.started_at)))
    if result.ended_at:
        rows.append(("ended", _told_moment_text(result.ended_at)))
    if result.restart_count:
        rows.append(("restarts", f"{result.restart_count} (by the scheduler)"))
    rows.sort(key=lambda row: row[0].endswith(" sha256"))
    shown = tuple((name, value) for name, value in rows if value)
    if shown:
        yield Heading("Machine")
        yield Facts(shown)


def _usage_facts(usage: Usage) -> Iterator[tuple[str, str]]:
    asked, cpus = usage.memory_asked_bytes, usage.cpus_asked
    if usage.memory_peak_bytes is not None:
        used = f"at most {bytes_text(usage.memory_peak_bytes)}" + (f" of {bytes_text(asked)}" if asked else "")
        yield "memory", ": ".join(filter(None, (used, usage.memory_advice)))
    if usage.mean_cpus is not None:
        used = f"on average {usage.mean_cpus:.1f}" + (f" of {cpus}" if cpus else "")
        yield "CPUs", ": ".join(filter(None, (used, usage.cpu_advice)))
    if usage.cpu_seconds is not None and usage.elapsed_seconds is not None:
        yield "CPU time", f"{usage.cpu_seconds:.1f} s in {usage.elapsed_seconds:.1f} s"


def _told_moment_text(told: str) -> str:
    """Return a job's moment in the reports' format; other text stays as it is."""
    try:
        return moment_text(datetime.fromisoformat(told))
    except (ValueError, OverflowError):
        return one_line(told)


def _fact_text(name: str, fact: Any) -> str:
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    text = one_line(figures(fact, 4) if isinstance(fact, float) else str(fact))
    return text[:_SHORT_HASH] if name.endswith("_sha256") else text


_LINES_MAX = 20
_TEXT_CHARACTERS_MAX = 160


def finding_lines(findings: Sequence[SanitizerFinding], where: str) -> Iterator[Block]:
    """Yield one paragraph with a line for each fault; `where` has the others."""
    if not findings:
        return
    rest = len(findings) - _LINES_MAX
    more = [f"{count_text(rest, 'more fault')} in {where}"] if rest > 0 else []
    tone = Tone.PLAIN if all(each.warning for each in findings) else Tone.BAD
    yield Paragraph("\n".join([*map(_line, findings[:_LINES_MAX]), *more]), tone)


def _line(finding: SanitizerFinding) -> str:
    texts = (finding.kernel, finding.place, finding.thread, finding.detail)
    where = "; ".join(one_line(text, _TEXT_CHARACTERS_MAX) for text in texts if text)
    warning = "warning: " if finding.warning else ""
    times = f" ({finding.count} times)" if finding.count > 1 else ""
    return f"{one_line(finding.tool)}: {warning}{one_line(finding.kind)}{f': {where}' if where else ''}{times}"


_CAUSES = {
    Cause.NEVER_WRITTEN: "never written: memory as it was before the call",
    Cause.UNINITIALIZED_READ: "computed from memory that was read before it was written",
    Cause.OVERFLOW: "overflowed the range of a type",
}


def mismatch_blocks(found: Mismatch) -> Iterator[Block]:
    """Yield the share of wrong elements with their pattern, the largest errors, and the first places."""
    facts = [("part", found.part)] if found.part else []
    facts.append(("shape", " x ".join(map(str, found.shape))))
    if found.wrong is not None:
        percent = figures(100 * found.wrong / found.elements, 3)
        share = f"{found.wrong:,} of {found.elements:,} elements ({percent} %)"
        told = f"{share}: {found.pattern}" if found.pattern else share
        facts.append(("wrong", "the only element" if found.elements == 1 else told))
    if found.largest_absolute is not None:
        relative = "" if found.largest_relative is None else f", relative {found.largest_relative:.3g}"
        ratio = "" if found.of_tolerance is None else f", {found.of_tolerance:.3g} x the tolerance"
        facts.append(("largest error", f"{found.largest_absolute:.3g}{relative}{ratio}"))
    if found.cause is not None:
        facts.append(("cause", f"{count_text(found.caused, 'element')} {_CAUSES[found.cause]}"))
    if not found.places:
        facts.append(("places", "not shown: the inputs are secret"))
    yield Facts(tuple(facts))
    if found.places:
        if found.wrong is None:
            yield Paragraph(
                "By the task's own check, whose tolerance is unknown. The elements with the largest errors:"
            )
        yield table(
            found.places,
            (Column("INDEX"), lambda place: str(list(place.index))),
            (Column("GOT", right=True, stays=True), lambda place: place.got),
            (Column("EXPECTED", right=True, stays=True), lambda place: place.expected),
        )
