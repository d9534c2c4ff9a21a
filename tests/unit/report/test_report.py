"""Reports: what a run's reader is told, and how blocks become plain text."""

import re
import signal
import time
from datetime import timedelta

import pytest

from hpc_board.domain.comparison import CaseDifference, Comparison, Difference, LeaderRun
from hpc_board.domain.reference import Reference
from hpc_board.domain.result_json import decode_result
from hpc_board.domain.run import Progress, Run, RunState
from hpc_board.domain.standing import Page, Placing, Standing
from hpc_board.harness.progress import Step
from hpc_board.harness.result_file import killed
from hpc_board.model.gpu import Availability, Cluster, Device, Gpu, GpuStatus
from hpc_board.model.kernels import Kernel, Used
from hpc_board.model.mismatch import Cause, Mismatch
from hpc_board.model.peaks import Work
from hpc_board.model.result import (
    HIDDEN_MESSAGE,
    LIBRARY_LACKING,
    LIBRARY_MISSING,
    SCRATCH_UNWRITABLE,
    Case,
    Log,
    Result,
    Verdict,
)
from hpc_board.model.sanitizer import SanitizerFinding
from hpc_board.model.task import Mode
from hpc_board.report import explanations
from hpc_board.report.blocks import Bar, Bars, Block, Column, Facts, Heading, Paragraph, Table, Tone
from hpc_board.report.blocks import Log as BlockLog
from hpc_board.report.comparisons import comparison_report
from hpc_board.report.explanations import verdict_meaning
from hpc_board.report.formatting import span_text, telling_line
from hpc_board.report.logs import profile_log
from hpc_board.report.plain import plain
from hpc_board.report.profiles import profile_blocks
from hpc_board.report.run_table import runs_table
from hpc_board.report.run_words import outcome, short_specs, state_text, verdict_text, why, why_now
from hpc_board.report.runs import (
    faulty_line,
    machine_blocks,
    mismatch_blocks,
    outcome_line,
    run_evidence,
    run_outcome,
    run_report,
    run_summary,
    trial_report,
)
from hpc_board.report.standings import board_report
from hpc_board.report.tasks import gpus_table
from hpc_board.report.times import result_advice
from hpc_board.report.tones import diagnostic_tones
from hpc_board.report.views.results import advice_of, cases_of
from tests.unit.recorded import AT, result_of, row_case, status_of, timed_case
from tests.values import replace

HERE = Cluster("here", "local")
H100 = Gpu("H100", HERE, Device.CUDA, partition="gpu-h100")


def run_of(state: RunState, **changes: object) -> Run:
    run = Run(
        id=12,
        submission=7,
        task="vectoradd_py",
        task_version="v",
        user="ada",
        file_name="kernel.py",
        gpu="H100",
        cluster="here",
        partition="gpu-h100",
        mode=Mode.RANKED,
        token="hb-1",
        nonce="nonce",
        trust="self-run",
        emulated=False,
        created_at=AT,
        status=status_of(state),
    )
    return replace(run, **changes)


def finished(result: Result, **changes: object) -> Run:
    return run_of(RunState.FINISHED, verdict=result.verdict, message=result.message, **changes)


def text_of(blocks: tuple[Block, ...]) -> str:
    return plain(blocks)


def test_the_first_lines_of_a_profile_have_the_numbers_of_each_kernel() -> None:
    softmax = Kernel(
        *(0, "softmax_kernel", 2, 12_300, 0.94, 0.71, 0.305, 0, 0.382, 64, 16_384, 512, 0),
        stalls=(("long_scoreboard", 9.25), ("barrier", 2.0)),
    )
    others = [Kernel(1, f"kernel_{number}", 1, 1000, spills=1024) for number in range(8)]
    result = replace(result_of(Verdict.PASS), kernels=(softmax, *others))
    lines = text_of(run_report(finished(result), result)).splitlines()
    first = "case 1, softmax_kernel: 2 x 12.3 µs, 94 % of the time, 71 % of DRAM, 30 % of SM, 38 % occupancy, "
    assert lines[lines.index("Passed.") + 2 :][:3] == [
        f"{first}64 registers, 16.5 KiB shared memory, no spills, stalls: long scoreboard 9.2, barrier 2",
        "case 2, kernel_0: 1.00 µs, 1,024 spill instructions",
        "case 2, kernel_1: 1.00 µs, 1,024 spill instructions",
    ]
    assert "4 more in the profile; all numbers: `hpc-board run 12 --json`" in lines
    function = replace(result, kernels=(Kernel(0, "memcpy", time_share=0.5),))
    assert "\nmemcpy: 50 % of the time\nothers: 50 % of the time\n" in text_of(run_report(finished(function), function))


def test_the_evidence_has_each_hash_once() -> None:
    run = finished(result_of(Verdict.PASS), code_sha256="ab" * 32, harness_sha256="cd" * 32)
    told = replace(result_of(Verdict.PASS), provenance={"submission_sha256": "ab" * 32, "harness_sha256": "cd" * 32})
    for result in (None, told):
        text = text_of((*run_evidence(run, [run.status], result), *machine_blocks(result)))
        assert text.count("submission sha256  abab") == text.count("harness sha256     cdcd") == 1


