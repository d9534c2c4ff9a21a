"""A shell in a terminal, in which a test works with a board as a user does."""

import os
import re
import shlex
from pathlib import Path

from tests.e2e.boards import BoardFiles
from tests.tmux import Tmux, shown_in

_ROOT = Path(__file__).parents[2]


class Terminal:
    """A shell in a terminal, in which `hpc-board` is the client of a board."""

    def __init__(
        self, tmux: Tmux, files: BoardFiles, captures: Path | None = None, size: tuple[int, int] = (80, 24)
    ) -> None:
        self._tmux = tmux
        self._captures = captures
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
        self.until("$")

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names for them."""
        for key in keys:
            self._tmux("send-keys", "-t", "board", key)

    def type(self, text: str) -> None:
        """Type a line, and Enter."""
        self._tmux("send-keys", "-t", "board", "-l", text)
        self.press("Enter")

    def until(self, *words: str, without: str = "\0", pattern: str = "", name: str = "") -> str:
        """Wait until the screen has these words and this pattern, wherever their lines end, and not those words.

        It is kept by `name`.
        """

        def fits(shown: str) -> bool:
            flat = " ".join(shown.split())
            return without not in shown and all(word in flat for word in words) and bool(re.search(pattern, flat))

        shown = shown_in(self._tmux, "board", fits)
        if name and self._captures is not None:
            self._count += 1
            (self._captures / f"{self._count:02d}-{name}.txt").write_text(shown)
        return shown
