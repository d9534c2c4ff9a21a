"""A login node, OpenSSH's server on loopback, and files on both sides of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_board.model.gpu import Login
from hpc_board.transport import Files
from hpc_board.transport.local_files import LocalFiles
from hpc_board.transport.ssh import Connection
from hpc_board.transport.ssh_files import SshFiles
from tests.conftest import short_folder
from tests.slurm.sshd import USER, Sshd, skip_without_sshd


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    skip_without_sshd()
    with short_folder() as folder, Sshd(folder / "d") as running:
        yield running


@pytest.fixture
def home(server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The client's home folder, from which the server's account can be entered."""
    folder = server.client_home(tmp_path / "home")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return folder


@pytest.fixture
def connection(server: Sshd, home: Path) -> Iterator[Connection]:
    assert home.exists()
    opened = Connection(Login("127.0.0.1", USER, server.port))
    yield opened
    opened.close()


@pytest.fixture(params=["here", "far"])
def files(request: pytest.FixtureRequest) -> Files:
    """Files of this machine, and of the login node."""
    return LocalFiles() if request.param == "here" else SshFiles(request.getfixturevalue("connection"))