def test_a_profile_has_its_kernels_first_and_its_tables_fit_any_width() -> None:
    rows = "\n".join(
        f"{share:>6}%  python  {library}  [.] {name}"
        for share, library, name in (
            ("60.00", "libc.so.6", "std::_Function_handler<std::unique_ptr<int>, std::less<long>>::_M_invoke(int)"),
            ("5.00", "libc.so.6", "b"),
            ("4.00", "libc.so.6", "c"),
            ("4.00", "kernel.so", "custom_kernel"),
        )
    )
    steps = "case 1: size: 4: the call 2 ms; around it 3 ms: check the output 3 ms"
    text = f"case 1: size: 4; seed: 1\n  by perf\n  20 samples\n  the process\n{rows}\n 5 page-faults\n{steps}\n"
    result = replace(result_of(Verdict.PASS), profile=Log(text), kernels=(Kernel(0, "a", time_share=0.6),))
    assert next(profile_log(result)) == Bars("Share of the profiled time", (Bar("a", "60 %", 0.6),))
    assert plain(profile_log(result), 60).splitlines() == [
        "case 1: size: 4; seed: 1",
        "  by perf",
        "  20 samples",
        "",
        "The process",
        " Share  Function                                   Library",
        "60.0 %  std::_Function_handl…ng>>::_M_invoke(int)  libc.so.6",
        " 4.0 %  custom_kernel                              kernel.so",
        " 9.0 %  2 more functions below 8 %",
        "",
        " 5 page-faults",
        "",
        "case 1: size: 4: the call 2 ms; around it 3 ms: check the",
        "output 3 ms",
    ]
    timed = tuple(Kernel(*each) for each in ((0, "a", 3, 100.0, 0.75), (0, "b", 1, 100.0, 0.25), (1, "c", 1, 5.0, 1.0)))
    shares = (Bar("a", "75 %", 0.75, group="case 1"), Bar("b", "25 %", 0.25), Bar("c", "100 %", 1.0, group="case 2"))
    assert next(profile_log(replace(result, kernels=timed))) == Bars("Share of the profiled time", shares)
    alone = replace(result, kernels=(Kernel(0, "a", 1, 9.0, 1.0), Kernel(1, "a", 1, 5.0, 1.0)))
    assert not any(isinstance(block, Bars) for block in profile_log(alone))
    assert list(profile_log(replace(result, mode=Mode.SANITIZE, kernels=()))) == [BlockLog("sanitizer", text)]
    counted = Kernel(0, "softmax<float, 4>", 2, 12_300, dram_share=0.71, occupancy=0.4, registers=64, spills=0)
    numbers = next(each for each in profile_log(replace(result, kernels=(counted,))) if isinstance(each, Table))
    assert plain([numbers]).splitlines() == [
        "Kernel                Time  DRAM  Occupancy  Registers  Spills",
        "softmax<float, 4>  12.3 µs  71 %       40 %         64       0",
    ]


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        (
            (
                "----  ----------  --------  ----------\nName  Self CPU %  Self CPU  # of Calls\n"
                "----  ----------  --------  ----------\naten      99.57%   3.204ms           1\n"
                "----  ----------  --------  ----------\nSelf CPU time total: 3.218ms\n"
            ),
            32,
            ["Name  Self CPU  # of Calls", "aten   3.20 ms           1", "", "Self CPU time total: 3.22 ms"],
        ),
        (
            " Time (%)  Instances  Name\n --------  ---------  --------\n     40.0          3  scale(int)\n\nend",
            80,
            ["Time (%)  Instances  Name", "    40.0          3  scale(int)", "", "end"],
        ),
    ],
    ids=["PyTorch", "Nsight Systems"],
)
def test_the_tables_of_a_profiler_keep_the_columns_that_matter(text: str, width: int, lines: list[str]) -> None:
    assert plain(profile_blocks(text), width).splitlines() == lines


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a.cpp:3:1: error: x", {"a.cpp:3:1": Tone.STRONG, "error:": Tone.BAD}),
        ("a.cu(12): warning #177-D: unused", {"a.cu(12)": Tone.STRONG, "warning #177-D:": Tone.UNSURE}),
        ("ptxas error   : too much", {"ptxas": Tone.STRONG, "error   :": Tone.BAD}),
        ("a.h:8:6: note: here", {"a.h:8:6": Tone.STRONG, "note: here": Tone.QUIET}),
        ("── compiler\n      |   ^~~~", {"── compiler": Tone.STRONG, "^~~~": Tone.GOOD}),
        ("no error at all", {}),
    ],
)
def test_the_diagnostics_of_compilers_have_tones(text: str, parts: dict[str, Tone]) -> None:
    assert {text[begin:end]: tone for begin, end, tone in diagnostic_tones(text)} == parts


def test_the_faults_of_a_sanitized_run_come_before_the_output_of_its_tools() -> None:
    fault = SanitizerFinding(
        *("memcheck", "Invalid __global__ write of size 4 bytes", "scale(float*)", "k.cu:6"),
        *("thread (65,0,0) in block (0,0,0)", "Address 0x7f is out of bounds", 3),
    )
    hazard = SanitizerFinding("racecheck", "Race reported between Write access", warning=True)
    message = "memcheck found: Invalid __global__ write of size 4 bytes in scale(float*), k.cu:6"
    result = replace(
        result_of(Verdict.CRASH, message=message),
        mode="sanitize",
        findings=(fault, hazard, *[fault] * 20),
        profile=Log("========= COMPUTE-SANITIZER"),
    )
    text = text_of(run_report(finished(result, mode=Mode.SANITIZE), result))
    assert (
        "memcheck: Invalid __global__ write of size 4 bytes: scale(float*); k.cu:6; thread (65,0,0) in block (0,0,0); "
        "Address 0x7f is out of bounds (3 times)\nracecheck: warning: Race reported between Write access\n"
    ) in text
    assert "2 more faults in `hpc-board run 12 --json`" in text
    assert "A tool of mode sanitize found faulty accesses." in text
    assert text.index("racecheck") < text.index("========= COMPUTE-SANITIZER")
    ran = {"sanitizer": "memcheck, racecheck, synccheck"}
    warned = replace(result_of(Verdict.PASS), findings=(hazard,), provenance=ran)
    assert "\nmemcheck, synccheck: no faults.\n" in text_of(run_report(finished(warned), warned))
    assert "no faults" not in text_of(run_report(finished(result), replace(result, provenance=ran)))
    crash = result_of(Verdict.CRASH, message="the process is gone: ld found: nothing")
    assert "A tool of mode sanitize" not in text_of(run_report(finished(crash), crash))


@pytest.mark.parametrize("width", [None, 80])
def test_a_cell_holds_the_line_that_says_most_and_the_whole_message_stands_once_below(width: int | None) -> None:
    whole = "ValueError: bad\nTraceback (most recent call last):\n  line 3\nValueError: bad"
    bare = "Traceback (most recent call last):\n  line 4\nKeyError: 'x'\n"
    cases = [Case("test", 0, "a", Verdict.EXCEPTION, whole), Case("test", 1, "b", Verdict.EXCEPTION, bare)]
    result = result_of(Verdict.EXCEPTION, *cases)
    text = plain(run_report(finished(result), result), width)
    assert "1  exception  ValueError: bad  a\n" in text
    assert "2  exception  KeyError: 'x'    b\n" in text
    assert text.count("line 3") == 1
    assert "--- test 1 ---\nTraceback" in text


@pytest.mark.parametrize("width", [12, 20, 33, 47])
def test_no_line_ends_between_a_number_and_its_unit(width: int) -> None:
    text = plain((Paragraph("First place: 28.7 µs, was 31.0 µs: 1.08x faster of 16 GiB"),), width)
    assert all(len(line) <= width and not line[-1].isdigit() for line in text.splitlines())
    assert " ".join(text.split()) == "First place: 28.7 µs, was 31.0 µs: 1.08x faster of 16 GiB"


def test_a_cell_is_bounded_where_no_terminal_bounds_it() -> None:
    result = result_of(Verdict.WRONG_VALUE, Case("test", 0, "a", Verdict.WRONG_VALUE, "x" * 300))
    (row,) = [line for line in text_of(run_report(finished(result), result)).splitlines() if line.startswith("1  ")]
    assert len(row) < 250


def test_the_columns_after_a_long_message_are_aligned_where_no_terminal_wraps_it() -> None:
    cases = [Case("test", index, f"size: {index}7", Verdict.WRONG_VALUE, "x" * (40 + 30 * index)) for index in range(3)]
    lines = text_of(run_report(finished(result := result_of(Verdict.WRONG_VALUE, *cases)), result)).splitlines()
    heading = next(line for line in lines if "MESSAGE" in line)
    rows = [line for line in lines if re.match(r"[123]  wrong value", line)]
    assert {row.rindex("  ") + 2 for row in rows} == {heading.index("CASE")}


def test_a_long_traceback_keeps_its_beginning_and_its_end() -> None:
    message = "".join(f"frame {number}\n" for number in range(200)) + "ValueError: bad"
    result = result_of(Verdict.EXCEPTION, Case("test", 0, "a", Verdict.EXCEPTION, message))
    text = text_of(run_report(finished(result), result))
    assert "\nframe 4\n[... 176 lines left out; more: `hpc-board run 12 --json` ...]\nframe 181\n" in text
    assert "\nframe 199\nValueError: bad\n" in text


def test_a_line_without_an_end_does_not_flood_the_terminal() -> None:
    result = replace(result_of(Verdict.PASS), stdout=Log("x" * 60_000))
    text = text_of(run_report(finished(result), result))
    assert "[... long lines cut; full output: `hpc-board run 12 --log` ...]\nxxx" in text
    assert len(text) < 3000


HEADER = "Traceback (most recent call last):"
FRAME = '  File "k.py", line 3, in f'


