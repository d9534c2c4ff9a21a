"""Experiments: two entrants compared by their runs, as text, JSON, a plot and in Python."""

import getpass
import json
import math
import re
from datetime import timedelta
from itertools import combinations

import pytest

from hpc_board.board.experiments import experiment
from hpc_board.domain.experiment import pass_at_k, trajectory
from hpc_board.domain.origin import Origin, tags_of
from hpc_board.domain.run import Run
from hpc_board.errors import InputError
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.report.experiments import Over, experiment_plot
from hpc_board.scripting import Board
from hpc_board.web.plots import svg
from tests.unit.recorded import AT, Recorded, call, read, result_of, row_case, timed_case
from tests.values import replace

ME = getpass.getuser()
UPRIGHT_TITLE_END = 16


def ran(
    board: Recorded,
    entrant: str,
    score_ms: float | None = None,
    *,
    minute: int = 0,
    code: str = "",
    mode: Mode = Mode.RANKED,
    verdict: Verdict = Verdict.PASS,
    user: str | None = None,
    tags: str = "",
    gpu: str = "CPU",
    task: str = "vectoradd_py",
) -> Run:
    """Store a run that was submitted in a minute, and took half of one."""
    at = AT + timedelta(minutes=minute)
    case = timed_case() if score_ms is None else replace(row_case(), index=0)
    if score_ms is not None and case.timing is not None:
        factor = score_ms * 1e6 / case.timing.time_ns
        low_ns, high_ns = case.timing.low_ns, case.timing.high_ns
        assert low_ns is not None
        assert high_ns is not None
        times = {"time_ns": score_ms * 1e6, "low_ns": factor * low_ns, "high_ns": factor * high_ns}
        samples = tuple(factor * each for each in case.timing.samples_ns)
        case = replace(case, timing=replace(case.timing, **times, samples_ns=samples))
    result = replace(result_of(verdict, case), ended_at=(at + timedelta(seconds=30)).isoformat())
    return board.add(
        result=result,
        score_s=None if score_ms is None else score_ms / 1e3,
        mode=mode,
        user=user,
        gpu=gpu,
        task=task,
        code=(code or f"{entrant} {minute}").encode(),
        origin=Origin(entrant, tags_of(tags.split())),
        at=at,
    )


def two_agents(board: Recorded) -> None:
    """Store the runs of agent-a, which improves from 8 to 4 ms in three runs, and of agent-b, which ends at 2 ms."""
    ran(board, "agent-a", 8.0, minute=0)
    ran(board, "agent-b", mode=Mode.TEST, verdict=Verdict.WRONG_VALUE, minute=1)
    ran(board, "agent-a", 4.0, minute=2)
    ran(board, "agent-b", 6.0, minute=3)
    ran(board, "agent-a", 5.0, minute=4)
    ran(board, "agent-b", 2.0, minute=10)


# The estimator


@pytest.mark.parametrize(("samples", "passed"), [(1, 0), (1, 1), (5, 0), (5, 2), (6, 5), (7, 7)])
def test_a_share_of_passes_is_that_of_all_choices(samples: int, passed: int) -> None:
    for count in range(1, samples + 1):
        chosen = [*combinations(range(samples), count)]
        share = sum(any(each < passed for each in choice) for choice in chosen) / len(chosen)
        assert pass_at_k(samples, passed, count) == pytest.approx(share)


# The trajectories


