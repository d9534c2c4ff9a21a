"""Measure the terminal app on a slow line: bytes and time of a screen, of a key, and of a minute without keys.

An OpenSSH server on loopback runs the app; its client talks to it through a relay with the delay and the rate of such
a line, as the kernel's netem is a module that few machines have loaded. Nothing is asserted.
"""

import fcntl
import os
import pty
import select
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple, Self

from bench_slurm import Row, table
from bench_tui import OTHERS, RUNS, TASK, XDG_FOLDERS, Quiet, churning, filled_board

from hpc_board import settings as config
from hpc_board.board import Board
from hpc_board.tui.app import BoardApp
from tests.slurm.sshd import Sshd

ROUND_TRIP_SECONDS = 0.15
BYTES_A_SECOND = 125_000
COLUMNS, LINES = 120, 40
QUIET_SECONDS = 0.4
"""The silence after which a screen is complete; a blinking cursor draws each half second."""

ANSWER_SECONDS = 2.0
"""The time in which a key draws something, if it does."""

IDLE_SECONDS = 20
ROOM_BYTES = 1 << 16
APP = f"{sys.executable} {Path(__file__).absolute()} app"
FIRST_TASK = TASK.encode()
DOWN, TAB, PAGE_DOWN = b"\x1b[B", b"\t", b"\x1b[6~"


class Drawn(NamedTuple):
    """The bytes that a terminal got after a key, and the time until the last of them."""

    bytes: float
    seconds: float


class Line:
    """A port on loopback whose connections reach another one after a delay, at the rate of the line."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                for source, sink in ((client, server), (server, client)):
                    pieces: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
                    threading.Thread(target=_take, args=(source, pieces), daemon=True).start()
                    threading.Thread(target=_give, args=(pieces, sink), daemon=True).start()


def _take(source: socket.socket, pieces: "SimpleQueue[tuple[float, bytes]]") -> None:
    data = b"begin"
    while data:
        try:
            data = source.recv(1400)
        except OSError:
            data = b""
        pieces.put((time.monotonic(), data))


def _give(pieces: "SimpleQueue[tuple[float, bytes]]", sink: socket.socket) -> None:
    free = 0.0
    with suppress(OSError):
        while True:
            at, data = pieces.get()
            free = max(free, at) + len(data) / BYTES_A_SECOND
            time.sleep(max(0.0, free + ROUND_TRIP_SECONDS / 2 - time.monotonic()))
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            sink.sendall(data)


class Terminal:
    """A terminal whose program runs on the other side of the line."""

    def __init__(self, server: Sshd, port: int, command: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "IPQoS=none")
        words = ["ssh", "-F", "none", "-tt", "-i", str(server.client_key), "-p", str(port)]
        words += [word for option in options for word in ("-o", option)]
        self._process = subprocess.Popen(
            [*words, "127.0.0.1", command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=os.environ | {"TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(slave)
        self.seen = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)

    def press(self, keys: bytes) -> Drawn:
        """Send keys, and return all that is drawn until the screen is complete."""
        os.write(self._master, keys)
        return self.drawn()

    def drawn(self, word: bytes = b"") -> Drawn:
        """Return all that is drawn until the screen has the word and is complete; a key may draw nothing."""
        start = last = time.monotonic()
        count = 0
        while word not in self.seen or time.monotonic() - last < (QUIET_SECONDS if count else ANSWER_SECONDS):
            if time.monotonic() - start > 60:
                raise TimeoutError(self.seen[-500:])
            if data := self._read(QUIET_SECONDS / 10):
                last, count = time.monotonic(), count + len(data)
                self.seen = self.seen[-ROOM_BYTES:] + data
        return Drawn(count, last - start)

    def during(self, seconds: float) -> int:
        """Return the number of bytes that are drawn in this time."""
        end, count = time.monotonic() + seconds, 0
        while (left := end - time.monotonic()) > 0:
            count += len(self._read(left))
        return count

    def _read(self, seconds: float) -> bytes:
        if not select.select([self._master], [], [], seconds)[0]:
            return b""
        with suppress(OSError):
            return os.read(self._master, ROOM_BYTES)
        raise RuntimeError("the program has ended", self.seen[-500:])


class Measured(NamedTuple):
    """The drawn bytes and milliseconds by key, and at the start."""

    name: str
    drawn: dict[str, Drawn]
    idle_bytes: float
    """The bytes a minute without keys."""


def keys_of(terminal: Terminal, keys: Mapping[str, tuple[bytes, int]]) -> dict[str, Drawn]:
    """Return the medians of each of these keys, pressed as often as it says."""
    found = {}
    for name, (key, times) in keys.items():
        drawn = [terminal.press(key) for _ in range(times)]
        found[name] = Drawn(*map(statistics.median, zip(*drawn, strict=True)))
    return found


def measured(name: str, terminal: Terminal, word: bytes, keys: Mapping[str, tuple[bytes, int]]) -> Measured:
    """Return the bytes and times of an app's drawing at its start, for keys, and without keys."""
    first = terminal.drawn(word)
    drawn = {"first screen": first, **keys_of(terminal, keys)}
    return Measured(name, drawn, 60 * terminal.during(IDLE_SECONDS) / IDLE_SECONDS)


