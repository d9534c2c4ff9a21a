"""The app on a board that a service has, from another machine."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_board.domain.service_address import SshAddress
from hpc_board.service.client import RemoteBoard
from hpc_board.settings import load
from hpc_board.tui.app import BoardApp
from hpc_board.tui.screens.report import ReportScreen
from tests.conftest import short_folder
from tests.e2e.boards import RIGHT, board_files
from tests.service import serving
from tests.slurm.sshd import USER, Sshd, skip_without_sshd
from tests.tui.driving import text_of, until
from tests.unit.recorded import REPOSITORY

pytestmark = pytest.mark.slow


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteBoard]:
    skip_without_sshd()
    with short_folder() as folder, Sshd(folder / "d", {"PYTHONPATH": str(REPOSITORY)}) as host:
        monkeypatch.setenv("HOME", str(host.client_home(folder / "client")))
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        place, program = folder / "board.sock", Path(sys.executable).parent / "hpc-board"
        settings = load(board_files(folder / "board", slurm=False).settings, {"XDG_STATE_HOME": str(folder)})
        with serving(settings, place):
            remote = RemoteBoard(SshAddress("127.0.0.1", str(place), USER, host.port, str(program)))
            with remote.session():
                yield remote


async def test_a_kernel_is_sent_from_the_form_and_its_report_arrives(tmp_path: Path, board: RemoteBoard) -> None:
    (tmp_path / "kernel.py").write_text(RIGHT)
    app = BoardApp(lambda: board, tmp_path / "kernel.py", tick_seconds=0.2, follow_seconds=0.2)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "Ready: double on CPU, mode test" in text_of(app))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(app.screen, ReportScreen))
        await until(pilot, lambda: "Passed: 2 tests." in text_of(app), seconds=120)
    assert [run.user for run in board.runs.list()] == [USER]
