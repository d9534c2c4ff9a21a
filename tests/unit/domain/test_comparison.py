"""Two submissions beside each other: the differences, what is shown of them, and what cannot be compared."""

import json
import math
import random
import re
import statistics
from collections.abc import Sequence

import pytest
from click.testing import CliRunner, Result

from hpc_board.cli.main import cli
from hpc_board.domain.comparison import Difference, compared, own_best
from hpc_board.domain.origin import Origin
from hpc_board.domain.run import Run, RunState
from hpc_board.harness.measure.timing import of_rows
from hpc_board.model.kernels import Kernel
from hpc_board.model.result import Case, Timing, Verdict
from hpc_board.model.score import figures, is_slower, least_score_s
from hpc_board.model.task import Mode, Ranking
from hpc_board.report.comparisons import comparison_report
from hpc_board.report.plain import plain
from hpc_board.store import Store
from hpc_board.store.submissions import NewRun, NewSubmission
from tests.noisy_runs import BUSY, QUIET, STEADY_GPU, Noise, ranked_run
from tests.unit.recorded import AT, Recorded, result_of, row_case, status_of
from tests.unit.report.test_report import finished
from tests.values import replace

MS = 1e6


def case(workers: Sequence[Sequence[float]], index: int = 0, reference_ns: float | None = None) -> Case:
    """A benchmark case with the samples of each worker."""
    samples = tuple(sample for each in workers for sample in each)
    timing = Timing(
        samples=len(samples),
        mean_ns=statistics.fmean(samples),
        time_ns=statistics.median(map(statistics.median, workers)),
        std_ns=1,
        err_ns=1,
        best_ns=min(samples),
        worst_ns=max(samples),
        samples_ns=samples,
        worker_samples=tuple(map(len, workers)),
        reference_ns=reference_ns,
    )
    return Case("benchmark", index, f"size: {index}", Verdict.PASS, "", timing)


def steady(*medians_ns: float, index: int = 0, reference_ns: float | None = None) -> Case:
    """A case whose workers have these medians."""
    return case([[median * 0.999, median, median * 1.001] for median in medians_ns], index, reference_ns)


def difference(one: Case, other: Case) -> Difference:
    (found,) = compared([one], [other], Ranking.LAST).cases
    return found.difference


def rows(*rows_ms: float, index: int = 0, reference_ns: float | None = None) -> Case:
    """A case of a CPU, measured in two rows by each process."""
    passes = [[MS * each for each in rows_ms[first : first + 2]] for first in range(0, len(rows_ms), 2)]
    timing = of_rows(passes, [reference_ns] if reference_ns else [], [], floor_ns=0, bound_ns=0, busy=0)
    return Case("benchmark", index, f"size: {index}", Verdict.PASS, "", timing)


def test_a_difference_beyond_the_intervals_of_both_runs_is_shown_with_its_error() -> None:
    found = difference(steady(10.0 * MS, 10.1 * MS, 9.9 * MS), steady(5.0 * MS, 5.05 * MS, 4.95 * MS))
    assert found.shown
    assert found.repeated
    assert found.speedup == pytest.approx(2.0)
    assert found.spread
    # The half of each 80 % interval is t(2) = 1.886 times 1 % / sqrt(3); two runs differ by 2 %.
    half = 1.886 * 0.01 / math.sqrt(3)
    assert math.log(found.spread) == pytest.approx(math.hypot(1.75 * half, 1.75 * half, 0.02), rel=0.01)
    assert found.text == "2.00x faster (± 0.07x)"


def test_a_difference_within_the_intervals_of_both_runs_is_within_noise() -> None:
    found = difference(steady(10 * MS, 11 * MS, 9 * MS), steady(9.8 * MS, 11 * MS, 9.1 * MS))
    assert not found.shown
    assert re.fullmatch(r"within noise \(1\.02x ± 0\.\d+x\)", found.text)


