"""A held GPU of a real Slurm, in a terminal of 120x40: edit, save, verdict, and the same again, until its release.

HPC_BOARD_CAPTURES is that of the evening; `make recording-hold` puts the recording into the manual.
"""

import pytest

from hpc_board.board import Board
from hpc_board.domain.run import RunState
from tests.e2e.boards import BoardFiles
from tests.e2e.terminal import Terminal
from tests.e2e.test_evening import files, kernel, terminal
from tests.waiting import awaited

__all__ = ["files", "terminal"]

pytestmark = pytest.mark.slurm

TITLE = "hpc-board: a held GPU on Slurm"


def test_a_held_gpu_judges_each_save_until_it_is_released(files: BoardFiles, terminal: Terminal) -> None:
    board = Board.open(files.settings)
    files.kernel(kernel(0.2, "H100").replace("2 * x", "3 * x"))
    terminal.type("hpc-board hold H100 --for 30m --wait")
    terminal.until("holds the GPU", "Your runs on H100 go there", name="held")

    # Edit, save, verdict.
    terminal.type("hpc-board submit kernel.py --wait")
    terminal.until("wrong", "at runner 1", name="wrong")
    terminal.type("sed -i 's/3 . x/2 * x/' kernel.py; hpc-board submit kernel.py --wait")
    terminal.until("Run 2: double", "Passed: 2 tests.", name="passed")
    terminal.type("clear; sed -i 's/sleep(0.2)/sleep(0.1)/' kernel.py; hpc-board submit kernel.py --mode ranked --wait")
    terminal.until("Run 3: double", "at runner 1", name="ranked")

    # The watch of the app uses it, too.
    terminal.type("clear; hpc-board kernel.py")
    terminal.until("Ready: double on H100, mode test: one run at runner 1.", "H100 held")
    terminal.press("C-s")
    terminal.until("pass", without="in flight", name="app")
    terminal.press("Home", "w")
    terminal.until("watching: save the file to submit it", name="watching")
    files.kernel(kernel(0.0, "H100"))
    terminal.until("Passed: 2 tests.", without="in flight", name="watched")
    terminal.press("C-q")
    terminal.until("$")

    terminal.type("clear; hpc-board status")
    terminal.until("H100 held", "In flight", name="status")
    terminal.type("hpc-board release")
    terminal.until("Runner 1: release requested; it held H100", name="released")
    runs = board.runs.list()
    # A watch that sees half of a save submits twice.
    assert len(runs) >= 5
    assert {(run.status.runner, run.state) for run in runs} == {(1, RunState.FINISHED)}
    awaited(lambda: board.runs.advance() and not board.runners.live())