def test_a_course_has_its_bests_over_runs_and_over_time(board: Recorded) -> None:
    two_agents(board)
    found = experiment(board.board, "agent-a", "agent-b")
    (match,) = found.matches
    one, other = match.trajectories
    assert found.names == (f"{ME}/agent-a", f"{ME}/agent-b")
    assert [(best.run, best.score_s, best.runs, best.seconds) for best in one.by_runs] == [
        (1, 8e-3, 1, 30.0),
        (3, 4e-3, 2, 150.0),
    ]
    assert [(best.score_s, best.runs, best.seconds) for best in other.by_time] == [(6e-3, 2, 150.0), (2e-3, 3, 570.0)]
    assert [(each.runs, each.files, each.passed, each.seconds) for each in (one, other)] == [
        (3, 3, 3, 270.0),
        (3, 3, 2, 570.0),
    ]
    assert [each.k for each in found.pass_at_k] == [1, 2]
    assert [each.rates for each in found.pass_at_k] == [pytest.approx((1.0, 2 / 3)), (1.0, 1.0)]
    assert match.difference is not None
    assert match.difference.speedup == pytest.approx(2.0)
    assert match.difference.shown
    assert found.mean is not None
    assert (found.mean.boards, found.mean.speedup_low) == (1, match.difference.low)


def test_a_file_is_one_sample_however_many_runs_it_has(board: Recorded) -> None:
    for mode, verdict in ((Mode.TEST, Verdict.PASS), (Mode.RANKED, Verdict.WRONG_VALUE), (Mode.TEST, Verdict.PASS)):
        ran(board, "agent-a", mode=mode, verdict=verdict, code="same")
    ran(board, "agent-a", mode=Mode.PROFILE, code="profiled")
    ran(board, "agent-a", verdict=Verdict.INFRA_ERROR, code="unlucky")
    ran(board, "agent-b", mode=Mode.TEST, code="other")
    found = experiment(board.board, "agent-a", "agent-b")
    (match,) = found.matches
    assert [(each.runs, each.files, each.passed) for each in match.trajectories] == [(5, 1, 0), (1, 1, 1)]
    assert (match.difference, found.mean, experiment_plot(found, Over.RUNS)) == (None, None, None)
    text = call(board, "experiment", "agent-a", "agent-b").stdout
    assert "No board has a time of both; only runs in mode benchmark or ranked have one." in text
    done = call(board, "experiment", "agent-a", "agent-b", "--plot", board.folder / "bests.svg")
    assert (done.exit_code, "no plot: no board has a time of both" in done.stderr) == (2, True)


def test_a_parallel_batch_improves_in_the_order_of_its_ends(board: Recorded) -> None:
    slow = ran(board, "agent-a", 4.0)
    fast = board.board.context.store.runs.get(ran(board, "agent-a", 2.0, minute=0, code="b").id)
    ran(board, "agent-b", 3.0)
    late = replace(board.board.runs.get(slow.id), ended_at=AT + timedelta(hours=1))
    found = trajectory("a", [late, fast])
    assert [best.run for best in found.by_runs] == [slow.id, fast.id]
    assert [best.run for best in found.by_time] == [fast.id]


def test_each_of_few_runs_has_a_tick_and_no_time_runs_into_the_title(board: Recorded) -> None:
    for number in range(6):
        ran(board, "agent-a", 80.0 - 8 * number, minute=number)
    ran(board, "agent-b", 60.0)
    plot = experiment_plot(experiment(board.board, "agent-a", "agent-b"), Over.RUNS)
    assert plot is not None
    assert [text for _, text in plot.across.ticks] == [f"run {number}" for number in range(1, 7)]
    ends = re.findall(r'x="([\d.]+)" y="[\d.]+" text-anchor="end">([\d.]+ ms)<', svg(plot, 760, 320))
    assert len(ends) > 1
    assert min(float(x) - 7 * len(text) for x, text in ends) > UPRIGHT_TITLE_END


def test_a_difference_without_an_interval_promises_none(board: Recorded) -> None:
    ran(board, "agent-a", 4.0)
    other = result_of(Verdict.PASS, replace(row_case(), index=1))
    board.add(result=other, score_s=2e-3, origin=Origin("agent-b"))
    text = call(board, "experiment", "agent-a", "agent-b").stdout
    assert "few samples give no interval" in text
    assert "95 %" not in text