@pytest.mark.parametrize(
    ("lines", "telling"),
    [
        ([], ""),
        (["shape (3,)", HEADER], "shape (3,)"),
        ([HEADER, FRAME, "    g()", "ValueError: bad"], "ValueError: bad"),
        ([HEADER, FRAME, "    g()", "ValueError: bad", "see line 7", "  of it"], "ValueError: bad"),
        ([HEADER, FRAME, "KeyError: 1", "", "During handling ...", "", HEADER, FRAME, "Bad: 2", "more"], "Bad: 2"),
        ([HEADER, FRAME, "    x = =", "        ^", "SyntaxError: invalid syntax"], "SyntaxError: invalid syntax"),
        ([HEADER, FRAME], FRAME.strip()),
        ([HEADER], HEADER),
    ],
)
def test_the_telling_line_of_a_message_is_its_first_or_that_of_the_exception(lines: list[str], telling: str) -> None:
    assert telling_line("\n".join(lines)) == telling


def test_a_cancelled_run_that_nobody_can_find_says_what_becomes_of_it() -> None:
    status = replace(
        status_of(RunState.SUBMITTING, reason="cancel requested by ada", source="Socket timed out", job_id=""),
        cancel_requested=True,
    )
    for unanswered in (True, False):
        run = run_of(RunState.SUBMITTING, status=replace(status, unanswered=unanswered))
        text = text_of(run_report(run, None))
        assert "Cancel pending until the scheduler answers: cancel requested by ada.\n" in text
        assert ("last attempt unconfirmed: Socket timed out" in text) is unanswered
        assert "sent again" not in text


@pytest.mark.parametrize(
    ("reason", "reader", "told"),
    [
        ("cancel requested by ada at 12:00:00 UTC", "ada", "Cancelled by you after 12 s.\n"),
        ("cancelled by ada before it was sent", "ada", "Cancelled by you after 12 s.\n"),
        ("cancel requested by root at 12:00:00 UTC", "ada", "Cancelled by root after 12 s.\n\nThe run was cancelled"),
        ("cancel requested by ada at 12:00:00 UTC", "bob", "Cancelled by ada after 12 s.\n\nThe run was cancelled"),
        ("", "", "Ended without a result: cancelled.\n\nThe run was cancelled"),
    ],
)
def test_a_cancellation_is_explained_to_others_than_the_user_who_cancelled(reason: str, reader: str, told: str) -> None:
    status = replace(status_of(RunState.CANCELLED, reason=reason), at=AT + timedelta(seconds=12))
    run = run_of(RunState.CANCELLED, status=status)
    text = text_of(run_outcome(run, None, [status], log="killed", reader=reader))
    assert text.startswith(told)
    assert ("killed" in text) is not told.endswith("s.\n")


def test_a_run_that_is_cancelled_is_not_said_to_be_judged() -> None:
    judged = Progress("x", "end", None, None, "infra_error")
    run = run_of(RunState.RUNNING, status=replace(status_of(RunState.RUNNING), cancel_requested=True))
    assert text_of(run_outcome(run, None, [], [judged])) == "Cancelling: waiting for the end of the job.\n"
    assert outcome(run) == "cancelling"
    assert "judged" not in why_now(run, judged)


def test_the_first_step_of_the_judge_has_words() -> None:
    begun = Progress("x", "start", None, None, "ranked on CPU")
    assert text_of(run_outcome(run_of(RunState.RUNNING), None, [], [begun])) == "Running: starting the judge\n"


def test_the_best_run_of_the_board_has_a_column_and_bars_beside_the_runs_own() -> None:
    slow = timed_case(time_ns=2e6)
    slow = replace(slow, timing=replace(slow.timing, reference_ns=1e6))
    result = result_of(Verdict.PASS, slow)
    best = LeaderRun(7, "bob", (replace(slow, timing=replace(slow.timing, time_ns=5e5)),))
    run = finished(result, score_s=2e-3)
    tones: list[tuple[str, Tone]] = []

    def paint(text: str, tone: Tone) -> str:
        tones.append((text, tone))
        return text

    text = plain(run_outcome(run, result, best=best), 120, paint)
    assert re.search(r"TIME|MEDIAN +REFERENCE +SPEEDUP +RANK 1", text)
    assert ("0.50x", Tone.BAD) in tones
    assert "Time of a call, relative to the reference in this run; rank 1: bob, run 7\n" in text
    bars = [line for line in text.splitlines() if "█" in line]
    assert [round(line.count("█") / bars[2].count("█")) for line in bars] == [4, 2, 1]
    assert [re.search(r"this run|reference|rank 1", line)[0] for line in bars] == ["this run", "reference", "rank 1"]  # type: ignore[index]
    assert "█" not in plain(run_outcome(run, result, best=best), 99)
    slower = LeaderRun(7, "bob", (replace(slow, timing=replace(slow.timing, time_ns=8e6)),), "best before")
    (bars_of_slower,) = (block for block in run_outcome(run, result, best=slower) if isinstance(block, Bars))
    assert bars_of_slower.title.endswith("; best before: bob, run 7")
    assert [(bar.name, bar.tone) for bar in bars_of_slower.rows] == [
        ("this run", Tone.STRONG),
        ("reference", Tone.QUIET),
        ("best before", Tone.QUIET),
    ]
    other = LeaderRun(7, "bob", (replace(best.cases[0], spec="another"),))
    assert "RANK" not in text_of(run_outcome(run, result, best=other))


@pytest.mark.parametrize(
    ("score_s", "placing", "line"),
    [
        (12.34e-6, Placing(1, 1, 12.34e-6, 12, first=True), "Rank 1 of 1 on H100: 12.3 µs"),
        (12.34e-6, Placing(1, 9, 12.34e-6, 12, first=False), "First place on H100: 12.3 µs"),
        (12.34e-6, Placing(2, 9, 12.34e-6, 12, first=True), "Second place on H100: 12.3 µs"),
        (12.34e-6, Placing(3, 9, 12.34e-6, 12, first=False), "Third place on H100: 12.3 µs"),
        (12.34e-6, Placing(4, 9, 12.34e-6, 12, first=True), "4th place on H100: 12.3 µs"),
        (
            1.73e-3,
            Placing(1, 9, 1.73e-3, 12, first=False, former_rank=2, former_s=5.81e-3),
            "First place on H100: 1.73 ms, was 5.81 ms: 3.36x faster, 2nd to 1st",
        ),
        (
            1e-3,
            Placing(3, 9, 1e-3, 12, first=False, former_rank=3, former_s=1.1e-3),
            "Third place on H100: 1.00 ms, was 1.10 ms: 1.10x faster",
        ),
        (
            1e-3,
            Placing(3, 9, 1e-3, 12, first=False, former_rank=3, former_s=1.0001e-3),
            "Third place on H100: 1.00 ms, was 1.00 ms: under 1.01x faster",
        ),
        (
            1e-3,
            Placing(3, 9, 1e-3, 12, first=False, former_rank=3, former_s=1.996e-3),
            "Third place on H100: 1.00 ms, was 2.00 ms: 2.00x faster",
        ),
        (
            1e-3,
            Placing(1, 9, 1e-3, 12, first=False, former_rank=2, former_s=1.1e-3, change_spread=1.15),
            "First place on H100: 1.00 ms, was 1.10 ms: within noise (1.10x ± 0.15x), 2nd to 1st",
        ),
        (
            12.34e-6,
            Placing(None, 99, 11.4e-6, 7, first=False, change_spread=1.15),
            "Score on H100: 12.3 µs, within noise (1.08x ± 0.15x) of the user's best, 11.4 µs (run 7)",
        ),
        (12.34e-6, Placing(11, 99, 12.34e-6, 12, first=False), "Best on H100: 12.3 µs, rank 11 of 99"),
        (
            12.34e-6,
            Placing(11, 99, 12.34e-6, 12, first=True),
            "First pass on H100: 12.3 µs, rank 11 of 99",
        ),
        (
            12.34e-6,
            Placing(None, 99, 11.4e-6, 7, first=False),
            "Score on H100: 12.3 µs, 1.08x slower than the user's best, 11.4 µs (run 7)",
        ),
        (
            34.2e-6,
            Placing(None, 99, 11.4e-6, 7, first=True),
            "Score on H100: 34.2 µs, 3.00x slower than the user's best, 11.4 µs (run 7)",
        ),
        (
            11.4e-6,
            Placing(None, 99, 11.4e-6, 7, first=False),
            "Score on H100: 11.4 µs, as fast as the user's best, which was submitted earlier (run 7)",
        ),
    ],
)
def test_a_ranked_run_that_passed_is_told_in_one_line_what_it_means(
    score_s: float, placing: Placing, line: str
) -> None:
    result = result_of(Verdict.PASS, timed_case())
    run = finished(result, score_s=score_s)
    assert f"Passed: 1 benchmark. {line}.\n" in text_of(run_report(run, result, placing=placing))
    assert outcome_line(run, result, placing).text == f"Run 12: Passed: 1 benchmark. {line}."


