"""How the app reads its terminal."""

import os
import selectors
from codecs import getincrementaldecoder

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

_POLL_SECONDS = 0.1
_CHUNK_BYTES = 4096


class TerminalDriver(LinuxDriver):
    """Textual's driver, except that bytes which are not UTF-8 become "\N{REPLACEMENT CHARACTER}" instead of its end."""

    def run_input_thread(self) -> None:
        """Turn what is typed and pasted into events until the app leaves the terminal."""
        parser = XTermParser()
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                text = decode(os.read(self.fileno, _CHUNK_BYTES)) if selector.select(_POLL_SECONDS) else ""
                # To the parser, an empty text is the end of all input.
                for event in parser.feed(text) if text else ():
                    self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)
