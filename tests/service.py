"""Services of boards: in a thread of the tests' own process, or as `hpc-board serve` with an environment of its own."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hpc_board.service.client import RemoteBoard
from hpc_board.service.conversation import Bounds
from hpc_board.service.log import ServiceLog
from hpc_board.service.server import Service
from hpc_board.settings import Settings, load
from tests.waiting import awaited

START_SECONDS = 60


@contextmanager
def serving(
    settings: Settings,
    socket: Path,
    bounds: Bounds | None = None,
    *,
    lines: list[str] | None = None,
    has_fault: bool = False,
) -> Iterator[Service]:
    """Serve the board of `settings` at `socket`, in a thread, until the block ends.

    `lines` takes those of its log, which must have a fault if `has_fault`, else none.
    """
    lines = [] if lines is None else lines
    service = Service(
        settings,
        socket,
        log=ServiceLog(lines.append),
        bounds=bounds or Bounds(),
        advance_seconds=0.2,
    )
    ready, failures = threading.Event(), []

    def run() -> None:
        try:
            service.run(ready.set)
        except Exception as error:  # noqa: BLE001 - it is raised again in the test
            failures.append(error)
            ready.set()

    thread = threading.Thread(target=run, name="service")
    thread.start()
    try:
        assert ready.wait(START_SECONDS)
        if failures:
            raise failures[0]
        yield service
    finally:
        service.stop()
        thread.join(START_SECONDS)
        assert not thread.is_alive()
        assert ('"fault"' in "".join(lines)) == has_fault, "".join(lines)


@contextmanager
def serve_process(settings: Path, socket: Path, environ: Mapping[str, str]) -> Iterator[None]:
    """Run `hpc-board serve` with this environment until the block ends."""
    words = [sys.executable, "-m", "hpc_board", "--config", str(settings), "serve", "--socket", str(socket)]
    words.append("--allow-root")
    process = subprocess.Popen(words, cwd=settings.parent, env=dict(environ), stderr=subprocess.PIPE, text=True)
    try:
        awaited(lambda: socket.is_socket() or process.poll() is not None)
        assert process.poll() is None, process.communicate()[1]
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=START_SECONDS)
        assert '"fault"' not in log, log
        assert process.returncode == 0, log


class Services:
    """The service of one board, started at the first question, and anew once its settings or environment changed."""

    def __init__(self, settings: Path) -> None:
        self._settings = settings
        self._stack = ExitStack()
        self._folder = tempfile.TemporaryDirectory(prefix="hb-")
        self._of: object = None
        self._boards: list[RemoteBoard] = []
        self.lines: list[str] = []
        """The lines of the log of the service in this process, of all its starts."""

    def board(self) -> RemoteBoard:
        """Return the board behind the service, whose connections end with it."""
        self._boards.append(RemoteBoard(self.socket({})))
        return self._boards[-1]

    def socket(self, environ: Mapping[str, str]) -> Path:
        """Return the socket of a service with the present settings and with this environment besides the usual one."""
        path = Path(self._folder.name) / "board.sock"
        wanted = self._settings.read_text(), dict(environ)
        if self._of != wanted:
            self._stack.close()
            self._of = wanted
            if environ:
                usual = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
                self._stack.enter_context(serve_process(self._settings, path, {**usual, **environ}))
            else:
                state = {"XDG_STATE_HOME": str(self._settings.parent / "state")}
                self._stack.enter_context(serving(load(self._settings, state), path, lines=self.lines))
        return path

    def close(self) -> None:
        """End the service."""
        for board in self._boards:
            with board.session():
                pass
        self._stack.close()
        self._folder.cleanup()