@pytest.mark.parametrize(
    ("score_s", "words"), [(12.34e-6, "1.08x slower than your best, 11.4 µs"), (11.4e-6, "as fast as your best, which")]
)
def test_the_readers_own_run_is_compared_with_your_best(score_s: float, words: str) -> None:
    result, placing = result_of(Verdict.PASS, timed_case()), Placing(None, 99, 11.4e-6, 7, first=False)
    run = finished(result, score_s=score_s)
    for report in (run_report, run_outcome, run_summary):
        assert words in text_of(report(run, result, placing=placing, reader="ada"))
        assert "the user's best" in text_of(report(run, result, placing=placing, reader="bob"))


def test_a_pass_has_the_tone_of_its_verdict_however_slow_it_is() -> None:
    result = result_of(Verdict.PASS, timed_case())
    run = replace(finished(result, score_s=12.0e-6), reference=Reference(11.0e-6, 9, 10.9e-6, 11.1e-6))
    line = outcome_line(run, result, Placing(None, 9, 11.0e-6, 7, first=False))
    assert line.tone is Tone.GOOD
    assert line.text[: line.toned] == "Run 12: Passed: 1 benchmark."
    painted = plain([line], 40, lambda text, tone: f"<{tone}>{text}</>")
    assert painted.startswith("<good>Run 12: Passed: 1 benchmark.</> Score")


def with_work(memory_bytes: float, operations: float) -> Case:
    return replace(timed_case(time_ns=100_000.0), work=Work(memory_bytes, operations))


@pytest.mark.parametrize(
    ("device", "case", "shown"),
    [
        ("NVIDIA H100 80GB HBM3", with_work(0.71 * 3.35e8, 1e6), "71 % memory"),
        ("NVIDIA H100 PCIe", with_work(1e8, 1e6), "50 % memory"),
        ("NVIDIA H100 NVL", with_work(0.25 * 3.938e8, 0), "25 % memory"),
        ("NVIDIA A100-SXM4-40GB", with_work(0.5 * 1.555e8, 0), "50 % memory"),
        ("NVIDIA H200", with_work(1e5, 0.3 * 1979e8), "30 % arithmetic"),
        ("NVIDIA H100 80GB HBM3", with_work(0, 0), ""),
        ("NVIDIA H100 80GB HBM3", timed_case(), ""),
        ("NVIDIA GeForce RTX 3090", with_work(1e8, 1e6), ""),
        ("NVIDIA A100 80GB PCIe MIG 1g.10gb", with_work(1e8, 1e6), ""),
        ("", with_work(1e8, 1e6), ""),
    ],
)
def test_a_case_says_which_share_of_its_devices_peak_the_least_work_is(device: str, case: Case, shown: str) -> None:
    result = replace(result_of(Verdict.PASS, case), provenance={"gpu_name": device})
    text = text_of(run_report(finished(result, score_s=1e-4), result))
    assert ("OF PEAK" in text) is bool(shown)
    assert shown in text
    back = decode_result(result.to_json().encode())
    assert back.cases[0].work == case.work


def test_a_part_of_a_device_has_no_peak() -> None:
    result = replace(
        result_of(Verdict.PASS, with_work(1e8, 1e6)),
        provenance={"gpu_name": "NVIDIA H100 80GB HBM3", "gpu_mig_mode_current": "Enabled"},
    )
    assert "OF PEAK" not in text_of(run_report(finished(result, score_s=1e-4), result))


def test_a_fact_of_the_machine_has_four_digits() -> None:
    result = replace(result_of(Verdict.PASS), provenance={"clock_drift_ns": 12.345678, "repeat_seconds": 1e6 / 3})
    text = text_of(run_report(finished(result), result))
    assert (" 12.35\n" in text, " 333300\n" in text) == (True, True)


def test_a_milestone_is_no_ones_rank() -> None:
    result = result_of(Verdict.PASS, timed_case())
    run = finished(result, score_s=12.3e-6, milestone="PyTorch eager")
    assert "Milestone PyTorch eager on H100: 12.3 µs." in text_of(run_report(run, result))


@pytest.mark.parametrize(
    ("wrong", "told"), [(1, ""), (2, "values of 1 other wrong case."), (3, "of 2 other wrong cases.")]
)
def test_the_values_of_the_first_wrong_case_are_shown_and_the_others_named(wrong: int, told: str) -> None:
    found = Mismatch((4,), 4, wrong=1, pattern="the last element")
    cases = [Case("test", index, "size: 4", Verdict.WRONG_VALUE, "wrong", mismatch=found) for index in range(wrong)]
    result = result_of(Verdict.WRONG_VALUE, *cases, message="test case 1 of 3 (size: 4): wrong")
    text = text_of(run_report(finished(result), result))
    assert "Wrong values of test 1" in text
    assert "Wrong values of test 2" not in text
    assert ("--json` and the page Cases of the app show the values of" in text, told in text) == (bool(told), True)


def test_the_share_of_an_output_with_one_element_has_no_numbers() -> None:
    (facts,) = mismatch_blocks(Mismatch((1,), 1, wrong=1, pattern="all elements", places=()))
    assert isinstance(facts, Facts)
    assert ("wrong", "the only element") in facts.rows


@pytest.mark.parametrize(
    ("cause", "fact", "advice"),
    [
        (Cause.NEVER_WRITTEN, "3 elements never written", "Check the bounds of loops"),
        (Cause.UNINITIALIZED_READ, "3 elements computed from memory that was read", "Set accumulators"),
        (Cause.OVERFLOW, "3 elements overflowed the range of a type", "Compute sums and products in a wider type"),
    ],
)
def test_each_cause_of_wrong_values_has_its_text(cause: Cause, fact: str, advice: str) -> None:
    found = Mismatch((4,), 4, wrong=3, largest_absolute=2.5, of_tolerance=8.1234e30, cause=cause, caused=3)
    case = Case("test", 0, "size: 4", Verdict.WRONG_VALUE, "wrong", mismatch=found)
    result = result_of(Verdict.WRONG_VALUE, case)
    text = text_of(run_report(finished(result), result))
    assert (fact in text, advice in text) == (True, True)
    assert "2.5, 8.12e+30 x the tolerance" in text