def test_a_gain_of_a_third_is_shown_though_a_row_of_each_process_was_slow() -> None:
    one, other = rows(8.63, 11.9, 8.84, 14.2, 9.04, 9.12), rows(6.16, 9.80, 6.64, 6.70, 8.81, 6.90)
    assert one.timing
    assert other.timing
    assert [round(each.low_ns or 0) for each in (one.timing, other.timing)] == [8_630_000, 6_160_000]
    assert [round(each.high_ns or 0) for each in (one.timing, other.timing)] == [9_120_000, 6_900_000]
    found = difference(one, other)
    assert re.fullmatch(r"1\.3\dx faster \(± 0\.\d+x\)", found.text)
    assert not difference(one, one).shown
    assert difference(one, one).text.startswith("within noise (1.00x ± ")


def test_the_published_intervals_decide_that_a_gain_is_true() -> None:
    bounds = {8.91: (8.63, 9.04), 6.66: (6.16, 6.90)}

    def published(time_ms: float) -> Case:
        made = rows(time_ms, time_ms, time_ms)
        low_ms, high_ms = bounds[time_ms]
        return replace(made, timing=replace(made.timing, low_ns=low_ms * MS, high_ns=high_ms * MS))

    assert difference(published(8.91), published(6.66)).text == "1.34x faster (± 0.18x)"
    assert difference(published(6.66), published(8.91)).text == "1.34x slower (± 0.18x)"


def test_rows_without_any_scatter_still_differ_from_run_to_run() -> None:
    assert (
        difference(rows(1, 1, 1, 1, 1, 1), rows(0.96, 0.96, 0.96, 0.96, 0.96, 0.96)).text
        == "within noise (1.04x ± 0.05x)"
    )
    assert difference(rows(1, 1, 1, 1, 1, 1), rows(0.9, 0.9, 0.9, 0.9, 0.9, 0.9)).shown


def test_a_difference_that_the_reference_has_too_is_within_noise() -> None:
    one, other = rows(*[1.3] * 6, reference_ns=1.4 * MS), rows(*[1.0] * 6, reference_ns=MS)
    assert not difference(one, other).shown
    assert difference(one, rows(*[1.0] * 6, reference_ns=1.4 * MS)).shown
    score = compared([one], [other], Ranking.GEOM).score
    assert score
    assert not score.shown


@pytest.mark.parametrize(("low_ns", "high_ns"), [(0.0, 1e18), (1e-3, 1e18), (2 * MS, 0.5 * MS), (0.0, 0.0)])
def test_bounds_of_any_origin_give_a_finite_interval(low_ns: float, high_ns: float) -> None:
    made = rows(1, 1, 1, 1)
    hostile = replace(made, timing=replace(made.timing, low_ns=low_ns, high_ns=high_ns))
    huge = replace(made, timing=replace(made.timing, time_ns=1e18, samples_ns=(1e18,) * 4, reference_ns=1e-3))
    for one, other in ((hostile, made), (made, hostile), (hostile, huge), (huge, hostile)):
        found = difference(one, other)
        assert found.low
        assert found.high
        assert 0 < found.low <= found.speedup <= found.high < math.inf
        assert found.text


def test_a_time_of_zero_is_not_compared() -> None:
    zero = rows(1, 1, 1, 1)
    found = compared([replace(zero, timing=replace(zero.timing, time_ns=0.0))], [zero], Ranking.GEOM)
    assert (found.cases, found.score) == ((), None)


@pytest.mark.parametrize(
    ("noise", "ratio", "least", "most"),
    [
        (QUIET, 1.0, 0, 0.05),
        (QUIET, 1.1, 0.9, 1),
        (QUIET, 1.25, 0.99, 1),
        (BUSY, 1.0, 0, 0.05),
        (BUSY, 1.25, 0.92, 1),
        (STEADY_GPU, 1.0, 0, 0.05),
        (STEADY_GPU, 1.1, 0.99, 1),
    ],
)
def test_true_differences_are_shown_and_false_ones_are_not(
    noise: Noise, ratio: float, least: float, most: float
) -> None:
    chance = random.Random(7)
    found = [difference(*ranked_run(chance, noise, 1, ratio), *ranked_run(chance, noise, 1)).shown for _ in range(600)]
    assert least <= statistics.fmean(found) <= most


