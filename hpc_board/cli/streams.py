"""The standard streams: a failed write to stdout raises `OutputError`, one to stderr is ignored."""

import os
import sys
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputError(Exception):
    """A failed write to stdout; not an OSError, which handlers of other files would catch."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(f"the output cannot be written: {cause.strerror or cause}")
        self.reader_has_gone = isinstance(cause, BrokenPipeError)


class _Stdout(FileIO):
    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputError(error) from error


class _Stderr(FileIO):
    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except OSError:
            # A lost remark does not change the result of the command.
            return memoryview(data).nbytes


def open_streams() -> None:
    """Replace stdout and stderr by streams of these classes; the null device replaces a closed one (`>&-`)."""
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    sys.stdout = _text(_Stdout, sys.stdout)
    sys.stderr = _text(_Stderr, sys.stderr)


def _text(kind: type[FileIO], stream: TextIO | None) -> TextIOWrapper:
    # Python has None for a stream that was closed.
    descriptor = os.open(os.devnull, os.O_WRONLY) if stream is None else stream.fileno()
    raw = kind(descriptor, "w", closefd=False)
    return TextIOWrapper(
        BufferedWriter(raw),
        encoding=stream.encoding if stream else None,
        errors="replace",  # a locale without "µ" must not turn a report into a traceback
        line_buffering=raw.isatty() or kind is _Stderr,
    )


def drop_output() -> None:
    """Discard Python's buffer of stdout, whose flush would fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