def test_a_failed_hidden_case_is_not_to_be_reproduced() -> None:
    result = result_of(Verdict.WRONG_VALUE, Case("test", 1, "hidden case 1", Verdict.WRONG_VALUE, "wrong"))
    text = text_of(run_report(finished(result), result))
    assert "Only those who manage the board have its inputs" in text
    assert ("Reproduce" in text, "task test" in text) == (False, False)


@pytest.mark.parametrize(
    ("changes", "phase", "options"),
    [
        ({}, "test", "run12.py"),
        ({}, "benchmark", "run12.py --mode ranked"),
        ({"gpu": "H100", "file_name": "my kernel.cu"}, "test", "run12.cu --device cuda"),
        ({"gpu": "MI300X", "file_name": "k.hip"}, "benchmark", "run12.hip --mode ranked --device hip"),
        ({"gpu": "H100", "emulated": True}, "test", "run12.py"),
        ({"file_name": "kernel.$(reboot)"}, "test", "'run12.$(reboot)'"),
    ],
)
def test_a_failure_is_reproduced_by_two_commands(changes: dict[str, object], phase: str, options: str) -> None:
    result = result_of(Verdict.EXCEPTION, Case(phase, 1, "size: 9", Verdict.EXCEPTION, "no"))
    run = finished(result, **{"gpu": "CPU", **changes})
    text = " ".join(text_of(run_outcome(run, result)).split())
    file = options.partition(" --")[0]
    judge = f"`hpc-board task test {run.task} --submission {options}` judge it on your machine."
    assert f"`hpc-board code 12 -o {file}` and {judge}" in text
    assert "task test" not in text_of(run_outcome(replace(run, id=0), result))


def test_a_run_that_passed_tells_the_margin_of_each_test_and_the_least() -> None:
    margins = (0.31234, 0.00012, None)
    cases = [
        Case("test", index, f"size: {index}", Verdict.PASS, of_tolerance=each) for index, each in enumerate(margins)
    ]
    result = result_of(Verdict.PASS, *cases)
    text = text_of(run_report(finished(result), result))
    assert "The largest error is 31 % of the tolerance (test 1)." in text
    assert "under 0.1 %" in text
    assert "OF TOLERANCE" in text
    assert "The largest error is 31 % of the tolerance" in text_of(run_summary(finished(result), result))


@pytest.mark.parametrize(
    ("thrown", "meaning", "sanitize"),
    [
        (": odd size", "threw an exception that nothing caught", False),
        (": CUDA error: an illegal memory access was encountered", "accessed memory of the GPU out of bounds", True),
    ],
)
def test_an_exception_that_nothing_caught_is_no_faulty_access_unless_it_says_so(
    thrown: str, meaning: str, *, sanitize: bool
) -> None:
    words = f"it was killed by signal 6 (SIGABRT) at k.cpp:6 in scale_row, uncaught exception{thrown}"
    result = result_of(Verdict.CRASH, Case("test", 0, "size: 4", Verdict.CRASH, words), message=words)
    text = text_of(run_report(replace(finished(result), file_name="k.cpp", gpu="CPU", emulated=False), result))
    assert (meaning in text, "--mode sanitize" in text) == (True, sanitize)


def test_a_crash_in_cpp_leads_to_mode_sanitize() -> None:
    case = Case("test", 0, "size: 4", Verdict.CRASH, "it was killed by signal 11 (SIGSEGV) at k.cpp:6 in scale_row")
    result = result_of(Verdict.CRASH, case, message=case.message)
    for file_name, gpu, expected in (("k.cpp", "CPU", True), ("k.py", "CPU", False), ("k.cpp", "H100", False)):
        run = replace(finished(result), file_name=file_name, gpu=gpu, emulated=False)
        text = text_of(run_report(run, result))
        assert ("at k.cpp:6 in scale_row" in text, "Submit with `--mode sanitize`" in text) == (True, expected)


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("In file included from k.cpp:3:\nk.h:1:2: error: y\nk.cpp:25:5: error: x\nk.cpp:30:1: error: z", "25"),
        ("k.cpp(3): error: x", "3"),
        ("ok.cpp:3:1: error: x", ""),
    ],
)
def test_the_faulty_line_of_a_file_is_that_of_the_first_error_of_the_compiler(log: str, line: str) -> None:
    result = replace(result_of(Verdict.COMPILE_ERROR), build=Log(log))
    assert faulty_line(finished(result, file_name="k.cpp"), result) == line


def test_a_trial_names_no_run_where_the_rest_of_it_is() -> None:
    found = Mismatch((4,), 4, wrong=1, pattern="the last element")
    message = "line\n" * 60
    cases = [Case("test", index, "size: 4", Verdict.WRONG_VALUE, message, mismatch=found) for index in range(3)]
    result = replace(
        result_of(Verdict.WRONG_VALUE, *cases),
        stdout=Log("printed\n" * 60),
        kernels=tuple(Kernel(1, f"kernel_{number}", 1, 1000) for number in range(10)),
        findings=(SanitizerFinding("racecheck", "Race reported", warning=True),) * 30,
    )
    text = text_of(trial_report(replace(finished(result), id=0), result))
    assert "run 0" not in text
    assert "`--json` shows the values of 2 other wrong cases." in text
    for told in (
        "35 lines left out; more:",
        "40 lines left out; full output:",
        "more in the profile; all numbers:",
        "more faults in",
    ):
        assert f"{told} `--json`" in text


def test_the_bars_of_all_benchmarks_have_one_scale_where_the_reference_is_1() -> None:
    slow, quick = (
        replace(case, timing=replace(case.timing, reference_ns=ref))
        for case, ref in ((timed_case(time_ns=4e6), 1e6), (timed_case(time_ns=5e4), 1e5))
    )
    result = result_of(Verdict.PASS, slow, replace(quick, index=1, spec="size: 8"))
    text = plain(run_outcome(finished(result, score_s=2e-3), result), 120)
    bars = [line.count("█") for line in text.splitlines() if "█" in line]
    assert bars[1] == bars[3]
    assert [round(2 * bar / bars[1]) for bar in bars] == [8, 2, 1, 2]


def test_a_module_that_is_not_installed_is_named_before_the_advice() -> None:
    result = replace(result_of(Verdict.LOAD_ERROR), message="ModuleNotFoundError: No module named 'tritonx'\nTraceback")
    text = text_of(run_outcome(finished(result), result))
    assert text.startswith("Failed to load: ModuleNotFoundError: No module named 'tritonx'\n")
    assert "lacks the function" not in text
    assert "is not installed for the judge's Python.\nDo without it" in text
    missing = replace(result, message="TypeError: kernel.py defines no function called custom_kernel")
    assert "lacks the function that the task calls" in text_of(run_outcome(finished(missing), missing))


def test_a_message_that_begins_with_the_verdict_does_not_repeat_it() -> None:
    result = result_of(
        Verdict.WRONG_VALUE,
        Case("test", 0, "size: 127", Verdict.WRONG_VALUE, "wrong value at [0]: expected 1, got 2"),
        message="test case 1 (size: 127): wrong value at [0]: expected 1, got 2",
    )
    text = text_of(run_report(finished(result), result))
    assert "Failed: wrong value at [0]: expected 1, got 2, in test case 1 (size: 127)\n" in text
    assert "1  wrong value  at [0]: expected 1, got 2  127\n" in text
    assert why(finished(result)) == "at [0]: expected 1, got 2, in test case 1 (size: 127)"