@pytest.mark.parametrize("noise", [QUIET, BUSY, STEADY_GPU])
@pytest.mark.parametrize("ranking_by", [Ranking.GEOM, Ranking.LAST])
def test_a_benchmark_stops_as_slower_only_where_the_comparison_says_so(noise: Noise, ranking_by: Ranking) -> None:
    chance = random.Random(4)
    stopped = []
    for factor in (1.0, 1.05, 1.2, 1.5, 4.0) * 10:
        best, other = ranked_run(chance, noise, 2), ranked_run(chance, noise, 2, factor)
        rule = own_best(finished(result_of(Verdict.PASS)), best, ranking_by)
        assert rule is not None
        if is_slower(other, rule, least_score_s(other, 2, 1e-7, ranking_by)):
            score = compared(best, other, ranking_by).score
            assert score is not None
            assert (score.shown, score.speedup < 1) == (True, True)
            stopped.append(factor)
    assert 4.0 in stopped


def test_a_benchmark_does_not_stop_by_few_samples_or_on_a_slower_machine() -> None:
    best = row_case(low_ns=1.05 * MS, time_ns=1.08 * MS, high_ns=1.12 * MS, reference_ns=MS)
    rule = own_best(finished(result_of(Verdict.PASS)), [best], Ranking.LAST)
    assert rule is not None
    slower = row_case(low_ns=3.05 * MS, time_ns=3.08 * MS, high_ns=3.12 * MS, reference_ns=MS)
    assert slower.timing is not None
    few = replace(slower, timing=replace(slower.timing, samples_ns=(3.08 * MS,), worker_samples=(1,)))
    on_slower_machine = replace(slower, timing=replace(slower.timing, reference_ns=3 * MS))
    for other, stops in ((slower, True), (few, False), (on_slower_machine, False)):
        assert is_slower([other], rule, least_score_s([other], 1, 1e-7, Ranking.LAST)) == stops
    assert own_best(finished(result_of(Verdict.PASS)), [few], Ranking.LAST) is None


def test_processes_count_and_not_their_calls() -> None:
    calls = [0.999, 1.0, 1.001] * 50
    one = case([[MS * call for call in calls], [1.05 * MS * call for call in calls]])
    other = case([[1.02 * MS * call for call in calls], [1.07 * MS * call for call in calls]])
    assert not difference(one, other).shown


def test_of_single_processes_the_scatter_of_the_calls_is_taken() -> None:
    found = difference(case([[1.0 * MS, 1.01 * MS, 0.99 * MS] * 10]), case([[1.1 * MS, 1.11 * MS, 1.09 * MS] * 10]))
    assert found.shown
    assert not found.repeated


def test_two_calls_say_nothing() -> None:
    found = difference(case([[MS, 2 * MS]]), case([[3 * MS, 4 * MS]]))
    assert (found.low, found.shown, found.text) == (None, False, "2.33x slower (uncertain)")


def test_a_large_scatter_is_told_as_a_range() -> None:
    found = difference(steady(10 * MS, 12 * MS, 11 * MS), steady(1 * MS, 1.2 * MS, 1.1 * MS))
    assert re.fullmatch(r"10\.0x faster \([\d.]+x to [\d.]+x\)", found.text)
    assert (
        difference(steady(10 * MS, 90 * MS), steady(5 * MS, 40 * MS)).text
        == "within noise (2.22x faster, error of 10x or more)"
    )


@pytest.mark.parametrize(
    ("factor", "change", "error"),
    [(1.082, "1.08x", "0.01x"), (1.99, "1.99x", "0.02x"), (3.4, "3.40x", "0.03x"), (24.3, "24.3x", "0.2x")],
)
def test_a_difference_is_told_as_a_ratio_in_both_directions(factor: float, change: str, error: str) -> None:
    assert Difference(factor, 1, 1.01).text == f"{change} faster (± {error})"
    assert Difference(1, factor, 1.01).text == f"{change} slower (± {error})"


