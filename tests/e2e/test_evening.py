"""An evening with one kernel: the app in a terminal of 120x40 on a real Slurm, from the first run to a first place.

HPC_BOARD_CAPTURES names a folder for what stood on the screen at each step, as numbered text files, and for
recording.cast, an asciicast of it all: `make recording-evening` puts it into the manual.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_board.board import Board
from hpc_board.domain.run import RunState
from tests.e2e.boards import RIGHT, BoardFiles, board_files
from tests.e2e.terminal import Terminal
from tests.slurm.lab import SlurmLab
from tests.tmux import tmux_server
from tests.values import requested
from tests.waiting import awaited

pytestmark = pytest.mark.slurm

TITLE = "hpc-board: an evening on Slurm"
CAPTURES = os.environ.get("HPC_BOARD_CAPTURES", "")


def kernel(seconds: float, *gpus: str) -> str:
    """A correct kernel each of whose calls takes about so long, for these GPUs."""
    header = f"#!POPCORN leaderboard double\n#!POPCORN gpus {' '.join(gpus)}\n"
    return RIGHT.replace("#!POPCORN leaderboard double\n", header).replace(
        "    return", f"    import time; time.sleep({seconds})\n    return"
    )


def editor_of(files: BoardFiles) -> Path:
    """An editor that makes a kernel twice as fast."""
    script = files.folder / "editor"
    script.write_text('#!/bin/sh\nsed -i "s/sleep(0.2)/sleep(0.1)/" "$1"\n')
    script.chmod(0o755)
    return script


@pytest.fixture
def terminal(request: pytest.FixtureRequest, tmp_path: Path, files: BoardFiles) -> Iterator[Terminal]:
    """A terminal whose recording has the title of the test's module."""
    captures = Path(CAPTURES) if CAPTURES else None
    if captures is not None:
        captures.mkdir(parents=True, exist_ok=True)
    with tmux_server(tmp_path) as tmux:
        shell = Terminal(tmux, files, captures, (120, 40))
        yield shell
        shell.write_recording(request.module.TITLE)


@pytest.fixture
def files(tmp_path: Path, slurm_lab: SlurmLab, monkeypatch: pytest.MonkeyPatch) -> BoardFiles:
    monkeypatch.setenv("SLURM_CONF", slurm_lab.environment["SLURM_CONF"])
    return board_files(tmp_path / "site", slurm=True, environ={"SLURM_CONF": slurm_lab.environment["SLURM_CONF"]})


class Others:
    """Jobs of others, which have all of a partition's GPUs until they are ended."""

    def __init__(self, lab: SlurmLab) -> None:
        self._lab = lab
        self._jobs: dict[str, str] = {}

    def take(self, partition: str) -> None:
        """Take the GPUs of this partition, and wait until they are taken."""
        self._jobs[partition] = self._lab.run(
            "sbatch", "--parsable", f"--partition={partition}", f"--gres=gpu:{partition}:2", "--output=/dev/null",
            "--wrap=sleep 600",
        ).strip()  # fmt: skip
        self._wait(self._jobs[partition], "RUNNING")

    def leave(self, partition: str) -> None:
        """Give the GPUs of this partition back."""
        self._lab.run("scancel", self._jobs.pop(partition))

    def wait_for_nobody(self, partition: str) -> None:
        """Wait until no job waits or runs in this partition."""
        awaited(lambda: not self._lab.run("squeue", "--noheader", f"--partition={partition}"), seconds=90)

    def end(self) -> None:
        """Give back all."""
        for partition in tuple(self._jobs):
            self.leave(partition)

    def _wait(self, job: str, state: str) -> None:
        command = ("squeue", "--noheader", f"--jobs={job}", "--format=%T")
        awaited(lambda: self._lab.run(*command).strip() == state, seconds=90)


@pytest.fixture
def others(slurm_lab: SlurmLab) -> Iterator[Others]:
    taken = Others(slurm_lab)
    yield taken
    taken.end()