@pytest.mark.parametrize(
    ("mode", "phase", "verdict", "words"),
    [
        (
            Mode.RANKED,
            "benchmark",
            Verdict.WRONG_VALUE,
            "The failing seed is secret and differs from the one shown",
        ),
        (Mode.BENCHMARK, "benchmark", Verdict.EXCEPTION, "The failing seed is secret"),
        (Mode.TEST, "test", Verdict.WRONG_VALUE, ""),
        (Mode.RANKED, "benchmark", Verdict.TIMING_INCONSISTENT, ""),
    ],
)
def test_a_failure_that_may_be_of_a_secret_seed_says_so(mode: Mode, phase: str, verdict: Verdict, words: str) -> None:
    case = Case(phase, 0, "size: 127; seed: 4242", verdict, "bad")
    result = result_of(verdict, case, message=f"{phase} case 1 (size: 127; seed: 4242): bad")
    text = text_of(run_report(finished(result, mode=mode), result))
    assert words in text
    assert ("secret" in text) is bool(words)


def test_the_author_of_a_task_is_not_sent_to_the_author() -> None:
    result = result_of(Verdict.TASK_ERROR, message="ref_kernel: KeyError")
    text = text_of(trial_report(replace(finished(result), id=0), result))
    assert "Tell the task's author" not in text
    assert "hpc-board task check" in text


def test_the_table_of_explanations_has_one_row_for_each_verdict_in_their_order() -> None:
    assert list(explanations._VERDICTS) == list(Verdict)


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_has_a_meaning_and_a_next_step(verdict: Verdict) -> None:
    meaning = verdict_meaning(verdict)
    assert meaning.what.endswith(".")
    assert meaning.next.endswith(".")


@pytest.mark.parametrize(
    ("verdict", "message", "emulated", "words"),
    [
        (
            Verdict.DEVICE_ERROR,
            "it compiles for sm_90, but jobs for H100 run on a CPU here",
            True,
            "C++ and Python run",
        ),
        (Verdict.DEVICE_ERROR, "the target architecture is unknown: no GPU", True, "to set `arch` of this GPU"),
        (Verdict.INFRA_ERROR, "n1 has no hipcc, so that HIP cannot be compiled", False, "add one with `modules`"),
        (
            Verdict.INFRA_ERROR,
            "nvcc cannot be used: nvcc fatal   : Value 'c++23' is not",
            False,
            "correct `arch` or `std`",
        ),
        (Verdict.DEVICE_ERROR, "the target architecture is unknown: no GPU", False, "`arch` of this GPU"),
        (Verdict.EXCEPTION, "RuntimeError: No CUDA GPUs are available", True, "the device of the inputs"),
        (
            Verdict.DEVICE_ERROR,
            "no cuda device can be used on this node: PyTorch 2.13.0+cpu was built without GPU support; visible",
            False,
            "whose PyTorch supports this GPU",
        ),
        (
            Verdict.DEVICE_ERROR,
            "no cuda device can be used on this node: PyTorch 2.13.0 is built for 12.8; visible",
            False,
            "does not request a GPU",
        ),
        (Verdict.CRASH, "CUDA error: an illegal memory access was encountered", False, "memcheck names the kernel"),
        (Verdict.INFRA_ERROR, f"the Python p has no PyTorch, {LIBRARY_MISSING}", False, "the admin"),
        (Verdict.INFRA_ERROR, f"the Python p has no JAX, {LIBRARY_LACKING} (jax)", False, "lists the languages of"),
        (Verdict.INFRA_ERROR, f"{SCRATCH_UNWRITABLE} (/tmp: full)", False, "set TMPDIR to another folder"),
    ],
)
def test_the_advice_fits_what_the_job_lacked(verdict: Verdict, message: str, emulated: bool, words: str) -> None:
    result = result_of(verdict, message=message)
    text = text_of(run_report(finished(result, emulated=emulated), result))
    assert words in text


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_killed_supervisor_is_no_reason_to_look_for_calls_of_exit(number: int) -> None:
    last = Step("test", 1, 2, "size: 1")
    verdict, message = killed(number, last, memory_ran_out=False)
    result = result_of(verdict, message=message)
    text = text_of(run_report(finished(result), result))
    assert "Failed: crashed; the supervisor" in text
    assert "Rerun it; if it recurs, the kernel kills its parent or the node runs out of memory" in text
    assert "exit()" not in text


def uncertain(index: int, relative_error: float) -> Case:
    case = timed_case(index)
    assert case.timing is not None
    return replace(case, timing=replace(case.timing, err_ns=relative_error * case.timing.mean_ns))


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        (
            (0.01, 0.02, 0.334),
            "Noisy timing: standard error of ±33 % for benchmark 3 (busy machine or unstable kernel)",
        ),
        ((0.5, 0.02, 0.11), "Noisy timing: standard error of ±50 % for benchmark 1, ±11 % for benchmark 3 ("),
        ((0.5, 0.2, 0.11, 0.4), "Noisy timing: standard error of up to ±50 % in 4 benchmarks ("),
        ((0.01, 0.09), None),
    ],
)
def test_uncertain_times_of_a_passed_run_are_told_on_one_line(errors: tuple[float, ...], words: str | None) -> None:
    result = result_of(Verdict.PASS, *(uncertain(index, error) for index, error in enumerate(errors)))
    text = text_of(run_report(finished(result), result))
    assert (words or "\n") in text
    assert text.count("Noisy: standard error of ±") == text.count("Noisy timing") == (words is not None)


