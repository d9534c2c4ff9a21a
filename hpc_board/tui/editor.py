"""The user's editor, which has the terminal while it runs."""

import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hpc_board.errors import InputError

_DEFAULT = "vi"
_PLUS_EDITORS = ("vi", "vim", "nvim", "nano", "emacs", "micro", "hx", "helix", "kak")
"""The editors that begin at line 25 with the argument +25."""


def command(environ: Mapping[str, str]) -> list[str]:
    """Return the user's editor with its arguments: $VISUAL, else $EDITOR, else vi.

    Raises:
        InputError: the variable has an open quote.
    """
    given = next((words for name in ("VISUAL", "EDITOR") if (words := environ.get(name, "").strip())), _DEFAULT)
    try:
        return shlex.split(given) or [_DEFAULT]
    except ValueError as error:
        raise InputError(f"invalid editor {given!r}: {error}.", hint="Set EDITOR to a command.") from error


def is_found(environ: Mapping[str, str]) -> bool:
    """Return whether the user's editor is a program of this machine; `edit` has the error if it is not."""
    try:
        return shutil.which(command(environ)[0]) is not None
    except InputError:
        return False


def edit(file: Path, environ: Mapping[str, str], line: str = "") -> None:
    """Run the user's editor on `file` in the terminal, at a `line` if it is a known editor, and wait for its end.

    Raises:
        InputError: the editor does not start, or fails.
    """
    words = command(environ)
    try:
        with _interrupts_for_the_editor():
            status = subprocess.run(
                [*words, *_at(Path(words[0]).name, str(file.absolute()), line)], check=False
            ).returncode
    except OSError as error:
        raise InputError(
            f"the editor {words[0]} does not start: {error.strerror or error}.", hint="Set VISUAL or EDITOR."
        ) from error
    if status:
        raise InputError(f"the editor {words[0]} exited with status {status}.", hint=f"{file} may be unchanged.")


def _at(name: str, file: str, line: str) -> list[str]:
    """Return the arguments with which the editor of this name opens a file, at a line if there is one."""
    if line and name == "code":
        return ["-g", f"{file}:{line}"]
    return [f"+{line}", file] if line and name in _PLUS_EDITORS else [file]


@contextmanager
def _interrupts_for_the_editor() -> Iterator[None]:
    """Keep Ctrl+C in the editor from ending the app, which the terminal interrupts as well."""
    # Unlike SIG_IGN, a handler is not inherited by the editor.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
