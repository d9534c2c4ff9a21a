"""Input from the terminal, and its clipboard and notifications."""

import base64
import os
import selectors
import sys
import threading
import time
from codecs import getincrementaldecoder
from collections.abc import Collection, Mapping
from contextlib import suppress

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

from hpc_board.model.text import one_line

_POLL_SECONDS = 0.1
_CHUNK_BYTES = 4096
_CLIPBOARD_BYTES_MAX = 75_000
"""The size limit of most terminals."""

_SCREEN_CHUNK = 700
"""The limit of GNU screen for one passed-through sequence."""

GONE_SECONDS = 10.0
"""The time-out for the app's exit after the loss of its terminal."""

_NO_TERMINAL = 129
"""The exit status after the loss of the terminal: that of a process killed by SIGHUP."""


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


class TerminalDriver(LinuxDriver):
    """Textual's driver, which shows bytes that are not UTF-8 as "\N{REPLACEMENT CHARACTER}" instead of crashing."""

    def run_input_thread(self) -> None:
        """Convert the terminal's input into events until the app exits."""
        parser = XTermParser()
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                data = self._read() if selector.select(_POLL_SECONDS) else None
                if data == b"":
                    self._report_loss()
                    return
                text = decode(data) if data else ""
                # An empty text would end the parser's input.
                for event in parser.feed(text) if text else ():
                    self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)

    def _read(self) -> bytes:
        """Return the available input, empty after the loss of the terminal."""
        try:
            return os.read(self.fileno, _CHUNK_BYTES)
        except OSError:
            return b""

    def _report_loss(self) -> None:
        hang_up = getattr(self._app, "hang_up", None)
        if hang_up is None:
            return
        # A write to a lost terminal may block for ever, also in the app's own loop.
        guard = threading.Timer(GONE_SECONDS, os._exit, (_NO_TERMINAL,))
        guard.daemon = True
        guard.start()
        # Not awaited: a closing app waits for this thread, and needs no such message.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(hang_up, _NO_TERMINAL)


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
