"""A shell in a terminal, in which a test works with a board as a user does."""

import os
import re
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.boards import BoardFiles
from tests.tmux import Tmux, shown_in
from tests.unit.scripts.loading import script

_ROOT = Path(__file__).parents[2]
_PATIENCE_SECONDS = 2.0
_READING_SECONDS = 2.0
_PRESS_SECONDS = 0.4


class _Recording:
    """The record of the screen as an asciicast: long waits are cut short, and an awaited screen stays to be read."""

    def __init__(self, tmux: Tmux, size: tuple[int, int]) -> None:
        self._module = script("recording")
        self._recorder = self._module.Recorder(tmux, "board", size[1])
        self._size = size
        self._at = 0.0
        self._before = time.monotonic()
        self._waited = 0.0

    def look(self) -> None:
        """Record the screen while something is awaited."""
        now = time.monotonic()
        shown = min(now - self._before, max(0.0, _PATIENCE_SECONDS - self._waited))
        self._before = now
        self._waited += shown
        self._record(shown)

    def has_come(self) -> None:
        """Leave the screen to be read, since it shows what was awaited."""
        self._record(_READING_SECONDS)
        self._waited, self._before = 0.0, time.monotonic()

    def pressed(self) -> None:
        """Record the screen after a key."""
        self._record(_PRESS_SECONDS)

    def write(self, target: Path, title: str, folders: Sequence[Path]) -> None:
        """Write all up to now, with other names for these folders."""
        text = "".join(f"{line}\n" for line in self._module.cast(self._recorder.changes, *self._size, title))
        for folder in map(str, folders):
            # Another length would move the rest of the line.
            text = text.replace(folder, f"/home/{'kernels-' * len(folder)}"[: len(folder)])
        target.write_text(text, encoding="utf-8")

    def _record(self, seconds: float) -> None:
        self._at += seconds
        self._recorder.record(self._at)


class Terminal:
    """A shell in a terminal, in which `hpc-board` is the client of a board."""

    def __init__(
        self, tmux: Tmux, files: BoardFiles, captures: Path | None = None, size: tuple[int, int] = (80, 24)
    ) -> None:
        self._tmux = tmux
        self._captures = captures
        self._folder = files.folder
        self._recording: _Recording | None = None
        self._count = 0
        program = files.folder / "bin" / "hpc-board"
        program.parent.mkdir()
        words = " ".join(map(shlex.quote, files.command()))
        program.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(_ROOT))} exec {words} "$@"\n')
        program.chmod(0o755)
        environ = {
            "XDG_STATE_HOME": str(files.folder / "state"),
            "XDG_CONFIG_HOME": str(files.folder / "config"),
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "PS1": "$ ",
            **files.environ,
        }
        assigned = [f"{name}={value}" for name, value in environ.items()]
        where = ("-x", str(size[0]), "-y", str(size[1]), "-c", str(files.folder))
        tmux("new-session", "-d", "-s", "board", *where, "env", *assigned, "bash", "--norc", "--noprofile")
        if captures is not None:
            self._recording = _Recording(tmux, size)
        self.until("$")

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names for them."""
        for key in keys:
            self._tmux("send-keys", "-t", "board", key)
            if self._recording is not None:
                self._recording.pressed()

    def type(self, text: str) -> None:
        """Type a line, and Enter."""
        self._tmux("send-keys", "-t", "board", "-l", text)
        self.press("Enter")

    def until(self, *words: str, without: str = "\0", pattern: str = "", name: str = "") -> str:
        """Wait until the screen has these words and this pattern, wherever their lines end, and not those words.

        It is kept by `name`.
        """

        def fits(shown: str) -> bool:
            if self._recording is not None:
                self._recording.look()
            flat = " ".join(shown.split())
            return without not in shown and all(word in flat for word in words) and bool(re.search(pattern, flat))

        shown = shown_in(self._tmux, "board", fits)
        if self._recording is not None:
            self._recording.has_come()
        if name and self._captures is not None:
            self._count += 1
            (self._captures / f"{self._count:02d}-{name}.txt").write_text(shown)
        return shown

    def write_recording(self, title: str) -> None:
        """Write what the screen has shown to `recording.cast`, beside the captures."""
        if self._recording is not None and self._captures is not None:
            self._recording.write(self._captures / "recording.cast", title, (_ROOT, self._folder.parent.parent))
