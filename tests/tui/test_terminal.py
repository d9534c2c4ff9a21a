"""The app as a process of its own on a terminal of its own: what it makes of the terminal's bytes, and how it ends."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_DEADLINE_SECONDS = 60.0

_APP = "from tests.tui.fake_board import FakeBoard; from hpc_board.tui.app import BoardApp; app = BoardApp(FakeBoard)"
_APP += "; app.run(); raise SystemExit(app.return_code)"
_FAULTY = """
from tests.tui.fake_board import FakeBoard
from hpc_board.tui.app import BoardApp

class Faulty(FakeBoard):
    def catalog(self):
        raise ZeroDivisionError

app = BoardApp(Faulty)
app.run()
raise SystemExit(app.return_code)
"""


class Terminal:
    """A process and the terminal that it has; `shown` is all that it wrote there."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self.shown = b""
        self._master = master

    def type(self, data: bytes) -> None:
        """Send these bytes as if they were typed."""
        os.write(self._master, data)

    def hang_up(self) -> None:
        """Take the terminal away."""
        if self._master >= 0:
            os.close(self._master)
        self._master = -1

    def until(self, shown: bytes) -> None:
        """Come back when the process has written these bytes."""
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while shown not in self.shown:
            assert time.monotonic() < deadline, self.shown
            assert self._read(), self.shown

    def end(self) -> int:
        """The exit status of the process, once it has written all."""
        while self._read():
            pass
        return self.process.wait(_DEADLINE_SECONDS)

    def _read(self) -> bool:
        if not select.select([self._master], [], [], _DEADLINE_SECONDS)[0]:
            return False
        data = b""
        # On Linux, reading from a terminal that nobody has any more is an error.
        with suppress(OSError):
            data = os.read(self._master, 65536)
        self.shown += data
        return bool(data)


@contextmanager
def on_a_terminal(program: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=_ROOT,
        env=os.environ | {"TERM": "xterm-256color", "PYTHONPATH": str(_ROOT)},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    ) as process:
        os.close(slave)
        terminal = Terminal(process, master)
        try:
            yield terminal
        finally:
            process.kill()
            terminal.hang_up()


def test_bytes_that_are_not_utf8_do_not_end_the_app() -> None:
    with on_a_terminal(_APP) as terminal:
        terminal.until(b"vectoradd")
        terminal.type(b"\xff\xfe\x80")
        terminal.type(b"s")
        terminal.until(b"Choose a file.")
        terminal.type("käse".encode("latin-1") + "ï".encode() + b"\xe2\x82")
        terminal.type(b"\xac")
        terminal.until("k\N{REPLACEMENT CHARACTER}seï\N{EURO SIGN}".encode())
        terminal.type(b"\x11")
        assert terminal.end() == 0


def test_a_paste_with_bytes_that_are_not_utf8_presses_no_keys() -> None:
    with on_a_terminal(_APP) as terminal:
        terminal.until(b"vectoradd")
        terminal.type(b"\x1b[200~\xff" + b"q" * 6000 + b"\x1b[201~")
        terminal.type(b"s")
        terminal.until(b"Choose a file.")
        terminal.type(b"\x11")
        assert terminal.end() == 0


def test_an_app_that_ends_by_a_fault_does_not_end_well() -> None:
    with on_a_terminal(_FAULTY) as terminal:
        assert terminal.end() == 1
        assert b"ZeroDivisionError" in terminal.shown


_EDITOR = """#!/bin/sh
trap "" INT
echo "edits $2"
read line
echo "#!POPCORN leaderboard matmul" > "$2"
"""


def test_the_form_has_the_file_as_the_editor_left_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, editor = tmp_path / "kernel.py", tmp_path / "editor"
    kernel.write_text("import torch\n")
    editor.write_text(_EDITOR)
    editor.chmod(0o755)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"{editor} --wait")
    app = f"from pathlib import Path; {_APP.replace('(FakeBoard)', f'(FakeBoard, Path({str(kernel)!r}))')}"
    with on_a_terminal(app) as terminal:
        terminal.until(b"No header")
        terminal.type(b"\x1bOS")
        terminal.until(b"edits " + str(kernel).encode())
        terminal.type(b"\x03")
        terminal.type(b"\r")
        terminal.until(b"Header: task matmul")
        terminal.type(b"\x11")
        assert terminal.end() == 0
