"""The screen of the GPUs: what is free, who waits, and what stays known of a cluster that falls silent."""

from datetime import timedelta

import pytest

from hpc_board.domain.run import RunState
from hpc_board.errors import StorageError
from hpc_board.model.gpu import Availability, GpuStatus
from hpc_board.schedulers.slurm import Request, RequestStyle, with_options
from hpc_board.tui.app import BoardApp
from hpc_board.tui.screens.cluster import ClusterScreen
from hpc_board.tui.screens.report import ReportScreen
from hpc_board.tui.screens.runs import RunsScreen
from hpc_board.tui.widgets.grid import Grid
from tests.tui.driving import app_on, press, settled, text_of, until
from tests.tui.fake_board import A100, H100, L4, NOW, FakeBoard, run
from tests.values import replace


class Changing(FakeBoard):
    """Answers with these statuses about its GPUs."""

    statuses: tuple[GpuStatus, ...] = ()

    def gpu_statuses(self) -> list[GpuStatus]:
        self._enter("gpus")
        return list(self.statuses)


def row(app: object, name: str) -> str:
    return next(line for line in text_of(app).splitlines() if line.strip().startswith(name))


async def test_every_gpu_is_there_with_what_is_free_and_whose_runs_are_on_it() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "p")
        assert isinstance(pilot.app.screen, ClusterScreen)
        assert "Cluster 3" in text_of(pilot.app)
        assert row(pilot.app, "H100").split()[1:] == [
            "gpu-h100",
            "███░░░░░",
            "3/8",
            "12",
            "1",
            "running",
            "up",
            "9",
            "s",
        ]
        assert "1 pending" in row(pilot.app, "A100")
        assert "no answer" in row(pilot.app, "L4")
        assert "Run 40 running vectoradd · ranked · has run 40 s · on node07" in text_of(pilot.app)
        await press(pilot, "down", "down")
        assert "sinfo did not answer within 20 s" in text_of(pilot.app)
        assert "No data yet." in text_of(pilot.app)


async def test_what_a_silent_cluster_last_said_stays_with_its_age() -> None:
    board, moments = Changing(), [NOW]
    board.statuses = (GpuStatus(H100, Availability("H100", 3, 8, 12), asked_at=NOW),)
    app = BoardApp(lambda: board, now=lambda: moments[0], tick_seconds=0.05, follow_seconds=3600)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "node07" in text_of(app) or "queued" in text_of(app))
        await pilot.press("p")
        await until(pilot, lambda: "3/8" in text_of(app))
        board.statuses = (GpuStatus(H100, Availability("H100"), "sinfo did not answer within 20 s", asked_at=NOW),)
        moments[0] += timedelta(minutes=4)
        await until(pilot, lambda: "no answer" in text_of(app))
        assert "3/8" in row(app, "H100")
        assert row(app, "H100").endswith("4 min")
        assert "The data above is 4 min old." in text_of(app)
        board.statuses = (GpuStatus(H100, Availability("H100", 5, 8, 0), asked_at=moments[0]),)
        moments[0] += timedelta(seconds=5)
        await until(pilot, lambda: "5/8" in text_of(app) and "no answer" not in text_of(app))


async def test_a_board_that_cannot_be_read_leaves_the_gpus_on_the_screen() -> None:
    board, moments = FakeBoard(), [NOW]
    app = BoardApp(lambda: board, now=lambda: moments[0], tick_seconds=0.05, follow_seconds=3600)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "queued" in text_of(app))
        await pilot.press("p")
        await until(pilot, lambda: "3/8" in text_of(app))
        board.failures["gpus"] = StorageError("the disk is full", hint="Free some space.")
        moments[0] += timedelta(seconds=5)
        await until(pilot, lambda: "the disk is full" in text_of(app))
        assert "Free some space." in text_of(app)
        assert "3/8" in row(app, "H100")


async def test_a_first_question_that_fails_is_asked_again() -> None:
    board, moments = FakeBoard(failures={"gpus": StorageError("the disk is full")}), [NOW]
    app = BoardApp(lambda: board, now=lambda: moments[0], tick_seconds=0.05, follow_seconds=3600)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "queued" in text_of(app))
        await pilot.press("p")
        await until(pilot, lambda: "No data yet. Retrying automatically." in text_of(app))
        board.failures.clear()
        await until(pilot, lambda: "3/8" in text_of(app))


async def test_a_gpu_leads_to_its_runs_and_back() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "p", "down", "enter")
        assert isinstance(pilot.app.screen, RunsScreen)
        assert "… / your runs · A100 " in text_of(pilot.app)
        await press(pilot, "p", "a")
        assert "all users · A100" in text_of(pilot.app)
        # A GPU that another screen has led to is not remembered.
        await press(pilot, *["escape"] * 5, "r")
        assert text_of(pilot.app).splitlines()[0].split("ada")[0].strip().endswith("your runs")


async def test_a_wide_screen_has_the_runs_in_flight_with_the_reasons_of_their_waits() -> None:
    async with app_on(FakeBoard()).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "p")
        assert "In flight 2" in text_of(pilot.app)
        assert "Tab Panel" in text_of(pilot.app)
        assert row(pilot.app, "41").split()[1:7] == ["ada", "vectoradd", "A100", "ranked", "queued", "Priority"]
        await press(pilot, "tab", "tab", "down", "enter")
        assert isinstance(pilot.app.screen, ReportScreen)
        assert pilot.app.screen.run_id == 41
        await press(pilot, "escape")
        await pilot.resize_terminal(120, 18)
        assert "In flight" not in text_of(pilot.app)
        assert "Tab Panel" not in text_of(pilot.app)


async def test_what_a_gpus_jobs_ask_for_is_told() -> None:
    gpu = with_options(
        replace(H100, time_limit_seconds=1200),
        request=Request(RequestStyle.GRES, "gpu:h100:1"),
        account="kernels",
        exclusive=True,
        sbatch=("--comment=kernels",),
    )
    many = [run(id_, RunState.QUEUED) for id_ in range(60, 50, -1)]
    async with app_on(FakeBoard(gpus=(gpu, A100, L4), runs=many)).run_test(size=(200, 60)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "p")
        text = text_of(pilot.app)
        assert "gres gpu:h100:1 · account kernels · time 0:20:00" in text
        assert "10 pending" in row(pilot.app, "H100")
        assert "4 more of your runs: Enter shows them" in text


@pytest.mark.parametrize("width", [60, 72, 80, 100, 120, 200])
async def test_every_column_fits_at_every_width(width: int) -> None:
    async with app_on(FakeBoard()).run_test(size=(width, 16)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "p")
        grid = pilot.app.screen.query_one(Grid)
        assert grid.virtual_size.width <= grid.size.width
        assert "3/8" in row(pilot.app, "H100")