@pytest.mark.parametrize(
    ("told", "shown"),
    [("2026-05-01T12:00:09.714+00:00", "2026-05-01 12:00\n"), ("yester\x1b[31mday", "yesterday\n"), ("9999-12-31", "")],
)
def test_moments_that_a_job_tells_are_written_as_all_others(
    monkeypatch: pytest.MonkeyPatch, told: str, shown: str
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    result = replace(result_of(Verdict.PASS), started_at=told, ended_at=told)
    text = text_of(run_report(finished(result), result))
    for name in ("started", "ended"):
        assert re.search(rf"^{name} +{shown}", text, re.MULTILINE)


def test_an_emulated_run_is_marked() -> None:
    result = result_of(Verdict.PASS, timed_case())
    assert "Emulated:" in text_of(run_report(finished(result, emulated=True), result))
    assert "Emulated:" not in text_of(run_report(finished(result), result))


def test_a_board_marks_the_speedups_below_1() -> None:
    rows = [Standing(rank, user, score_s, 1, 1, AT, "k.py", "self-run", user) for rank, user, score_s in _SPEEDS]
    text = plain(
        board_report("vectoradd", replace(page_of(*rows), reference=Reference(2e-6, 1)), "ada"),
        None,
        lambda text, tone: f"<{tone}>{text}" if tone is Tone.BAD else text,
    )
    assert re.findall(r"(<bad>)?(\d\.\d\dx)", text) == [("", "2.00x"), ("", "1.00x"), ("<bad>", "0.50x")]


def test_a_comparison_marks_gains_and_losses_beyond_the_noise() -> None:
    result = result_of(Verdict.PASS, timed_case())
    run, times_ns = finished(result), (500.0, 1010.0, 2000.0)
    cases = tuple(CaseDifference(at, str(at), Difference(1e3, each, 1.05)) for at, each in enumerate(times_ns))
    found = comparison_report((run, run), (result, result), Comparison(cases, None, None))
    (table,) = (each for each in found if isinstance(each, Table))
    assert table.tones == (Tone.GOOD, Tone.PLAIN, Tone.BAD)


_SPEEDS = ((1, "ada", 1e-6), (2, "bob", 4e-6))


def test_escape_sequences_from_outside_do_not_reach_the_reader() -> None:
    evil = "\x1b]0;owned\x07\x1b[2Jx\u202e"
    result = replace(
        result_of(Verdict.CRASH, Case("test", 0, evil, Verdict.CRASH, evil), message=evil, stdout=evil, stderr=evil),
        provenance={evil: evil, "host": evil},
    )
    status = status_of(RunState.LOST, reason=evil, source=evil)
    lost = run_of(RunState.LOST, status=status, file_name=evil, user=evil)
    reports = [
        *run_report(finished(result, file_name=evil), result),
        *run_report(lost, None, (status,), (), log=evil),
        runs_table([lost], users=True),
        *board_report("vectoradd", page_of(Standing(1, evil, 1e-6, 1, 1, AT, evil, "self-run", evil)), "ada"),
    ]
    text = plain(reports)
    assert not {character for character in text if ord(character) < 0x20} - {"\n"}
    assert "\u202e" not in text
    assert "owned" not in text


def page_of(*rows: Standing) -> Page:
    return Page("H100", "v", rows, len(rows))


def test_gpus_show_what_is_not_known_as_a_question_mark_and_why() -> None:
    known = GpuStatus(H100, Availability("H100", 3, 8, 2, "up"))
    unknown = GpuStatus(replace(H100, name="A100"), Availability("A100"), "squeue did not answer")
    text = plain([gpus_table([known, unknown], AT)])
    assert text.splitlines()[1].split() == ["H100", "here", "gpu-h100", "3", "8", "2", "up"]
    assert text.splitlines()[2].split()[:6] == ["A100", "here", "gpu-h100", "?", "?", "?"]
    assert "squeue did not answer" in text


def test_a_length_of_time_is_given_in_its_largest_unit() -> None:
    lengths = [timedelta(seconds=s) for s in (-5, 59, 60, 3599, 3600, 47 * 3600, 49 * 3600)]
    assert [span_text(length) for length in lengths] == ["0 s", "59 s", "1 min", "59 min", "1 h", "47 h", "2 d"]


def test_a_table_that_is_too_wide_loses_the_end_of_its_flexible_cells_alone() -> None:
    table = Table((Column("N", right=True), Column("TEXT", flexible=True)), (("1000000", "x" * 40),))
    assert plain([table], 20).splitlines()[1] == f"1000000  {'x' * 10}…"
    assert "x" * 40 in plain([table])


def test_wide_characters_keep_the_columns_in_line() -> None:
    table = Table((Column("A"), Column("B")), (("核", "x"), ("ab", "y")))
    assert plain([table]).splitlines() == ["A   B", "核  x", "ab  y"]


def test_wide_characters_are_cut_by_the_columns_that_they_take() -> None:
    table = Table((Column("A", flexible=True),), (("核" * 10,),))
    assert plain([table], 10).splitlines()[1] == "核核核核…"


def test_paragraphs_are_wrapped_to_the_width_and_left_alone_without_one() -> None:
    block = Paragraph("one two three four five\n\n- a list, and `hpc-board run 12`")
    assert plain([block], 20) == "one two three four\nfive\n\n- a list, and\n`hpc-board run 12`\n"
    assert plain([block]) == "one two three four five\n\n- a list, and `hpc-board run 12`\n"


def test_paint_is_given_the_tone_of_each_text() -> None:
    tones: list[tuple[str, Tone]] = []

    def paint(text: str, tone: Tone) -> str:
        tones.append((text, tone))
        return text

    plain([Heading("Title"), Paragraph("Bad news.", Tone.BAD), Facts((("host", "n1"),))], None, paint)
    assert tones == [("Title", Tone.STRONG), ("Bad news.", Tone.BAD), ("host", Tone.QUIET)]


def test_moments_are_shown_in_the_readers_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-3")
    time.tzset()
    try:
        assert "2026-05-01 15:00" in plain([runs_table([run_of(RunState.QUEUED)])])
    finally:
        monkeypatch.undo()
        time.tzset()


# Widths and words


def test_a_table_that_is_too_wide_loses_the_columns_that_may_leave_and_never_wraps() -> None:
    long = "a_task_with_a_long_name"
    run = replace(
        finished(result_of(Verdict.TIMING_INCONSISTENT)), task=long, file_name="k" * 70 + ".py", note="a note"
    )
    for width in (40, 60, 80, 100):
        lines = plain([runs_table([run], users=True, now=AT)], width).splitlines()
        assert max(map(len, lines)) <= width
    wide, narrow = (plain([runs_table([run], now=AT)], width) for width in (200, 80))
    assert "FILE" in wide
    assert "FILE" not in narrow
    assert long[:11] in narrow


def test_the_outcome_of_a_run_has_its_colour() -> None:
    runs = [finished(result_of(Verdict.PASS)), finished(result_of(Verdict.CRASH)), run_of(RunState.QUEUED)]
    text = plain([runs_table(runs)], None, lambda text, tone: f"<{tone}>{text}</>" if tone is not Tone.QUIET else text)
    assert "<good>pass</>" in text
    assert "<bad>crashed</>" in text
    assert "<plain>" not in text


def test_a_fact_is_wrapped_under_its_beginning() -> None:
    text = plain([Facts((("note", "a word " * 20),))], 40)
    assert all(line.startswith("      a word") for line in text.splitlines()[1:])
    assert max(map(len, text.splitlines())) <= 40


@pytest.mark.parametrize(
    ("specs", "texts", "names"),
    [
        (("rows: 8192; cols: 257; seed: 3", "rows: 1; cols: 2; seed: 3"), ("8192 x 257", "1 x 2"), "rows x cols"),
        (("size: 4; seed: 1", "size: 4; seed: 2"), ("size: 4; seed: 1", "size: 4; seed: 2"), ""),
        (("size: 4; seed: 1", "rows: 4; seed: 2"), ("size: 4; seed: 1", "rows: 4; seed: 2"), ""),
        (("an own text",), ("an own text",), ""),
    ],
)
def test_a_case_is_short_where_that_says_enough(specs: tuple[str, ...], texts: tuple[str, ...], names: str) -> None:
    found = short_specs(specs)
    assert (found.texts, found.names) == (texts, names)


def test_every_verdict_and_state_has_words_of_its_own() -> None:
    verdicts = list(map(verdict_text, Verdict))
    states = [state_text(state) for state in RunState if state is not RunState.OUT_OF_MEMORY]
    assert len({*verdicts, *states}) == len(verdicts) + len(states)
    assert not any("_" in words for words in (*verdicts, *states))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (f"test case 5 (hidden case 1): {HIDDEN_MESSAGE}", f"test case 5 (hidden case 1): {HIDDEN_MESSAGE}"),
        ("test case 2 (size: 127; seed: 1): 5 values differ", "5 values differ, in test case 2 (size: 127; seed: 1)"),
        (
            "g++ exited with status 1: k.cpp:3:1: error: 'x' does not name a type",
            "'x' does not name a type, in k.cpp:3:1",
        ),
        (
            'nvcc exited with status 2: k.cu(58): error: identifier "x" is undefined',
            'identifier "x" is undefined, in k.cu(58)',
        ),
        (
            "hipcc exited with status 1: k.hip:1:10: fatal error: 'x.h' file not found",
            "'x.h' file not found, in k.hip:1:10",
        ),
        ("nvcc exited with status 2", "nvcc exited with status 2"),
        ("g++ exited with status 1: collect2: error: ld returned 1 exit status", None),
    ],
)
def test_a_reason_leads_with_its_cause(message: str, reason: str | None) -> None:
    run = replace(finished(result_of(Verdict.WRONG_VALUE)), message=message)
    assert why(run) == (reason or message)


