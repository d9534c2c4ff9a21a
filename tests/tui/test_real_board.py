"""The app on a real board: the embedded scheduler, the bundled tasks, a real kernel."""

import shutil
import sys
from pathlib import Path

import pytest

from hpc_board.board import Board
from hpc_board.tui.app import BoardApp
from hpc_board.tui.screens.report import ReportScreen
from tests.tui.driving import press, settled, text_of, until

TASKS = Path(__file__).parents[2] / "tasks"

SETTINGS = """\
board: {folder}/board
tasks: [{tasks}]
clusters:
  here: {{scheduler: local}}
gpus:
  CPU: {{cluster: here, device: cpu, python: {python}}}
"""


@pytest.mark.torch
async def test_a_kernel_goes_from_the_form_to_the_top_of_its_board(tmp_path: Path) -> None:
    settings = tmp_path / "hpc-board.yaml"
    settings.write_text(SETTINGS.format(folder=tmp_path, tasks=TASKS, python=sys.executable))
    shutil.copy(TASKS / "identity_py" / "template.py", tmp_path / "kernel.py")
    app = BoardApp(Board.open(settings), Path("kernel.py"), beat_seconds=0.2, follow_seconds=0.2)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "Ready: identity_py on CPU, mode test" in text_of(app))
        await pilot.press("tab", "tab", "tab", "enter", "end", "enter")
        await until(pilot, lambda: "mode ranked: one job" in text_of(app))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(app.screen, ReportScreen))
        ends = ("Passed:", "Failed:", "Not judged:", "Ended without")
        await until(pilot, lambda: any(end in text_of(app) for end in ends), seconds=120)
        assert "Passed:" in text_of(app), text_of(app)
        await pilot.press("b")
        await until(pilot, lambda: "You are 1 of 1 on CPU" in text_of(app))
        await settled(pilot)
        await press(pilot, "enter")
        await until(pilot, lambda: "First place on CPU: " in text_of(app))