def test_an_error_of_several_times_the_smaller_time_is_told_as_a_range() -> None:
    assert Difference(1.679, 1, 1.59).text == "1.68x faster (1.06x to 2.67x)"
    assert Difference(14.5, 1, 1.908).text == "14.5x faster (7.60x to 27.7x)"
    assert Difference(1, 14.5, 1.908).text == "14.5x slower (7.60x to 27.7x)"
    assert Difference(14.5, 1, 1.007).text == "14.5x faster (± 0.1x)"


@pytest.mark.parametrize(
    ("ranking_by", "speedup"), [(Ranking.LAST, 4.0), (Ranking.MEAN, 15 / 6), (Ranking.GEOM, math.sqrt(8))]
)
def test_scores_are_compared_as_the_task_ranks(ranking_by: Ranking, speedup: float) -> None:
    one = [steady(10 * MS, 10 * MS, index=0), steady(20 * MS, 20 * MS, index=1)]
    other = [steady(5 * MS, 5 * MS, index=0), steady(5 * MS, 5 * MS, index=1)]
    if ranking_by is Ranking.MEAN:
        other[1] = steady(7 * MS, 7 * MS, index=1)
    score = compared(one, other, ranking_by).score
    assert score is not None
    assert score.speedup == pytest.approx(speedup)


def scattered(chance: random.Random, *medians_ns: float, calls: int = 12) -> list[Case]:
    """Return cases of a single process, whose calls scatter by 5 %."""
    return [
        case([[median * math.exp(chance.gauss(0, 0.05)) for _ in range(calls)]], index)
        for index, median in enumerate(medians_ns)
    ]


@pytest.mark.parametrize("ranking_by", [Ranking.MEAN, Ranking.GEOM])
def test_the_score_of_single_processes_has_the_scatter_of_its_cases(ranking_by: Ranking) -> None:
    chance = random.Random(7)
    faster = compared(scattered(chance, MS, 3 * MS), scattered(chance, 0.8 * MS, 2.4 * MS), ranking_by).score
    assert faster is not None
    assert faster.shown
    assert not faster.repeated
    assert "x faster (± " in faster.text


@pytest.mark.parametrize("ranking_by", [Ranking.MEAN, Ranking.GEOM])
def test_a_score_of_the_same_error_in_each_case_has_that_error(ranking_by: Ranking) -> None:
    one, other = ([rows(1, 1.02, 1.04, 1.06, index=index) for index in range(4)] for _ in range(2))
    found = compared(one, other, ranking_by)
    assert found.score is not None
    (of_case, *_) = found.cases
    assert found.score.spread == pytest.approx(of_case.difference.spread)


def test_a_case_with_too_few_calls_leaves_the_score_without_an_interval() -> None:
    one = [steady(MS), case([[MS, MS]], index=1)]
    score = compared(one, one, Ranking.GEOM).score
    assert score is not None
    assert score.low is None


def test_runs_without_the_same_cases_have_no_score_to_compare() -> None:
    found = compared([steady(MS, MS), steady(MS, MS, index=1)], [steady(MS, MS)], Ranking.LAST)
    assert len(found.cases) == 1
    assert found.score is None


# The report


def report(one: Case, other: Case, nodes: tuple[str, str] = ("", "")) -> str:
    results = [result_of(Verdict.PASS, each) for each in (one, other)]
    runs = [
        finished(result, id=number, status=replace(status_of(RunState.FINISHED), node=node))
        for number, (result, node) in enumerate(zip(results, nodes, strict=True), 1)
    ]
    return plain(comparison_report(runs, results, compared([one], [other], Ranking.LAST)))


def test_the_report_says_where_its_error_comes_from() -> None:
    repeated = report(steady(MS, MS), steady(2 * MS, 2 * MS))
    assert "from the scatter of both runs and the usual difference of two runs of one file." in " ".join(
        repeated.split()
    )
    within = report(case([[MS, MS, MS]]), case([[MS, MS, MS]]))
    assert "within one process, of which mode ranked has several" in " ".join(within.split())


@pytest.mark.parametrize(("half", "words"), [(1.4, "1.00x ± 0.40x"), (1.95, "as fast, 0.51x to 1.95x")])
def test_a_wide_interval_is_no_figure_that_reads_as_a_confidence(half: float, words: str) -> None:
    assert Difference(MS, MS, half).text == f"within noise ({words})"


