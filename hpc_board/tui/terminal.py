"""Input from the terminal, and its clipboard and notifications."""

import base64
import os
import re
import selectors
import sys
import threading
import time
from codecs import getincrementaldecoder
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, cast

from textual.app import App
from textual.color import Color
from textual.drivers.linux_driver import LinuxDriver

from hpc_board.model.text import one_line
from hpc_board.tui.messages import BackgroundFound

_POLL_SECONDS = 0.1
_CHUNK_BYTES = 4096
_CLIPBOARD_BYTES_MAX = 75_000
"""The size limit of most terminals."""

_SCREEN_CHUNK = 700
"""The limit of GNU screen for one passed-through sequence."""

_NO_TERMINAL = 129
"""The exit status after the loss of the terminal: that of a process killed by SIGHUP."""


_COLOURS_MIN = 8
"""The fewest colours in which the app can be read."""

_MUTE_TERMINALS = re.compile(r"(dumb|linux|unknown|cons|vt\d|ansi|sun)|\Z")
"""Terminals without such a query by the start of their names; some of them would show it as text."""

_BACKGROUND = re.compile(r"\x1b\]11;([^\x07\x1b]{0,64})(?:\x07|\x1b\\)")
_BACKGROUND_BEGUN = re.compile(r"\x1b(?:\](?:1(?:1(?:;[^\x07\x1b]{0,64}\x1b?)?)?)?)?\Z")
_RGB = re.compile(r"rgba?:([0-9a-f]{1,4})/([0-9a-f]{1,4})/([0-9a-f]{1,4})(?:/[0-9a-f]{1,4})?", re.IGNORECASE)
_LIGHT_FROM = 0.5

_ESCAPE_SECONDS = 2.0
"""The time after the query in which a lone Escape may be the beginning of its answer; a later answer comes in one piece
on all but the slowest lines."""


ABANDON_SECONDS = 2.0
"""The longest wait for open queries after the user has quit."""


def abandon_questions(code: int, others: Collection[threading.Thread]) -> None:
    """Exit the process with `code` if threads still wait for answers, such as of a hanging cluster; else return.

    Python would join these threads without a time-out. Their work is stored step by step, and any client resumes it.
    Threads in `others`, which existed before the app, do not count.
    """
    deadline = time.monotonic() + ABANDON_SECONDS
    asking = [each for each in threading.enumerate() if each not in others and not each.daemon]
    for thread in asking:
        thread.join(max(0.0, deadline - time.monotonic()))
    if any(thread.is_alive() for thread in asking):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


class BackgroundAnswers:
    """A filter that takes the terminal's answers on its background colour out of the input, however late they come."""

    def __init__(self) -> None:
        self._held = ""
        self._escapes_until = time.monotonic() + _ESCAPE_SECONDS

    def split(self, text: str) -> tuple[str, bool | None]:
        """Return the input without answers, and True for a light background, False for a dark one, None for neither.

        The beginning of an answer is held back until the next call; an empty text releases it.
        """
        if not text:
            text, self._held = self._held, ""
            return text, None
        text, self._held = self._held + text, ""
        found = [light for answer in _BACKGROUND.finditer(text) if (light := is_light(answer[1])) is not None]
        text = _BACKGROUND.sub("", text)
        begun = _BACKGROUND_BEGUN.search(text)
        if begun and (begun[0] != "\x1b" or time.monotonic() < self._escapes_until):
            text, self._held = text[: begun.start()], begun[0]
        return text, found[-1] if found else None


def is_light(colour: str) -> bool | None:
    """Return whether a colour, as terminals tell it (`rgb:ffff/ffff/ffff`), is light; None if it is not a colour."""
    found = _RGB.fullmatch(colour.strip())
    if found is None:
        return None
    red, green, blue = (255 * int(part, 16) // (16 ** len(part) - 1) for part in found.groups())
    return Color(red, green, blue).brightness >= _LIGHT_FROM


def has_colours(kind: str) -> bool:
    """Return whether a kind of terminal has colours, by terminfo; True if it is unknown there."""
    # Most kinds say so in their names.
    if "color" in kind:
        return True
    try:
        import curses
    except ImportError:
        return True
    try:
        curses.setupterm(kind, 1)
    except (curses.error, ValueError):
        return True
    return curses.tigetnum("colors") >= _COLOURS_MIN


def background_query(environ: Mapping[str, str]) -> str:
    """Return the query for the terminal's background colour (OSC 11); nothing without colours or without such a query.

    tmux and screen answer for their own window, or drop the query.
    """
    if environ.get("NO_COLOR") or _MUTE_TERMINALS.match(environ.get("TERM", "")):
        return ""
    return "\x1b]11;?\x1b\\"


class TerminalDriver(LinuxDriver):
    """Textual's driver, which reads the terminal's input through a pipe.

    Before the pipe, bytes that are not UTF-8 become "\N{REPLACEMENT CHARACTER}" instead of ending the app, and answers
    on the background become messages. The driver belongs to a `BoardApp`.
    """

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._board_app = cast("Any", app)
        self._board_app.terminal = self

    def start_application_mode(self) -> None:
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if self.input_tty and self._board_app.follows_background and (query := background_query(os.environ)):
            self.write(query)
            self.flush()

    def run_input_thread(self) -> None:
        terminal, (source, sink) = self.fileno, os.pipe()
        reader = threading.Thread(target=self._pass_on, args=(terminal, sink), daemon=True)
        reader.start()
        self.fileno = source
        try:
            super().run_input_thread()
        finally:
            self.fileno = terminal
            # A reader that waits for room in the pipe ends with it.
            os.close(source)
            reader.join()
            os.close(sink)

    def _pass_on(self, terminal: int, sink: int) -> None:
        """Pass the terminal's input on until the app exits; the answers on its background go to the app."""
        answers = BackgroundAnswers()
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        with suppress(BrokenPipeError), selectors.DefaultSelector() as selector:
            selector.register(terminal, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                data = _read(terminal) if selector.select(_POLL_SECONDS) else None
                if data == b"":
                    self._board_app.hang_up(_NO_TERMINAL)
                    return
                text, light = answers.split(decode(data) if data else "")
                if light is not None:
                    self.process_message(BackgroundFound(is_light=light))
                os.write(sink, text.encode())


def _read(terminal: int) -> bytes:
    """Return the available input, empty after the loss of the terminal."""
    try:
        return os.read(terminal, _CHUNK_BYTES)
    except OSError:
        return b""


def clipboard_sequence(text: str, environ: Mapping[str, str]) -> str:
    """Return the sequence that copies a text through tmux or screen to the outer terminal's clipboard, else nothing."""
    data = text.encode()
    if len(data) > _CLIPBOARD_BYTES_MAX:
        return ""
    return _wrapped(f"\x1b]52;c;{base64.b64encode(data).decode()}\a", environ)


def notification_sequence(text: str, environ: Mapping[str, str]) -> str:
    """Return the sequence that requests a desktop notification (OSC 9), also through tmux or screen."""
    sequence = f"\x1b]9;{one_line(text, 200)}\a"
    return _wrapped(sequence, environ) or sequence


def _wrapped(sequence: str, environ: Mapping[str, str]) -> str:
    """Return the sequence wrapped for tmux or screen to pass it through; nothing without either."""
    if environ.get("TMUX"):
        return f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\"
    if environ.get("STY"):
        parts = (sequence[start : start + _SCREEN_CHUNK] for start in range(0, len(sequence), _SCREEN_CHUNK))
        return "".join(f"\x1bP{part}\x1b\\" for part in parts)
    return ""
