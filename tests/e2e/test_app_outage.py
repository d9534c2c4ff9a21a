"""The app in a terminal of 80x24 on a real Slurm whose controller hangs, dies and comes back."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from hpc_board.board import Board
from hpc_board.domain.run import Run, RunState
from hpc_board.model.result import Verdict
from hpc_board.runs import job_folder
from tests.conftest import short_folder, skip_without_slurm
from tests.e2e.boards import BoardFiles, board_files, slurm_jobs
from tests.e2e.terminal import Terminal
from tests.slurm.lab import SlurmLab
from tests.tmux import tmux_server
from tests.values import requested
from tests.waiting import awaited

pytestmark = pytest.mark.slurm

WAIT_SECONDS = 60.0
CAPTURES = os.environ.get("HPC_BOARD_CAPTURES", "")

SILENT = "for the scheduler"
"""The end of what the title says while the controller hangs: "waiting 3 s for the scheduler"."""

DOWN = ("The scheduler failed, state ", " old, more on Cluster: squeue failed: ")
MORE = ("The scheduler failed", "squeue failed: ", "Slurm on cluster lab may be busy or down", "the last known state, ")
"""The error, what failed, the hint and the age, as they stand in the box."""


NOT_ASKED = r"updated ([5-9]|\d\d) s ago"
"""The title while the controller is left alone for longer than the app takes to advance runs again."""


@dataclass(frozen=True)
class Site:
    """A board on a lab's Slurm whose jobs have begun and go on when a test says so."""

    lab: SlurmLab
    files: BoardFiles

    @property
    def board(self) -> Board:
        """The board, as a client sees it that starts now."""
        return Board.open(self.files.settings)

    @property
    def hold(self) -> Path:
        """While this file is there, jobs have begun and their harness has not."""
        return self.files.folder / "hold"

    def stop_controller(self) -> None:
        """Have the controller neither answer nor end."""
        os.kill(self.lab.pid("slurmctld"), signal.SIGSTOP)

    def resume_controller(self) -> None:
        """Have the controller answer again."""
        os.kill(self.lab.pid("slurmctld"), signal.SIGCONT)

    def kill_controller(self) -> None:
        """Have the controller end at once, whatever it does."""
        pid = self.lab.pid("slurmctld")
        os.kill(pid, signal.SIGKILL)
        awaited(lambda: not Path(f"/proc/{pid}").exists())

    def start_controller(self) -> None:
        """Start the controller on what it has saved, and wait until it answers."""
        (self.lab.folder / "slurmctld.pid").unlink()
        self.lab.start("slurmctld")
        awaited(self._answers)

    def _answers(self) -> bool:
        done = subprocess.run(["squeue"], env=self.lab.environment, capture_output=True, check=False)
        return done.returncode == 0 and (self.lab.folder / "slurmctld.pid").exists()

    def saved(self, run: Run) -> None:
        """Wait until the controller has saved that the run's job runs: it kills one of which it does not know that."""
        mark = f"saved-{run.token}"
        (job,) = [id_ for id_, name, state in slurm_jobs(self.files.environ) if (name, state) == (run.token, "RUNNING")]
        self.lab.run("scontrol", "update", f"JobId={job}", f"Comment={mark}")
        awaited(lambda: mark.encode() in (self.lab.folder / "state" / "job_state").read_bytes())

    def passed_once(self, id_: int) -> None:
        """The run has passed, was sent to Slurm once, ended once, and one job wrote into its folder."""
        board = self.board
        (run,) = list(board.runs.wait([id_], timeout_seconds=WAIT_SECONDS))[-1]
        assert (run.state, run.verdict) == (RunState.FINISHED, Verdict.PASS), run.explanation
        history = board.runs.whole(id_).history
        assert sum(status.state.ended for status in history) == 1
        assert sum(status.state is RunState.SUBMITTING for status in history) == 1
        assert [name for _, name, _ in slurm_jobs(self.files.environ)].count(run.token) == 1
        assert len(list(job_folder.folder(board.settings.board, id_).glob("slurm-*.out"))) == 1


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    skip_without_slurm()
    with short_folder() as folder, SlurmLab(folder / "lab", configuration={"MessageTimeout": "4"}) as lab:
        monkeypatch.setenv("SLURM_CONF", lab.environment["SLURM_CONF"])
        files = board_files(tmp_path / "site", slurm=True, environ={"SLURM_CONF": lab.environment["SLURM_CONF"]})
        found = Site(lab, files)
        python = files.folder / "python"
        python.write_text(f'#!/bin/sh\nwhile [ -e {found.hold} ]; do sleep 0.1; done\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        settings = yaml.safe_load(files.settings.read_text())
        settings["gpus"]["H100"]["python"] = str(python)
        files.settings.write_text(yaml.safe_dump(settings, sort_keys=False))
        found.hold.touch()
        yield found


@pytest.fixture
def terminal(tmp_path: Path, site: Site) -> Iterator[Terminal]:
    if shutil.which("stty") is None:
        pytest.skip("needs stty")
    captures = Path(CAPTURES) if CAPTURES else None
    if captures is not None:
        captures.mkdir(parents=True, exist_ok=True)
    with tmux_server(tmp_path) as tmux:
        yield Terminal(tmux, site.files, captures)


def test_the_app_outlives_a_controller_that_hangs_dies_and_comes_back(site: Site, terminal: Terminal) -> None:
    file = site.files.kernel()
    terminal.type("hpc-board")
    terminal.until("▓▒░ Tasks", "double")
    board = site.board
    (first,) = board.submissions.submit([requested(file, gpus=["H100"], mode="ranked")])
    terminal.press("r")
    terminal.until("Runs / your runs", "running", "on h100-1", "1 in flight", name="running")
    site.saved(first)

    # It hangs: the title names the cause of the wait, the known state stays, and the keys work.
    site.stop_controller()
    terminal.until("Runs / your runs", "waiting ", SILENT, "1 double", "running", name="hanging")
    terminal.press("?")
    terminal.until("Open the form with the file", name="help")
    # Escape and a letter at once would be one key.
    terminal.press("Escape")
    terminal.until("Runs / your runs", without="Go back")
    terminal.press("b")
    terminal.until("Board double", "No results on H100 yet", name="standings-hanging")
    terminal.press("Escape")
    terminal.until("Runs / your runs", "1 double", "running")

    # It dies: one line says so on every screen, and Cluster has the whole error.
    site.kill_controller()
    shown = terminal.until("Runs / your runs", "1 double", "running", *DOWN, name="dead")
    assert shown.count("The scheduler failed") == 1
    assert "Traceback" not in shown
    terminal.press("Enter")
    terminal.until("Run 1", "no report from the harness yet", *DOWN, name="report-dead")
    terminal.press("b")
    terminal.until("Board double", "No results on H100 yet", *DOWN, name="standings-dead")
    terminal.press("Escape")
    terminal.until("Run 1", *DOWN)
    terminal.press("Escape")
    # The app pauses its questions after a silence, and the line stays.
    terminal.until("Runs / your runs", "1 double", "running", *DOWN, pattern=NOT_ASKED, name="still-dead")
    terminal.press("p")
    terminal.until("Cluster", *MORE, name="cluster-dead")
    terminal.press("Escape")

    # It comes back.
    site.start_controller()
    terminal.until(
        "Runs / your runs", "1 double", "running", "1 in flight", without="The scheduler failed", name="back"
    )
    site.hold.unlink()
    terminal.until("Runs / your runs", "1 double", "pass", without="in flight", name="passed")
    site.passed_once(first.id)
    assert [run.id for run in board.runs.list()] == [first.id]

    # A user who leaves while it hangs has the shell back, and the terminal in its former state.
    site.hold.touch()
    (second,) = board.submissions.submit([requested(file, gpus=["H100"], mode="ranked")])
    terminal.until("Runs / your runs", "2 double", "running", "on h100-1", "1 in flight")
    site.stop_controller()
    terminal.until("waiting ", SILENT)
    terminal.press("q")
    terminal.until("Run 2 continues. `hpc-board runs` lists your runs.", name="left")
    terminal.type("clear; stty -a")
    shown = terminal.until("speed ", "icanon", name="stty")
    site.resume_controller()
    assert {"icanon", "echo", "isig", "icrnl", "opost"} <= set(shown.replace(";", " ").split())
    site.hold.unlink()
    site.passed_once(second.id)
