"""The standard streams: a failed write to stdout is an error of its own class, one to stderr is nobody's concern."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputError(Exception):
    """What a command prints to stdout cannot be written; no OSError, so that only this is taken for it."""

    def __init__(self, cause: OSError, *, stored: str = "") -> None:
        super().__init__(f"the output cannot be written: {cause.strerror or cause}")
        self.cause = cause
        self.hint = " ".join(filter(None, ("Send it elsewhere, or make room where it goes.", stored)))

    @property
    def reader_has_gone(self) -> bool:
        """Whether stdout is a pipe that nobody reads any more."""
        return isinstance(self.cause, BrokenPipeError)


@contextmanager
def unless_printed(stored: str) -> Iterator[None]:
    """Add to the error of output that cannot be written where `stored` says that its subject is kept."""
    try:
        yield
    except OutputError as error:
        raise OutputError(error.cause, stored=stored) from error


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
            # What cannot be told changes nothing about how the command went.
            return memoryview(data).nbytes


def open_streams() -> None:
    """Make stdout and stderr streams of these classes, and put the null device where the caller closed one (`>&-`)."""
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
    """Drop what Python still holds for stdout: writing it would fail once more when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