def test_an_evening_from_the_first_run_to_a_first_place(files: BoardFiles, terminal: Terminal, others: Others) -> None:
    board = Board.open(files.settings)
    rival = Board(board.settings, user="grace")
    (first,) = rival.submissions.submit(
        [requested(files.kernel(kernel(0.05, "H100"), "grace.py"), gpus=["H100"], mode="ranked")]
    )
    (ended,) = list(rival.runs.wait([first.id], timeout_seconds=90))[-1]
    assert str(ended.verdict) == "pass"
    others.take("h100")
    others.take("a100")

    # Both GPUs are taken: two runs that wait are cancelled at once.
    files.kernel(kernel(0.2, "H100", "A100"))
    terminal.type(f"export EDITOR={editor_of(files)}; hpc-board kernel.py")
    terminal.until("Ready: double on H100 and A100, mode test: 2 jobs.")
    terminal.press("C-s")
    terminal.until("Runs / your runs", "2 in flight", "waiting for reso")
    terminal.press("Home", "Space", "Down", "Space")
    terminal.until("2 selected", name="selected")
    terminal.press("c")
    terminal.until("Cancel 2 runs: ", name="cancel-two")
    terminal.press("Enter")
    terminal.until("cancelled", without="in flight", name="cancelled-two")

    # The file is edited and sent again, then watched: each save of it is a test.
    terminal.press("Home", "e")
    terminal.until("Ready: double on H100 and A100, mode test: 2 jobs.", name="edited")
    assert "sleep(0.1)" in (files.folder / "kernel.py").read_text()
    terminal.press("s")
    terminal.until("Runs / your runs", "2 in flight", "waiting for reso")
    others.leave("h100")
    others.leave("a100")
    terminal.until("5 double", "pass", without="in flight", name="resent")
    terminal.press("Home", "w")
    terminal.until("watching: save the file to submit it", name="watching")
    files.kernel(kernel(0.0, "H100", "A100"))
    terminal.until("Runs / Watch", "Passed: 2 tests.", without="in flight", name="watched")
    others.take("h100")
    others.take("a100")
    terminal.press("Escape")
    terminal.until("Runs / your runs")
    terminal.press("q")
    terminal.until("$")

    files.kernel(kernel(0.2, "H100", "A100"))
    terminal.type("clear; hpc-board kernel.py")
    terminal.until("Ready: double on H100 and A100, mode test: 2 jobs.")
    terminal.press("BTab", "BTab", "BTab", "BTab", "Enter")
    terminal.until("benchmark times the benchmark cases", "ranked tests, then benchmarks")
    terminal.press("Down", "Down", "Enter")
    terminal.until("Ready: double on H100 and A100, mode ranked: 2 jobs.", name="ready")
    terminal.press("C-s")
    terminal.until("Runs / your runs", "2 in flight", "waiting for reso", name="queued")

    # The one whose GPU comes free runs and is judged; the other one is cancelled.
    terminal.press("Up", "c")
    terminal.until("Cancel run 8, double on A100?", name="cancel")
    terminal.press("Enter")
    terminal.until("1 in flight", "cancelled", name="cancelled")
    terminal.press("Down")
    others.leave("h100")
    terminal.until("running", "on h100-1", name="running")
    # The cost of the call itself is subtracted.
    terminal.until("pass", pattern=r"\b(199|2\d\d) ms", without="in flight", name="passed")
    terminal.press("Enter")
    terminal.until("Run 7", "Passed", "Second place on H100", name="report")
    terminal.press("b")
    terminal.until("You are 2 of 2 on H100", "1 grace", name="second")

    # A faster one takes the first place, and the feed tells it.
    files.kernel(kernel(0.0, "H100"))
    terminal.press("s")
    terminal.until("Ready: double on H100, mode ranked: one job.")
    terminal.press("C-s")
    terminal.until("Run 9", "Passed", "First place on H100", name="faster")
    terminal.press("b")
    terminal.until("You are 1 of 2 on H100", "2 grace", name="first")
    terminal.press("f")
    terminal.until("Feed / double", "took first place on double, H100", "(was grace", name="feed")
    terminal.press("Escape", "Escape")

    # A user who leaves reads which runs go on, and finds them judged afterwards.
    others.take("h100")
    terminal.press("s")
    terminal.until("Ready: double on H100, mode ranked: one job.")
    terminal.press("C-s")
    terminal.until("Run 10", "queued", "1 in flight")
    terminal.press("q")
    terminal.until("Run 10 continues. `hpc-board runs` lists your runs.", name="left")
    others.leave("h100")
    others.wait_for_nobody("h100")
    assert not board.runs.get(10).state.ended
    terminal.type("clear; hpc-board")
    terminal.until("▓▒░ Tasks", "double")
    terminal.press("r")
    terminal.until("Runs / your runs", "10 double", "pass", without="in flight", name="back")
    terminal.press("q")
    terminal.until("$")
    found = {run.id: (run.state, str(run.verdict)) for run in board.runs.list()}
    assert found[10] == found[9] == found[7] == found[6] == found[5] == found[4] == (RunState.FINISHED, "pass")
    assert found[2][0] is found[3][0] is found[8][0] is RunState.CANCELLED