def test_the_score_comes_first_below_the_names_of_both_files() -> None:
    results = [result_of(Verdict.PASS, steady(MS, MS), steady(MS, MS, index=1)) for _ in range(2)]

    def head(*names: str) -> list[str]:
        runs = [
            finished(result, id=number, file_name=name)
            for number, (result, name) in enumerate(zip(results, names, strict=True), 1)
        ]
        found = compared(results[0].cases, results[1].cases, Ranking.GEOM)
        _, heads, first, *_ = plain(comparison_report(runs, results, found)).splitlines()
        assert first.startswith("score")
        return heads.partition("TIMES")[0].split()

    assert head("slow.py", "fast.py") == ["CASE", "slow.py", "→", "fast.py", "CHANGE"]
    assert head("mm.py", "mm.py") == ["CASE", "run", "1", "→", "run", "2", "CHANGE"]


def test_machines_that_differ_are_named() -> None:
    same = report(steady(MS, MS, reference_ns=MS), steady(MS, MS, reference_ns=1.04 * MS))
    other = report(steady(MS, MS, reference_ns=MS), steady(MS, MS, reference_ns=1.5 * MS))
    assert "reference" not in same
    assert "the task's reference took 1.50x as long in run 2;" in " ".join(other.split())


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (("n1", "n1"), "Conditions differed"),
        (("n1", ""), "Conditions differed"),
        (("n1", "n2"), "Machines differ"),
    ],
)
def test_machines_differ_only_where_the_nodes_do(nodes: tuple[str, str], words: str) -> None:
    text = report(steady(MS, MS, reference_ns=MS), steady(MS, MS, reference_ns=1.5 * MS), nodes)
    assert f"{words}: the task's reference took 1.50x as long" in text


def test_a_busy_machine_is_named() -> None:
    quiet, busy = rows(1, 1, 1, 1), rows(1, 1, 1, 1)
    busy = replace(busy, timing=replace(busy.timing, busy_processors=1.64))
    words = "Busy machine: other work used 1.6 processors in run 2; its times are less certain."
    assert words in " ".join(report(quiet, busy).split())
    both = " ".join(report(replace(busy, timing=replace(busy.timing, busy_processors=0.99)), busy).split())
    words = "other work used 1.0 and 1.6 processors in runs 1 and 2; their times are less certain."
    assert both.count("Busy machine") == both.count(words) == 1
    assert "Busy" not in report(quiet, quiet)


# The command, on a board


def call(board: Recorded, *argv: str) -> Result:
    return CliRunner().invoke(cli, argv, obj=lambda: board.board)


def add(board: Recorded, *medians_ns: float, gpu: str = "CPU", verdict: Verdict = Verdict.PASS) -> Run:
    return board.add(result=result_of(verdict, steady(*medians_ns)), score_s=medians_ns[0] / 1e9, gpu=gpu)


def test_two_submissions_are_compared_on_each_gpu_that_both_ran_on(board: Recorded) -> None:
    one, other = add(board, MS, 1.01 * MS), add(board, 0.5 * MS, 0.51 * MS)
    done = call(board, "compare", str(one.id), str(other.id))
    assert done.exit_code == 0, done.output
    assert "vectoradd_py on CPU (case: size): run 1 (kernel.py by " in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("0 ")]
    assert line.split()[1:5] == ["1.00", "ms", "505", "µs"]
    assert "x faster (± " in line


def test_a_comparison_as_json_has_the_bounds(board: Recorded) -> None:
    one, other = add(board, MS, 1.01 * MS), add(board, 0.5 * MS, 0.51 * MS)
    done = call(board, "compare", str(one.id), str(other.id), "--json")
    (found,) = json.loads(done.stdout)["boards"]
    assert (found["gpu"], found["submissions"], found["verdicts"]) == ("CPU", [1, 2], ["pass", "pass"])
    (case_found,) = found["cases"]
    assert case_found["speedup_low"] < case_found["speedup"] < case_found["speedup_high"]
    assert case_found["between_processes"] is True


def profiled(board: Recorded, *kernels: Kernel) -> Run:
    return board.add(result=replace(result_of(Verdict.PASS), mode="profile", kernels=kernels))


