"""A login node, OpenSSH's server on loopback, and files on both sides of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_board.model.gpu import Login
from hpc_board.transport import Files, Host
from hpc_board.transport.local_files import LocalFiles
from hpc_board.transport.ssh import Connection, SshHost
from hpc_board.transport.ssh_files import SshFiles
from hpc_board.transport.sudo import SharedFiles, SudoHost
from hpc_board.transport.this_host import ThisHost
from tests.conftest import short_folder
from tests.slurm.sshd import USER, Sshd, skip_without_sshd
from tests.sudo import skip_without_sudo


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


@pytest.fixture(params=["here", "far", "shared"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    """Files of this machine, of the login node, and of jobs of another account: root's, since root needs no rules."""
    if request.param == "shared":
        skip_without_sudo()
        return SharedFiles("root", tmp_path / "home" / "cache")
    return LocalFiles() if request.param == "here" else SshFiles(request.getfixturevalue("connection"))


@pytest.fixture
def files_again(request: pytest.FixtureRequest, files: Files) -> Files:
    """The same files, for a second client: on the login node by a session of its own."""
    return SshFiles(request.getfixturevalue("connection")) if isinstance(files, SshFiles) else files


@pytest.fixture(params=["here", "far", "sudo"])
def host(request: pytest.FixtureRequest) -> Host:
    """This machine, the login node, and an account by sudo."""
    if request.param == "sudo":
        skip_without_sudo()
        return SudoHost("root")
    return ThisHost() if request.param == "here" else SshHost(request.getfixturevalue("connection"))