def _raised(index: int, line: int = 9) -> Case:
    frames = (
        f'  File "kernel.py", line {line - 2}, in f\n    g()\n  File "kernel.py", line {line}, in g\n    t["boom"]\n'
    )
    message = f"KeyError: 'boom'\n{HEADER}\n{frames}  File \"lib.py\", line 3, in h\nKeyError: 'boom'"
    return Case("test", index, f"size: {index + 1}; seed: 3", Verdict.EXCEPTION, message)


def test_the_headline_of_an_exception_has_the_last_line_of_the_users_file() -> None:
    result = result_of(Verdict.EXCEPTION, _raised(0), message="test case 1 (size: 1; seed: 3): KeyError: 'boom'")
    text = text_of(run_report(finished(result), result))
    assert "Failed: exception; kernel.py:9: KeyError: 'boom', in test case 1 (size: 1; seed: 3)\n" in text
    other = finished(result, file_name="other.py")
    assert "Failed: exception; KeyError: 'boom', in test case 1" in text_of(run_report(other, result))


def test_the_headline_of_a_wrong_value_has_no_line_of_another_case() -> None:
    wrong = Case("test", 0, "size: 1; seed: 3", Verdict.WRONG_VALUE, "wrong value at [1]")
    message = "test case 1 (size: 1; seed: 3): wrong value at [1]"
    result = result_of(Verdict.WRONG_VALUE, wrong, _raised(2), message=message)
    headline = text_of(run_report(finished(result), result)).splitlines()[1:3]
    assert "kernel.py:" not in " ".join(headline)


def test_consecutive_cases_with_one_failure_share_a_row_so_that_a_small_screen_has_the_traceback() -> None:
    passed = Case("test", 3, "size: 4; seed: 3", Verdict.PASS)
    other = Case("test", 6, "size: 7; seed: 6", Verdict.EXCEPTION, "another")
    result = result_of(Verdict.EXCEPTION, *map(_raised, range(3)), passed, *map(_raised, range(4, 6)), other)
    text = text_of(run_outcome(finished(result), result))
    assert "1 to 3  exception  KeyError: 'boom'  1 and 2 more\n" in text
    assert "     4  pass                         4\n" in text
    assert "5 to 6  exception  KeyError: 'boom'  5 and 1 more\n" in text
    assert text[: text.index("--- test 1 ---")].count("\n") < 24


def test_a_failure_of_all_cases_is_told_in_the_outcome_and_ends_its_traceback() -> None:
    raised = [_raised(index) for index in range(6)]
    message = "test case 1 (size: 1; seed: 0): KeyError: 'boom'"
    result = replace(result_of(Verdict.EXCEPTION, *raised), message=message)
    text = text_of(run_outcome(finished(result), result))
    assert "KeyError: 'boom', in test case 1 (size: 1; seed: 0) and 5 more\n" in text
    assert "1 to 6  exception  1 and 5 more\n" in text
    assert text.count("KeyError: 'boom'") == 2
    two = replace(result, cases=(raised[0], replace(raised[1], message="ValueError: another")))
    text = text_of(run_outcome(finished(two), two))
    assert "(size: 1; seed: 0)\n" in text
    assert "1  exception  KeyError: 'boom'     1\n" in text


@pytest.mark.parametrize(
    ("reference_ns", "words"),
    [
        (1.1e6, "Hidden cases are 1.82x slower against the reference than public ones: the kernel may be tuned"),
        (1.9e6, "Hidden cases are 1.05x slower against the reference than public ones."),
        (4e6, "Hidden cases are 2.00x faster against the reference than public ones."),
    ],
)
def test_the_report_compares_hidden_cases_with_public_ones(reference_ns: float, words: str) -> None:
    public = row_case(low_ns=0.99e6, time_ns=1e6, high_ns=1.01e6)
    assert public.timing is not None
    known = replace(public, timing=replace(public.timing, reference_ns=2e6))
    hidden = replace(public, index=1, spec="hidden case 1", timing=replace(public.timing, reference_ns=reference_ns))
    result = result_of(Verdict.PASS, known, hidden)
    text = " ".join(text_of(run_report(finished(result), result)).split())
    assert words in text
    assert "hidden case 1" in text
    assert [each.kind for each in result_advice(result)] == ["hidden"]
    slower = replace(public, index=2, timing=replace(public.timing, reference_ns=1.2e6))
    noisy = replace(known, index=2, timing=replace(public.timing, reference_ns=2e6, busy_processors=0.5))
    for other in (slower, noisy):
        assert "tuned" not in result_advice(result_of(Verdict.PASS, known, other, hidden))[-1].text


def test_the_report_and_the_json_have_the_same_remarks_on_times() -> None:
    wide = row_case(low_ns=1.5e6, time_ns=2e6, high_ns=2.66e6)
    assert wide.timing is not None
    told = dict.fromkeys(("best_ns", "worst_ns", "bound_ns", "time_ns"), 349_858.0)
    cases = (
        wide,
        replace(wide, index=1, timing=replace(wide.timing, busy_processors=0.5, repeats=3)),
        replace(wide, index=2, timing=replace(wide.timing, low_ns=151e3, high_ns=349_858.0, **told)),
        replace(wide, index=3, timing=replace(wide.timing, low_ns=1.99e6, high_ns=2.01e6, throttled=True)),
        replace(wide, index=4, timing=replace(wide.timing, low_ns=1.99e6, high_ns=2.01e6)),
    )
    result = result_of(Verdict.PASS, *cases)
    found = result_advice(result)
    assert [each.kind for each in found] == ["busy", "wide_interval", "alone", "throttled", "measured_again"]
    text = " ".join(text_of(run_report(finished(result), result)).split())
    assert [each.text for each in found if each.text not in text] == []
    assert "interval of 58 % for benchmark 1" in text
    assert "interval of 57 % for benchmark 3, from calls back to back to a single call" in text
    noise = (
        "Noisy: other programs used 0.5 processors, interval of 58 %, overlapping calls with an interval of 57 %, "
        "throttled GPU."
    )
    shown = [each for each in run_outcome(finished(result), result) if isinstance(each, Paragraph)]
    assert [each.text for each in shown if each.tone is Tone.UNSURE] == [noise]
    assert "Measured again: benchmark 2, by up to 3 more processes, since other work used the machine." in text
    assert [case.noisy for case in cases_of(result)] == [True, True, True, True, False]
    assert [advice.text for advice in advice_of(result)] == [each.text for each in found]


def test_the_means_of_a_run_are_a_line_of_its_report() -> None:
    used = (Used("triton", 2), Used("cublas", 1), Used("openblas"))
    result = replace(result_of(Verdict.PASS), means=used)

    for blocks in (run_report(finished(result), result), run_summary(finished(result), result)):
        assert "\n3 kernels: 2 triton, 1 cublas; 1 library: openblas.\n" in text_of(blocks)

    broken = result_of(Verdict.PROTOCOL_VIOLATION, message="the task forbids cublas: its processes used the library")
    text = text_of(run_report(finished(broken), broken))
    assert "The submission breaks the task's rule on the kernels and libraries that it may use." in text
