"""The app on a board that a service has, through the doors for other machines."""

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from hpc_board.domain.service_address import MungeAddress, MungeListener, SshAddress
from hpc_board.service.client import RemoteBoard
from hpc_board.settings import load
from hpc_board.tui.app import BoardApp
from hpc_board.tui.screens.report import ReportScreen
from tests.conftest import short_folder
from tests.e2e.boards import RIGHT, board_files
from tests.munge import munged, new_key, skip_without_munge
from tests.service import serving
from tests.slurm.lab import free_ports
from tests.slurm.sshd import USER, Sshd, skip_without_sshd
from tests.tui.driving import text_of, until
from tests.unit.recorded import REPOSITORY

pytestmark = pytest.mark.slow


@pytest.fixture(params=["munge", "ssh"])
def board(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteBoard]:
    skip_without_munge()
    skip_without_sshd()
    with (
        short_folder() as folder,
        munged(folder / "m", new_key(folder / "key")) as munge_socket,
        Sshd(folder / "d", {"PYTHONPATH": str(REPOSITORY)}) as host,
    ):
        monkeypatch.setenv("HOME", str(host.client_home(folder / "client")))
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        place, (port,) = folder / "board.sock", free_ports(1)
        addresses: dict[str, MungeAddress | SshAddress] = {
            "munge": MungeAddress("127.0.0.1", port, USER, str(munge_socket)),
            "ssh": SshAddress("127.0.0.1", str(place), USER, host.port, str(Path(sys.executable).parent / "hpc-board")),
        }
        settings = load(board_files(folder / "board", slurm=False).settings, {"XDG_STATE_HOME": str(folder)})
        listener = MungeListener("127.0.0.1", port, str(munge_socket))
        with serving(msgspec.structs.replace(settings, munge=listener), place):
            remote = RemoteBoard(addresses[request.param])
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
