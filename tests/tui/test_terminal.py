"""The app as a process of its own on a terminal of its own: what it makes of the terminal's bytes, and how it ends."""

import fcntl
import os
import pty
import re
import select
import shlex
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hpc_board.tui.terminal import BackgroundAnswers, is_light
from tests.e2e.boards import board_files
from tests.tmux import shown_in, tmux_server

_ROOT = Path(__file__).parents[2]
_DEADLINE_SECONDS = 60.0

_APP = "from tests.tui.fake_board import FakeBoard; from hpc_board.tui.app import BoardApp; app = BoardApp(FakeBoard)"
_APP += "; app.run(); raise SystemExit(app.return_code)"
_RUN = "from tests.tui.fake_board import FakeBoard; from hpc_board.tui.app import run; run(FakeBoard)"
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

    def during(self, seconds: float) -> bytes:
        """Return all that the process writes in this time."""
        before, end = len(self.shown), time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._read(left)
        return self.shown[before:]

    def _read(self, seconds: float = _DEADLINE_SECONDS) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        data = b""
        # On Linux, reading from a terminal whose other end is closed is an error.
        with suppress(OSError):
            data = os.read(self._master, 65536)
        self.shown += data
        return bool(data)


@contextmanager
def on_a_terminal(program: str, kind: str = "xterm-256color") -> Iterator[Terminal]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=_ROOT,
        env=os.environ | {"TERM": kind, "PYTHONPATH": str(_ROOT)},
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


def test_only_what_changed_is_written() -> None:
    program = (
        "from hpc_board.tui.app import BoardApp; from tests.tui.fake_board import NOW, FakeBoard;"
        "BoardApp(FakeBoard, now=lambda: NOW).run()"
    )
    with on_a_terminal(program) as terminal:
        terminal.until(b"vectoradd")
        terminal.type(b"r")
        terminal.until(b"Runs 7")
        while terminal.during(2.0):
            pass
        terminal.type(b"\x1b[B")
        written = terminal.during(2.0)
        assert b"40" in written
        assert b"Runs 7" not in written


def test_a_paste_with_bytes_that_are_not_utf8_presses_no_keys() -> None:
    with on_a_terminal(_APP) as terminal:
        terminal.until(b"vectoradd")
        terminal.type(b"\x1b[200~\xff" + b"q" * 6000 + b"\x1b[201~")
        terminal.type(b"s")
        terminal.until(b"Choose a file.")
        terminal.type(b"\x11")
        assert terminal.end() == 0


def test_ctrl_z_suspends_the_app_and_fg_returns_to_it(tmp_path: Path) -> None:
    board = board_files(tmp_path, slurm=False)
    environ = [f"{name}={value}" for name, value in {**board.environ, "PYTHONPATH": _ROOT, "PS1": "shell> "}.items()]
    app = shlex.join(map(str, [sys.executable, "-m", "hpc_board", *board.words()]))
    with tmux_server(tmp_path) as tmux:
        tmux("new-session", "-d", "-s", "app", "-x", "80", "-y", "24", "env", *environ, "bash", "--norc", "-i")
        shown_in(tmux, "app", lambda text: "shell>" in text)
        tmux("send-keys", "-t", "app", app, "Enter")
        shown_in(tmux, "app", lambda text: "identity_py" in text)
        tmux("send-keys", "-t", "app", "/", "heat")
        for _ in range(2):
            shown_in(tmux, "app", lambda text: "filter: heat" in text and "Stopped" not in text)
            tmux("send-keys", "-t", "app", "C-z")
            shown_in(tmux, "app", lambda text: "Stopped" in text and text.rstrip().endswith("shell>"))
            tmux("send-keys", "-t", "app", "clear; fg", "Enter")
        shown_in(tmux, "app", lambda text: "filter: heat" in text and "Stopped" not in text)
        tmux("send-keys", "-t", "app", "C-q")
        shown_in(tmux, "app", lambda text: text.rstrip().endswith("shell>"))


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
        terminal.until(b"asks for matmul")
        terminal.type(b"\x11")
        assert terminal.end() == 0


_ASKS = b"\x1b]11;?"
_LIGHT = "48;2;247;251;250"
_DARK = "48;2;10;20;22"


def test_a_terminal_that_answers_light_has_the_light_theme_and_no_stray_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with on_a_terminal(_APP) as terminal:
        terminal.until(_ASKS)
        terminal.until(b"vectoradd")
        assert _DARK.encode() in terminal.shown
        # As over a slow line: late, and in two parts.
        terminal.type(b"\x1b]11;rgb:ffff/ff")
        terminal.type(b"ff/eeee\x1b\\")
        terminal.until(_LIGHT.encode())
        terminal.type(b"s")
        terminal.until(b"Choose a file.")
        terminal.type(b"\x11")
        assert terminal.end() == 0


