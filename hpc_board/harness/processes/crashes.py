"""The frames of a worker that a signal has killed, as its handlers have written them: hostile text, and bounded.

The worker has a descriptor of anonymous memory. Python's `faulthandler` writes the frames of a Python submission there,
the handlers in a compiled one (`build/crash.cpp`) the places in its library, and the words of an exception.
"""

import fcntl
import os
import re
from collections.abc import Callable, Sequence

from hpc_board.model.result import UNCAUGHT
from hpc_board.model.text import one_line

FRAMES_MAX = 8
_REPORT_BYTES_MAX = 16 * 1024
_PYTHON = re.compile(r'^  File "([^"\n]{1,500})", line (\d{1,9}) in ([^\n]{1,200})$', re.MULTILINE)
_NATIVE = re.compile(r"^frame ([0-9a-f]{16})$", re.MULTILINE)
_THROWN = re.compile(r"^thrown ([^\n]{0,200})", re.MULTILINE)
_LINE = re.compile(r"(?P<file>[^\n]{1,500}):(?P<line>\d{1,9})(?: \(discriminator \d{1,9}\))?")
_DECORATION = re.compile(r"(?:\([^()]*\)(?: const)?)?(?: \[clone [^\]]*\]|\.[a-z_]+(?:\.\d+)?)*$")
"""The types of a function's arguments, and the compiler's names of its parts: "scale(float*) [clone .cold]"."""

_FUNCTION_CHARACTERS_MAX = 1000
_CHARACTERS_MAX = 120


def report_of(descriptor: int) -> str:
    """Return the text that the handlers of a worker have written."""
    return os.pread(descriptor, _REPORT_BYTES_MAX, 0).decode("utf-8", "replace")


def python_frames(report: str, folder: str, file: str, shown_as: str) -> list[str]:
    """Return the frames in files of `folder`, from the crash up: "k.py:9 in custom_kernel"."""
    found = []
    for path, line, function in _PYTHON.findall(report):
        if path.startswith(f"{folder}/"):
            name = path.removeprefix(f"{folder}/")
            found.append(_frame(shown_as if name == file else name, line, function))
    return found[:FRAMES_MAX]


def native_offsets(report: str) -> list[int]:
    """Return the places in the library, from the crash up."""
    return [int(offset, 16) for offset in _NATIVE.findall(report)][:FRAMES_MAX]


def native_frames(text: str, file: str, shown_as: str) -> list[str]:
    """Return the frames in the source `file` from the output of addr2line, which has two lines for each."""
    found = []
    lines = text.splitlines()
    for function, place in zip(lines[::2], lines[1::2], strict=False):
        match = _LINE.fullmatch(place)
        if match is not None and match["file"].rpartition("/")[2] == file:
            # A name of any length may be the submission's, and the search for its decoration is quadratic.
            found.append(_frame(shown_as, match["line"], _DECORATION.sub("", function[:_FUNCTION_CHARACTERS_MAX])))
    return found[:FRAMES_MAX]


def _frame(file: str, line: str, function: str) -> str:
    return one_line(f"{file}:{line} in {function}", _CHARACTERS_MAX)


class Crash:
    """The memory in which a worker reports its crash; `frames_of` returns the frames in such a report."""

    def __init__(self, frames_of: Callable[[str], Sequence[str]]) -> None:
        self.descriptor = os.memfd_create("crash", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, _REPORT_BYTES_MAX)
        # Its memory outlives the worker.
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self._frames_of = frames_of

    def words(self) -> str:
        """Return the place of the crash, the exception, and, on a line each, the calls that led there, if known."""
        report = report_of(self.descriptor)
        frames, thrown = self._frames_of(report), _THROWN.search(report)
        place = f" at {frames[0]}" if frames else ""
        exception = f", {UNCAUGHT}: {one_line(thrown[1])}".removesuffix(": ") if thrown else ""
        return "\n  called from ".join([place + exception, *frames[1:]])

    def close(self) -> None:
        """Close the memory."""
        os.close(self.descriptor)