def test_several_boards_have_a_mean_with_an_interval(board: Recorded) -> None:
    for gpu, ratio in (("CPU", 2.0), ("H100", 2.5)):
        ran(board, "agent-a", 4.0, gpu=gpu)
        ran(board, "agent-b", 4.0 / ratio, gpu=gpu)
    found = experiment(board.board, "agent-a", "agent-b")
    mean = found.mean
    assert mean is not None
    half = 12.71 * math.log(2.5 / 2.0) / math.sqrt(2) / math.sqrt(2)
    assert mean.boards == 2
    assert mean.speedup == pytest.approx(math.sqrt(5.0))
    assert mean.speedup_low == pytest.approx(math.exp(math.log(5.0) / 2 - half))
    assert mean.speedup_high == pytest.approx(math.exp(math.log(5.0) / 2 + half))
    plot = experiment_plot(found, Over.TIME)
    assert plot is not None
    assert [series.points[-1][1] for series in plot.series[::2]] == [1.0, pytest.approx(math.sqrt(5.0))]
    drawn = svg(plot)
    assert (">time since the first submission</text>" in drawn, ">relative score</text>" in drawn) == (True, True)
    text = call(board, "experiment", "agent-a", "agent-b").stdout
    over = "Best score over runs, relative to the best of both, mean of 2 boards"
    assert f"{over}: {ME}/agent-a 2.24x, {ME}/agent-b 1.00x" in " ".join(text.split())
    assert over not in [line.strip("- ").partition(":")[0] for line in text.splitlines() if line.startswith("---")]
    told = (
        f"SPEEDUP is that of {ME}/agent-b over {ME}/agent-a; CHANGE has its 95 % confidence interval. Geometric mean "
    )
    words = f"of 2 boards: {ME}/agent-b is 2.24x as fast as {ME}/agent-a (too few boards for an interval)."
    assert f"{told}{words}" in " ".join(text.split())
    ran(board, "agent-a", 4.0, task="narrow", gpu="H100")
    ran(board, "agent-b", 2.0, task="narrow", gpu="H100")
    text = " ".join(call(board, "experiment", "agent-a", "agent-b").stdout.split())
    assert f"as fast as {ME}/agent-a (1.56x to 2.97x, 95 % confidence interval over boards)." in text
    assert experiment(board.board, "agent-a", "agent-b", gpus=["H100"]).matches[0].gpu == "H100"


def test_only_the_newest_version_of_a_task_is_compared(board: Recorded) -> None:
    ran(board, "agent-a", 4.0, task="narrow", gpu="H100")
    ran(board, "agent-b", 3.0, task="narrow", gpu="H100")
    assert len(experiment(board.board, "agent-a", "agent-b").matches) == 1
    (board.folder / "tasks" / "narrow" / "reference.py").write_text(
        "ref_kernel = generate_input = check_implementation = abs"
    )
    ran(board, "agent-a", 2.0, task="narrow", gpu="H100")
    assert len({board.board.runs.get(number).task_version for number in (1, 3)}) == 2
    with pytest.raises(InputError, match="have no ended runs on a common board"):
        experiment(board.board, "agent-a", "agent-b")


# Sides


