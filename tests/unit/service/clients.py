"""Clients of a service under test: accounts of this machine, lines of bytes, and commands."""

import codecs
import ctypes
import json
import os
import pwd
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from click.testing import Result as Done

from hpc_board.cli.main import cli
from hpc_board.errors import BoardError
from hpc_board.service import wire
from hpc_board.service.client import RemoteBoard
from hpc_board.service.conversation import Bounds
from tests.service import serving
from tests.unit.recorded import (
    Recorded,
)

OWNER = pwd.getpwuid(os.geteuid()).pw_name

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")

REFERENCE = "SECRET_OF_THE_REFERENCE"


@contextmanager
def acting_as(name: str | int) -> Iterator[None]:
    """Have this thread alone be the account `name`, or the one of a uid, as the kernel sees it."""
    set_uids = 117  # setresuid of this thread; Python's own function changes all threads
    libc = ctypes.CDLL(None, use_errno=True)

    def be(uid: int) -> None:
        assert libc.syscall(set_uids, ctypes.c_long(-1), ctypes.c_long(uid), ctypes.c_long(-1)) == 0

    # Python loads it at the first TCP connection, from a library that the account may not be able to read.
    codecs.lookup("idna")
    before = os.geteuid()
    be(0)
    be(name if isinstance(name, int) else pwd.getpwnam(name).pw_uid)
    try:
        yield
    finally:
        be(0)
        be(before)


class Raw:
    """A client that sends bytes of its choice."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(30)
        self.socket.connect(str(path))
        self.file = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def greeted(self) -> "Raw":
        self.send(wire.HELLO + b"\n")
        assert self.read()["user"]
        return self

    def read(self) -> Any:
        line = self.file.readline()
        return json.loads(line) if line else None

    def ask(self, route: str, **args: object) -> Any:
        self.send(json.dumps({"id": 7, "route": route, "args": args}).encode() + b"\n")
        return self.read()

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@contextmanager
def raw(path: Path) -> Iterator[Raw]:
    with closing(Raw(path)) as client:
        yield client


@contextmanager
def asking(path: Path, name: str = OWNER) -> Iterator[RemoteBoard]:
    """The board as the account `name` reaches it through the socket."""
    with acting_as(name) if name != OWNER else closing(socket.socket()):
        board = RemoteBoard(path)
        with board.session():
            yield board


def refusal(question: Callable[[], object]) -> BoardError:
    with pytest.raises(BoardError) as found:
        question()
    return found.value


def command(door: Path, *words: str) -> Done:
    environ = {"HPC_BOARD_SERVICE": str(door)}
    return CliRunner().invoke(cli, words, env=environ, catch_exceptions=False)


def bounded(board: Recorded, folder: Path, bounds: Bounds) -> Any:
    return serving(board.board.settings, folder / "board.sock", bounds)
