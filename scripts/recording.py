"""Record the app as docs/recordings/app.cast, in asciicast v2: from a starter to a rank, on a board of this machine.

    python scripts/recording.py [FILE]

A shell in tmux runs the commands and the app; each key is pressed once the screen shows the text before it. The judged
runs are real, so another recording has other times.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "recordings" / "app.cast"
WIDTH, HEIGHT = 100, 30
SETTINGS = "board: board\nclusters: {here: {scheduler: local}}\ngpus: {CPU: {cluster: here}}\n"
_DEADLINE_SECONDS = 240.0
_FRAME_SECONDS = 0.1
_KEY_SECONDS = 0.04
_PRESS_SECONDS = 0.6
_READING_SECONDS = 1.5
_PATIENCE_SECONDS = 4.0
"""The part of a wait that is recorded as long as it was; the rest is shown ten times as fast."""

_HASTE = 10.0

Step = tuple[str, str | Sequence[str]]
"""A text to wait for, and the answer to it: a line to type, or keys by tmux's names for them."""

STEPS: tuple[Step, ...] = (
    ("$", "hpc-board template heat --language Python -o mine.py"),
    ("Template of heat written to mine.py", "hpc-board mine.py"),
    ("Ready: heat on CPU, mode test", ("BTab", "BTab", "BTab", "BTab", "Enter")),
    ("a pass is ranked", ("Down", "Down", "Enter")),
    ("Ready: heat on CPU, mode ranked", ("C-s",)),
    ("Rank 1 of 1 on CPU", ("b",)),
    ("[reference]", ("q",)),
    ("$", "hpc-board submit faster.py --mode ranked --wait"),
    ("Details: `hpc-board run 2`", "hpc-board show heat"),
    ("Speedups are relative", ("",)),
)


class Recorder:
    """The changes of the screen of a session in tmux: moments in seconds, and the bytes for a terminal."""

    def __init__(self, tmux: Callable[..., str], session: str, height: int) -> None:
        """Record nothing yet of a session with `height` lines; `tmux` runs a command of tmux and returns its output."""
        self._tmux = tmux
        self._session = session
        self._shown: list[str] = [""] * height
        self._cursor = ""
        self.changes: list[tuple[float, str]] = []

    def record(self, at: float) -> None:
        """Keep the lines of the screen that have changed, and the cursor's place."""
        place = "#{e|+:#{cursor_y},1};#{e|+:#{cursor_x},1} #{?cursor_flag,h,l}"
        capture = ("capture-pane", "-e", "-p", "-t", self._session)
        # Each line for itself: its colours do not depend on the line before.
        each = [(*capture, "-S", str(row), "-E", str(row), ";") for row in range(len(self._shown))]
        asked = (*chain.from_iterable(each), "display-message", "-p", "-t", self._session, place)
        *lines, cursor = self._tmux(*asked).splitlines()
        changed = [
            f"\x1b[{row};1H\x1b[m{line}\x1b[m\x1b[K"
            for row, (line, before) in enumerate(zip(lines, self._shown, strict=True), 1)
            if line != before
        ]
        if changed or cursor != self._cursor:
            where, _, visible = cursor.partition(" ")
            self.changes.append((at, f"{''.join(changed)}\x1b[{where}H\x1b[?25{visible}"))
        self._shown, self._cursor = lines, cursor


class Session:
    """A shell in a tmux of its own, and the record of its screen."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._at = 0.0
        self.recorder = Recorder(self._tmux, "app", HEIGHT)
        for name in ("home", "bin", "work"):
            (folder / name).mkdir()
        program = folder / "bin" / "hpc-board"
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m hpc_board "$@"\n')
        program.chmod(0o755)
        (folder / "work" / "hpc-board.yaml").write_text(SETTINGS)
        (folder / "work" / "faster.py").write_bytes((ROOT / "examples/heat/faster.py").read_bytes())
        environ = {
            "HOME": str(folder / "home"),
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PS1": "$ ",
            "COLORTERM": "truecolor",
        }
        words = [f"{name}={value}" for name, value in environ.items()]
        size = ("-x", str(WIDTH), "-y", str(HEIGHT), "-c", str(folder / "work"))
        self._tmux("new-session", "-d", "-s", "app", *size, "env", *words, "bash", "--norc", "--noprofile")

    def await_text(self, text: str) -> None:
        """Wait until the screen shows a text, then for as long as a reader needs.

        Raises:
            TimeoutError: it does not come.
        """
        begun, since = time.monotonic(), self._at
        while text not in " ".join(self._screen().split()):
            waited = time.monotonic() - begun
            if waited > _DEADLINE_SECONDS:
                raise TimeoutError(f"the screen never showed {text!r}:\n{self._screen()}")
            patient = waited < _PATIENCE_SECONDS
            time.sleep(_FRAME_SECONDS if patient else _FRAME_SECONDS * _HASTE)
            self._at = since + (waited if patient else _PATIENCE_SECONDS + (waited - _PATIENCE_SECONDS) / _HASTE)
            self.recorder.record(self._at)
        self._pause(_READING_SECONDS)

    def press(self, keys: str | Sequence[str]) -> None:
        """Type a line and Enter, or press keys."""
        for key in (*keys, "Enter") if isinstance(keys, str) else keys:
            self._tmux("send-keys", "-t", "app", *(() if len(key) > 1 else ("-l",)), key)
            self._pause(_KEY_SECONDS if isinstance(keys, str) else _PRESS_SECONDS)

    def close(self) -> None:
        """End the shell."""
        self._tmux("kill-server")

    def _pause(self, seconds: float) -> None:
        begun = self._at
        while self._at < begun + seconds:
            time.sleep(min(seconds, _FRAME_SECONDS))
            self._at += min(seconds, _FRAME_SECONDS)
            self.recorder.record(self._at)

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-S", str(self._folder / "tmux"), "-f", "/dev/null", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout

    def _screen(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", "app")


def cast(changes: Sequence[tuple[float, str]], width: int, height: int, title: str) -> Iterator[str]:
    """Yield the lines of a recording."""
    yield json.dumps({"version": 2, "width": width, "height": height, "title": title})
    for at, text in changes:
        yield json.dumps([round(at, 2), "o", text], ensure_ascii=False)


def main() -> int:
    """Write the recording."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    with tempfile.TemporaryDirectory(prefix="hb-recording-") as name:
        session = Session(Path(name))
        try:
            for text, keys in STEPS:
                session.await_text(text)
                session.press(keys)
        finally:
            session.close()
    target.parent.mkdir(parents=True, exist_ok=True)
    lines = cast(session.recorder.changes, WIDTH, HEIGHT, "hpc-board: from a starter to a rank")
    target.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    sys.stdout.write(f"{target}: {target.stat().st_size} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
