"""Snapshots of the screens around runs in their states: the list, one run, the form, the watch and the cluster."""

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from hpc_board.domain.run import RunState
from hpc_board.errors import SchedulerError
from hpc_board.model.kernels import Kernel
from hpc_board.model.result import Log, Result
from hpc_board.schedulers.slurm import with_options
from hpc_board.tui.screens import watch
from hpc_board.tui.screens.watch import WatchScreen
from tests.tui.driving import SnapCompare, app_on, driven, settled, until
from tests.tui.fake_board import A100, H100, L4, RUNS, FakeBoard, InRows, runner
from tests.tui.test_roofline import Roofed
from tests.tui.test_run_screen import Measuring
from tests.values import replace

SIZES = pytest.mark.parametrize(
    "size", [(60, 16), (80, 24), (120, 40), (200, 60)], ids=lambda size: "x".join(map(str, size))
)

SCREENS = {
    "runs_while_filtering": ("r", "slash", *"h100"),
    "runs_that_nothing_fits": ("r", "slash", *"qqq", "enter"),
    "cases_of_a_pass": ("r", "down", "down", "enter", "2", "end"),
    "cases_of_a_failure": ("r", "down", "down", "down", "enter", "2"),
    "search_in_a_log": ("r", "down", "down", "enter", "3", "slash", *"hello"),
    "evidence_of_a_lost_run": ("r", "end", "enter", "5"),
    "cluster": ("r", "p", "down", "down"),
}


class WithReports(FakeBoard):
    """A compiler and a profiler have said something about the run that passed."""

    def result(self, run: int) -> Result | None:
        told = super().result(run)
        if told is None:
            return None
        build = (
            "submission.cu(12): warning #177-D: variable was declared but never referenced\n"
            "submission.cu(14): error: identifier x is undefined\n   14 |     out[i] = x;\n      |              ^\n"
            "common.h:3:7: note: declared here\n"
        )
        name = "void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, std::array<char*, 3>>(int)"
        rows = "".join(
            f"{share:>6}%  python3  {library}  [.] {function}\n"
            for share, library, function in (
                ("62.50", "kernel.so", name),
                ("18.75", "libc.so.6", "memcpy"),
                *[("6.25", "libc.so.6", "free")] * 3,
            )
        )
        profile = f"case 1: size: 1024\n  16 samples\n  the worker's process\n{rows}\n 5 page-faults\n"
        shares = Kernel(0, name, 2, 9_300, 0.9, 0.41, 0.83), Kernel(0, "fill_kernel", 1, 2_100, 0.1, 0.02, 0.01)
        kernels = tuple(replace(each, registers=64) for each in shares)
        return replace(told, build=Log(build), profile=Log(profile), kernels=kernels)


@SIZES
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_looks_as_designed(snap_compare: SnapCompare, size: tuple[int, int], name: str) -> None:
    assert snap_compare(app_on(FakeBoard()), terminal_size=size, run_before=driven(*SCREENS[name]))


@SIZES
def test_the_roofs_look_as_designed(snap_compare: SnapCompare, size: tuple[int, int]) -> None:
    assert snap_compare(app_on(Roofed()), terminal_size=size, run_before=driven("r", "down", "down", "enter", "8"))


def test_the_roofs_can_be_read_without_colours(snap_compare: SnapCompare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    keys = driven("r", "down", "down", "enter", "8")
    assert snap_compare(app_on(Roofed()), terminal_size=(80, 24), run_before=keys)


@SIZES
@pytest.mark.parametrize("page", ["1", "2"])
def test_times_of_a_busy_machine_look_as_designed(snap_compare: SnapCompare, size: tuple[int, int], page: str) -> None:
    keys = driven("r", "down", "down", "enter", page, *(["end"] if page == "2" else []))
    assert snap_compare(app_on(InRows()), terminal_size=size, run_before=keys)


@SIZES
@pytest.mark.parametrize("page", ["1", "2"])
def test_times_so_far_look_as_designed(snap_compare: SnapCompare, size: tuple[int, int], page: str) -> None:
    keys = driven("r", "down", "enter", page)
    assert snap_compare(app_on(Measuring()), terminal_size=size, run_before=keys)


@pytest.mark.parametrize("digit", ["6", "7"])
def test_what_tools_said_looks_as_designed(snap_compare: SnapCompare, digit: str) -> None:
    app = app_on(WithReports())
    assert snap_compare(app, terminal_size=(80, 24), run_before=driven("r", "down", "down", "enter", digit))


def test_a_script_with_unusual_lines_looks_as_designed(snap_compare: SnapCompare, kernel: Path) -> None:
    board = FakeBoard(gpus=(with_options(H100, sbatch=("--time=00:20:00",), exclusive=True), A100, L4))
    assert snap_compare(app_on(board, kernel), terminal_size=(120, 40), run_before=driven())


def test_a_cluster_that_falls_silent_looks_as_designed(snap_compare: SnapCompare) -> None:
    board = FakeBoard(failures={"gpus": SchedulerError("sinfo did not answer within 20 s.", hint="The runs go on.")})
    assert snap_compare(app_on(board), terminal_size=(80, 24), run_before=driven("r", "p"))


HOLDING = {
    "cluster": ("r", "p"),
    "times_to_hold_a_gpu": ("r", "p", "down", "f6"),
    "question_before_releasing": ("r", "p", "f6"),
}


def held_board() -> FakeBoard:
    """A board on which ada holds an H100, and bob waits for one."""
    waits = runner(4, RunState.QUEUED, user="bob", reason="Priority")
    return FakeBoard(runners=[runner(3, RunState.RUNNING), waits])


@SIZES
@pytest.mark.parametrize("name", HOLDING)
def test_a_held_gpu_looks_as_designed(snap_compare: SnapCompare, size: tuple[int, int], name: str) -> None:
    assert snap_compare(app_on(held_board()), terminal_size=size, run_before=driven(*HOLDING[name]))


@pytest.mark.parametrize("name", ["cluster", "times_to_hold_a_gpu"])
def test_a_held_gpu_can_be_read_without_colours(
    snap_compare: SnapCompare, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(app_on(held_board()), terminal_size=(80, 24), run_before=driven(*HOLDING[name]))


@SIZES
def test_a_watch_looks_as_designed(
    snap_compare: SnapCompare, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], kernel: Path
) -> None:
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.02)
    kernel.write_text("#!POPCORN leaderboard vectoradd\n#!POPCORN gpu H100\n")
    board = FakeBoard(runs=[])

    async def drive(pilot: Pilot[Any]) -> None:
        await settled(pilot)
        await pilot.press("w")
        await until(pilot, lambda: isinstance(pilot.app.screen, WatchScreen))
        screen = pilot.app.screen
        assert isinstance(screen, WatchScreen)
        await until(pilot, lambda: screen.answered_at("look") is not None)
        kernel.write_text("#!POPCORN leaderboard vectoradd\n#!POPCORN gpu H100\n# saved\n")
        await until(pilot, lambda: bool(board.sent))
        board.replace_run(replace(RUNS[3], id=1))
        screen.look_again()
        await until(pilot, lambda: bool(screen._runs) and screen._runs[0].state.ended)
        await settled(pilot)

    assert snap_compare(app_on(board, kernel), terminal_size=size, run_before=drive)