def beside_others(start: Callable[[str], Terminal], others: Path | None) -> str:
    """Return the table of the app's first screen beside those of other apps."""
    commands = {"hpc-board": (APP, FIRST_TASK)}
    if others is not None:
        commands |= {name: (str(others / name / "bin" / name), word) for name, word in OTHERS.items()}
    rows: list[Row] = []
    for name, (command, word) in commands.items():
        with start(command) as terminal:
            found = measured(name, terminal, word, {"Tab": (TAB, 6), "Down": (DOWN, 10)})
        for what, drawn in found.drawn.items():
            rows.append((name, what, f"{drawn.bytes:,.0f}", f"{1e3 * drawn.seconds:.0f}"))
        rows.append((name, "a minute without keys", f"{found.idle_bytes:,.0f}", ""))
    return table("Bytes to the terminal, and ms to the last of them", ("app", "", "bytes", "ms"), rows)


def of_runs(start: Callable[[str], Terminal], board: Board) -> str:
    """Return the table of the list of RUNS runs, on a quiet board and while the runs on the screen change."""
    rows: list[Row] = []
    with start(APP) as terminal:
        terminal.drawn(FIRST_TASK)
        opened = terminal.press(b"r")
        keys = {"the list opens": opened, **keys_of(terminal, {"Down": (DOWN, 10), "PgDn": (PAGE_DOWN, 5)})}
        rows += [(what, f"{drawn.bytes:,.0f}", f"{1e3 * drawn.seconds:.0f}") for what, drawn in keys.items()]
    for count in (0, 1, 200):
        with start(APP) as terminal:
            terminal.drawn(FIRST_TASK)
            terminal.press(b"r")
            with churning(board, count) if count else nullcontext():
                bytes_ = terminal.during(IDLE_SECONDS) / IDLE_SECONDS
        rows.append((f"a second in which {count} runs change", f"{bytes_:,.0f}", ""))
    return table(f"The list of {RUNS:,} runs", ("", "bytes", "ms"), rows)


def main() -> None:
    """Print the tables; the folder of the other apps may be left out."""
    if sys.argv[1:2] == ["app"]:
        settings = config.load(None, os.environ)
        BoardApp(lambda: Quiet(settings), now=lambda: datetime.now(UTC)).run()
        return
    others = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        environ = {variable: str(folder) for variable in XDG_FOLDERS} | {"PYTHONPATH": ":".join(sys.path[1:])}
        board = filled_board(folder)
        server = stack.enter_context(Sshd(folder / "sshd", environ))
        line = stack.enter_context(Line(server.port))
        start = partial(Terminal, server, line.port)
        print(f"{1e3 * ROUND_TRIP_SECONDS:.0f} ms there and back, {8 * BYTES_A_SECOND / 1e6:g} Mbit/s\n")
        print(beside_others(start, others))
        print(of_runs(start, board))


if __name__ == "__main__":
    main()