def test_two_profiles_are_compared_by_the_numbers_of_each_kernel(board: Recorded) -> None:
    one = profiled(board, Kernel(0, "softmax", 1, 20_000, 0.8, registers=64, spills=0), Kernel(0, "copy", 1, 5000, 0.2))
    other = profiled(board, Kernel(0, "softmax", 1, 15_000, 0.9, registers=128), Kernel(0, "scale", 2, 1000, 0.1))
    done = call(board, "compare", str(one.id), str(other.id))
    assert done.exit_code == 0, done.output
    assert "No common benchmark case" not in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["case", "1:", "softmax", "time", "of", "a", "launch", "20.0", "µs", "15.0", "µs", "-25", "%"] in rows
    assert ["case", "1:", "softmax", "registers", "64", "128", "+100", "%"] in rows
    assert ["case", "1:", "softmax", "spill", "instructions", "0", "-"] in rows
    assert ["case", "1:", "scale", "time", "of", "a", "launch", "-", "1.00", "µs"] in rows
    drawn = call(board, "compare", str(one.id), str(other.id), "--plot", "cases.svg")
    assert "no plot: the runs have no common benchmark case" in drawn.stderr
    done = call(board, "compare", str(one.id), str(other.id), "--json")
    (found,) = json.loads(done.stdout)["boards"]
    first, second, third = found["kernels"]
    assert first["changes"] == {"duration_ns": -5000, "time_share": pytest.approx(0.1), "registers": 64}
    assert [each["name"] for each in first["kernels"]] == ["softmax", "softmax"]
    assert (second["kernels"][1], third["kernels"][0], second["changes"]) == (None, None, {})


def test_the_only_kernel_of_a_case_is_compared_under_any_name(board: Recorded) -> None:
    one, other = profiled(board, Kernel(0, "softmax_v1", 1, 20_000)), profiled(board, Kernel(0, "softmax_v2", 1, 5000))
    done = call(board, "compare", str(one.id), str(other.id))
    assert "case 1: softmax_v1 / softmax_v2" in done.stdout


def test_one_that_did_not_pass_says_so(board: Recorded) -> None:
    one, other = add(board, MS, MS), add(board, MS, MS, verdict=Verdict.TIMING_INCONSISTENT)
    done = call(board, "compare", str(one.id), str(other.id))
    assert "Run 2 did not pass: inconsistent timing." in done.stdout


def test_files_without_a_gpu_in_common_have_nothing_to_compare(board: Recorded) -> None:
    one, other = add(board, MS, MS), add(board, MS, MS, gpu="H100")
    done = call(board, "compare", str(one.id), str(other.id))
    assert done.exit_code == 2
    assert "the file of run 1 has times on CPU; the file of run 2 has times on H100" in done.stderr
    untimed = board.add(status_of(RunState.CANCELLED))
    done = call(board, "compare", str(one.id), str(untimed.id))
    assert "the file of run 3 has no times on CPU (run 3 on CPU, mode ranked: cancelled)" in done.stderr
    failed = board.add(result=result_of(Verdict.WRONG_VALUE))
    done = call(board, "compare", str(one.id), str(failed.id), "--gpu", "cpu")
    assert "the file of run 4 has no times on CPU (run 4 on CPU, mode ranked: wrong_value)" in done.stderr


def test_a_gpu_that_one_of_them_has_no_times_of_is_named(board: Recorded) -> None:
    one, other = add(board, MS, MS), add(board, MS, MS)
    done = call(board, "compare", str(one.id), str(other.id), "--gpu", "h100")
    assert done.exit_code == 2
    assert "the file of run 1 has no times on H100; the file of run 2 has no times on H100" in done.stderr


def test_an_unknown_number_is_an_input_error(board: Recorded) -> None:
    done = call(board, "compare", str(add(board, MS, MS).id), "77")
    assert done.exit_code == 2
    assert "there is no run 77" in done.stderr


def test_two_runs_of_one_file_have_nothing_to_compare(board: Recorded) -> None:
    done = call(board, "compare", "1", str(add(board, MS, MS).id))
    assert done.exit_code == 2
    assert "runs 1 and 1 are of one submission, which has one file" in done.stderr


