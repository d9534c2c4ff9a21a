"""How the app reads its terminal, and what it tells it beside the screen."""

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
"""More than this is taken by few terminals."""

_SCREEN_CHUNK = 700
"""GNU screen takes no more of a sequence for the terminal around it at once."""

GONE_SECONDS = 10.0
"""How long an app whose terminal has gone may take to end."""

_NO_TERMINAL = 129
"""The exit status after the loss of the terminal: that of a death by SIGHUP."""


ABANDON_SECONDS = 2.0
"""How long an app that the user has left waits for answers to its last questions."""


def abandon_questions(code: int, others: Collection[threading.Thread]) -> None:
    """End the process with `code` if threads wait for answers, such as of a cluster that hangs; else return.

    Those that were there before the app, `others`, are no matter.

    Python would wait for them without end. What they carry on is stored step by step, and taken up by any client.
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
    """Textual's driver, except that bytes which are not UTF-8 become "\N{REPLACEMENT CHARACTER}" instead of its end."""

    def run_input_thread(self) -> None:
        """Turn what is typed and pasted into events until the app leaves the terminal."""
        parser = XTermParser()
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                data = self._read() if selector.select(_POLL_SECONDS) else None
                if data == b"":
                    self._tell_gone()
                    return
                text = decode(data) if data else ""
                # To the parser, an empty text is the end of all input.
                for event in parser.feed(text) if text else ():
                    self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)

    def _read(self) -> bytes:
        """What was typed; nothing at all where the terminal has gone."""
        try:
            return os.read(self.fileno, _CHUNK_BYTES)
        except OSError:
            return b""

    def _tell_gone(self) -> None:
        hang_up = getattr(self._app, "hang_up", None)
        if hang_up is None:
            return
        # Whoever writes to a terminal that has gone may wait for ever, the app's own loop as well.
        guard = threading.Timer(GONE_SECONDS, os._exit, (_NO_TERMINAL,))
        guard.daemon = True
        guard.start()
        # Without waiting for the answer: an app that is closing waits for this thread. It needs no such news either.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(hang_up, _NO_TERMINAL)


def clipboard_sequence(text: str, environ: Mapping[str, str]) -> str:
    """What carries a text through tmux or screen to the clipboard of the terminal around them; else nothing."""
    data = text.encode()
    if len(data) > _CLIPBOARD_BYTES_MAX:
        return ""
    return _wrapped(f"\x1b]52;c;{base64.b64encode(data).decode()}\a", environ)


def notification_sequence(text: str, environ: Mapping[str, str]) -> str:
    """What asks the terminal for a desktop notification (OSC 9), through tmux or screen too."""
    sequence = f"\x1b]9;{one_line(text, 200)}\a"
    return _wrapped(sequence, environ) or sequence


def _wrapped(sequence: str, environ: Mapping[str, str]) -> str:
    """The sequence as tmux or screen hands it on to the terminal around it; nothing where there is neither."""
    if environ.get("TMUX"):
        return f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\"
    if environ.get("STY"):
        parts = (sequence[start : start + _SCREEN_CHUNK] for start in range(0, len(sequence), _SCREEN_CHUNK))
        return "".join(f"\x1bP{part}\x1b\\" for part in parts)
    return ""