def test_a_side_is_an_entrant_of_another_user_or_a_tag(board: Recorded) -> None:
    ran(board, "agent-a", 4.0, user="bob")
    ran(board, "agent-a", 3.0, tags="model=small step=1")
    ran(board, "agent-b", 2.0, tags="model=large step=1")
    ran(board, "", 1.0, tags="model=large step=2")

    def bests(one: str, other: str, *tags: str) -> list[float]:
        (match,) = experiment(board.board, one, other, tags=tags_of(tags)).matches
        return [each.best.score_s * 1e3 for each in match.trajectories if each.best]

    assert bests("bob/agent-a", "agent-a") == [4.0, 3.0]
    assert bests("model=small", "model=large") == [3.0, 1.0]
    assert bests("model=small", "model=large", "step=1") == [3.0, 2.0]
    assert bests(f"{ME}/", "agent-b") == [1.0, 2.0]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("agent-a", "agent-x"), rf"no runs of the entrant {ME}/agent-x\. Did you mean \"agent-[abc]\"\?"),
        (("agent-a", "bob/agent-b"), r"no runs of the entrant bob/agent-b\."),
        (("agent-a", "model=tiny"), r"no runs with the tag model=tiny\."),
        (("agent-a", "agent-b", "--tag", "step=7"), rf"no runs of the entrant {ME}/agent-a and step=7\.(?! Did)"),
        (("agent-a", "agent-a"), rf"both sides are {ME}/agent-a\."),
        (("agent-a", "agent-c"), rf"{ME}/agent-a and {ME}/agent-c have no ended runs on a common board\."),
        (("agent-a", "agent-b", "--task", "vectorad"), "Did you mean"),
        (("agent-a", "a=b=c=\x1b"), "invalid tag"),
        (("agent-a", "agent-b", "--plot", "bests.png"), "plots are written as SVG"),
    ],
)
def test_a_faulty_side_is_told(board: Recorded, argv: tuple[str, ...], message: str) -> None:
    two_agents(board)
    ran(board, "agent-c", 1.0, gpu="H100")
    done = call(board, "experiment", *argv)
    assert done.exit_code == 2
    assert re.search(message, done.stderr), done.stderr


# Forms


def test_the_report_has_plots_trajectories_differences_and_passes(board: Recorded) -> None:
    two_agents(board)
    text = call(board, "experiment", "agent-a", "agent-b").stdout
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert rows[0] == f"{ME}/agent-a vs. {ME}/agent-b: 1 board"
    assert f"vectoradd_py CPU {ME}/agent-a 3 3 3 4.00 ms 2 2 min" in rows
    assert f"vectoradd_py CPU {ME}/agent-b 3 3 2 2.00 ms 3 10 min" in rows
    assert f"{ME}/agent-b 67 % 100 %" in rows
    assert any(row.startswith("vectoradd_py CPU 2.00x 2.00x faster") for row in rows), text
    for over in ("runs", "time"):
        assert f"Best score over {over}, vectoradd_py on CPU: ○ {ME}/agent-a   ● {ME}/agent-b" in text
    drawn = "".join(line.partition("│")[2] for line in text.splitlines())
    assert (drawn.count("○"), drawn.count("●")) == (4, 2), text
    assert sum("⠀" < sign <= "⣿" for sign in drawn) > 100, "the steps between them"


def test_the_json_has_all_of_it_and_python_returns_it(board: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    two_agents(board)
    found = read(board, "experiment", "agent-a", "agent-b")
    (match,) = found["boards"]
    assert [side["name"] for side in match["sides"]] == found["names"] == [f"{ME}/agent-a", f"{ME}/agent-b"]
    assert match["sides"][1]["by_time"][-1] == {"run": 6, "score_s": 2e-3, "runs": 3, "seconds": 570.0}
    assert match["score"]["speedup"] == pytest.approx(2.0)
    assert found["mean"]["speedup"] == pytest.approx(2.0)
    assert found["pass_at_k"][0]["k"] == 1
    monkeypatch.setenv("HOME", str(board.folder))
    told = Board(board.settings).experiment("agent-a", "agent-b", task="vectoradd_py", gpus="CPU")
    assert json.loads(json.dumps(told)) == found


@pytest.mark.parametrize("over", ["runs", "time"])
def test_the_plot_is_a_file_of_both_sides(board: Recorded, over: str) -> None:
    two_agents(board)
    path = board.folder / "bests.svg"
    assert call(board, "experiment", "agent-a", "agent-b", "--plot", path, "--over", over).exit_code == 0
    text = path.read_text()
    assert f"Best score over {over}, vectoradd_py on CPU" in text
    assert (text.count("<circle"), text.count('class="steps')) == (4, 4)
    end = "run 3" if over == "runs" else "10 min"
    assert f">{end}</text>" in text
    if over == "time":
        assert re.findall(r">(\d+) min</text>", text) == ["0", "2", "4", "6", "8", "10"]
    assert f"{ME}/agent-b: 2.00 ms, {'run 3' if over == 'runs' else 'after 10 min'}" in text