@pytest.mark.parametrize(("no_color", "kind"), [("1", "xterm-256color"), ("", "vt100"), ("", "linux")])
def test_a_terminal_without_colours_or_such_answers_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, no_color: str, kind: str
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    with on_a_terminal(_APP, kind) as terminal:
        terminal.until(b"vectoradd")
        terminal.type(b"\x11")
        assert terminal.end() == 0
        assert _ASKS not in terminal.shown


_STYLE = re.compile(rb"\x1b\[([\d;]*)m")
_NO_COLOURS = {b"", b"0", b"1", b"2", b"3", b"4", b"7"}
"""The parts of styles that are no colours: none, bold, dim, italic, underlined and reversed."""


@pytest.mark.parametrize(
    ("kind", "no_color", "has_colours"), [("linux", "", True), ("vt100", "", False), ("xterm-256color", "1", False)]
)
def test_a_terminal_without_colours_gets_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, no_color: str, *, has_colours: bool
) -> None:
    monkeypatch.delenv("COLORTERM", raising=False)
    monkeypatch.setenv("NO_COLOR", no_color)
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    with on_a_terminal(_RUN, kind) as terminal:
        terminal.until(b"vectoradd")
        # A reference, a message, a form with a fault, and the palette.
        for keys, shown in (
            (b"\x1b[F2", b"@SUBMISSION@"),
            (b"r", b"queued"),
            (b"\x1b[B\x1b[Bm", b"is marked"),
            (b"s", b"optional"),
            (b"none.py\x13", b"no such file"),
            (b"\x10", b"Find an action"),
            (b"quit", b"^q in fields"),
        ):
            terminal.type(keys)
            terminal.until(shown)
        terminal.type(b"\r")
        assert terminal.end() == 0
    used = {part for style in _STYLE.findall(terminal.shown) for part in style.split(b";")}
    assert b"7" in used
    assert (used <= _NO_COLOURS) != has_colours, used


@pytest.mark.parametrize(("style", "background"), [("bg=#ffffff", _LIGHT), ("default", _DARK)])
def test_the_theme_fits_a_tmux_that_answers_and_one_that_does_not(tmp_path: Path, style: str, background: str) -> None:
    with tmux_server(tmp_path) as tmux:
        command = ["env", f"PYTHONPATH={_ROOT}", "COLORTERM=truecolor", "NO_COLOR=", sys.executable, "-c", _APP]
        tmux("new-session", "-d", "-s", "app", "-x", "80", "-y", "24", "cat")
        tmux("set", "-g", "default-terminal", "tmux-256color")
        tmux("set", "-g", "window-style", style)
        tmux("respawn-window", "-k", "-t", "app", *command)
        shown_in(tmux, "app", lambda text: "#2" in text)
        tmux("send-keys", "-t", "app", "/", "zz")
        # The message has the words, too, and may be painted before the line of the filter.
        shown_in(tmux, "app", lambda text: "No row" in text and text.splitlines()[-2].split() == ["/", "zz"])
        assert background in tmux("capture-pane", "-e", "-p", "-t", "app")


def test_answers_on_the_background_are_taken_out_of_the_input_in_any_parts() -> None:
    typed = "a\x1b]11;rgb:0000/0000/0000\x07b\x1b[A\x1b]11;rgba:ff/ff/ff/ff\x1b\\c\x1b]12;x\x07"
    for size in range(1, len(typed)):
        answers = BackgroundAnswers()
        parts = [answers.split(typed[at : at + size]) for at in range(0, len(typed), size)]
        assert "".join(text for text, _ in parts) + answers.split("")[0] == "ab\x1b[Ac\x1b]12;x\x07"
        assert False in {light for _, light in parts} or size > 40


def test_a_lone_escape_is_released_by_the_next_look_at_the_input() -> None:
    answers = BackgroundAnswers()
    assert answers.split("\x1b") == ("", None)
    assert answers.split("") == ("\x1b", None)


@pytest.mark.parametrize(
    ("colour", "light"),
    [
        ("rgb:ffff/ffff/ffff", True),
        ("rgb:f/f/e", True),
        ("rgba:fdfd/f6f6/e3e3/ffff", True),
        ("rgb:0000/2b2b/3636", False),
        ("rgb:0000/0000/ffff", False),
        ("?", None),
        ("rgb:fffff/0/0", None),
        ("", None),
    ],
)
def test_a_background_is_light_by_its_luminance(colour: str, light: bool | None) -> None:
    assert is_light(colour) is light