@pytest.mark.parametrize(("value", "digits", "text"), [(137.4, 2, "140"), (1234.0, 3, "1230"), (0.987, 2, "0.99")])
def test_figures_have_no_exponent(value: float, digits: int, text: str) -> None:
    assert figures(value, digits) == text


def test_a_machine_that_was_much_slower_is_told_in_figures() -> None:
    cases = steady(MS, MS, reference_ns=MS), steady(MS, MS, reference_ns=2.37 * MS)
    assert "took 2.37x as long in run 2" in report(*cases)


def test_what_the_bounds_mean_is_said_of_those_that_are_there() -> None:
    spread = case([[0.1 * MS] * 3, [MS] * 3, [10 * MS] * 3])
    assert "confidence interval" not in report(spread, spread)
    assert "± is half" in report(steady(MS, 1.01 * MS), steady(MS, 1.01 * MS))
    far = steady(0.9 * MS, MS, 1.1 * MS), steady(9e9 * MS, 1e10 * MS, 1.1e10 * MS)
    text = report(*far)
    assert "±" not in text
    assert "A range is the 95 % confidence interval of a change, from the scatter of both runs" in text


def test_submissions_to_different_versions_of_a_task_are_not_compared(board: Recorded) -> None:
    one = add(board, MS, MS)
    task = board.board.tasks.get("vectoradd_py")
    run = NewRun("CPU", "here", "", "token", "nonce", "self-run", False, "")
    Store(board.board.settings.board / "board.db").submissions.add(
        NewSubmission(
            task=replace(task, tests=task.tests[:1]),
            user="ada",
            file_name="kernel.py",
            code=b"",
            mode=Mode.RANKED,
            note="",
            at=AT,
            runs=[run],
        ),
        sender=None,
    )
    done = call(board, "compare", str(one.id), "2")
    assert done.exit_code == 2
    assert "for different versions of vectoradd_py" in done.stderr
    assert "`hpc-board runs --all --task vectoradd_py` lists" in " ".join(done.stderr.split())


def test_times_without_samples_have_a_speedup_and_no_confidence(board: Recorded) -> None:
    timing = Timing(5, MS, MS, 1, 1, MS, MS, ())
    runs = [
        board.add(
            result=result_of(Verdict.PASS, Case("benchmark", 0, "size: 0", Verdict.PASS, "", each)), score_s=0.001
        )
        for each in (timing, replace(timing, time_ns=MS / 2, mean_ns=MS / 2))
    ]
    done = call(board, "compare", *(str(run.submission) for run in runs))
    assert done.exit_code == 0, done.output
    assert "  2.00x faster (uncertain)" in done.stdout
    assert "±" not in done.stdout
    board.add(result=result_of(Verdict.PASS, case([[3 * MS]])), score_s=0.003, mode=Mode.BENCHMARK)
    line = json.loads(call(board, "run", "3", "--json").stdout)["verdict_line"]
    assert line.endswith("3.00x slower than the user's best before, 1.00 ms (run 1) (uncertain)")


def test_a_run_of_an_entrant_is_compared_with_its_own_best_and_another_best_is_named(board: Recorded) -> None:
    def line(entrant: str, ms: float, mode: Mode = Mode.RANKED) -> str:
        result = result_of(Verdict.PASS, row_case(low_ns=ms * MS, time_ns=ms * MS, high_ns=ms * MS))
        run = board.add(result=result, score_s=ms / 1e3, mode=mode, origin=Origin(entrant))
        return str(json.loads(call(board, "run", str(run.id), "--json").stdout)["verdict_line"])

    line("a", 1)
    assert line("b", 6).endswith("slower (± 0.31x) than the user's best, 1.00 ms (run 1 by a)")
    assert line("b", 3).endswith("faster (± 0.10x) than b's best before, 6.00 ms (run 2)")
    assert line("b", 4, Mode.BENCHMARK).endswith("than b's best before, 3.00 ms (run 3)")
    assert line("a", 2).endswith("than the user's best, 1.00 ms (run 1)")
