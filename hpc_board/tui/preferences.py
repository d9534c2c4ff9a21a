"""The user's preferences for the app (a settings file), and the app's memory (a state file).

Both are per user and apply to all boards: `hpc-board/app.yaml` in the folder for settings ($XDG_CONFIG_HOME or
~/.config), beside the folder `themes` of the user's own themes, and `hpc-board/app.json` in the folder for state
($XDG_STATE_HOME or ~/.local/state).
"""

import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from hpc_board.accounts import user_folder
from hpc_board.errors import BoardError, InputError, StorageError
from hpc_board.files import read_text, write_whole

if TYPE_CHECKING:
    from textual.theme import Theme

SETTINGS_NAME = "app.yaml"
THEMES_NAME = "themes"
STATE_NAME = "app.json"

_STATE_BYTES_MAX = 1024 * 1024
_VALUES_MAX = 400
"""The most values in the memory; the oldest ones are dropped."""

Value = str | int | bool | tuple[str, ...]
T = TypeVar("T", str, int, bool, tuple[str, ...])


class Notify(StrEnum):
    """A notification at the end of a run, in addition to the one on the screen."""

    NONE = "none"
    BELL = "bell"
    OSC9 = "osc9"


class Preferences(msgspec.Struct, frozen=True):
    """The values of `app.yaml`, or the defaults if it is invalid; `fault` is that of it and of the files of themes."""

    theme: str = ""
    notify: Notify = Notify.NONE
    keys: Mapping[str, str] = msgspec.field(default_factory=dict)
    records: bool = True
    fault: BoardError | None = None
    themes: "tuple[Theme, ...]" = ()
    """The user's own themes."""


def settings_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the user's `app.yaml`."""
    return user_folder(environ, "XDG_CONFIG_HOME", ".config") / SETTINGS_NAME


def state_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the app's state file."""
    return user_folder(environ, "XDG_STATE_HOME", ".local/state") / STATE_NAME


class Memory:
    """The app's persistent memory: small values by screen and key.

    Reads never fail: a missing or damaged value, or one of another type than the default, reads as the default.
    Changes stay in memory until `flush` writes them. All methods are thread-safe. Without a file nothing is stored.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._values = {} if file is None else _stored(file)
        self._changed: dict[str, Value] = {}

    def get(self, screen: str, key: str, default: T) -> T:
        """Return the value under `key` of `screen`, or `default` if there is none of its type.

        A value may be out of date: its folder may be deleted, its run may belong to another board.
        """
        with self._lock:
            value = self._values.get(f"{screen}.{key}")
        return value if type(value) is type(default) else default

    def read_again(self, screen: str, key: str, default: T) -> T:
        """Return the value that is in the state file by now, or else `get`; a change that is not yet written counts."""
        name = f"{screen}.{key}"
        with self._lock:
            stored = {} if self._file is None else _stored(self._file)
            if name in stored and name not in self._changed:
                self._values[name] = stored[name]
        return self.get(screen, key, default)

    def set(self, screen: str, key: str, value: Value) -> None:
        """Store `value` under `key` of `screen`."""
        name = f"{screen}.{key}"
        with self._lock:
            if self._values.get(name) == value:
                return
            for values in (self._values, self._changed):
                values.pop(name, None)  # move the value to the end: the oldest are dropped first
                values[name] = value

    def flush(self) -> None:
        """Write the changed values; keep those that other instances of the app wrote.

        Raises:
            StorageError: the state file cannot be written; the changes remain for the next call.
        """
        with self._lock:
            if self._file is None or not self._changed:
                return
            values = {name: value for name, value in _stored(self._file).items() if name not in self._changed}
            newest = [*values.items(), *self._changed.items()][-_VALUES_MAX:]
            try:
                self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                text = json.dumps(dict(newest), indent=1) + "\n"
                write_whole(self._file, text.encode())
            except OSError as error:
                raise StorageError(
                    f"{self._file}: cannot be written: {error.strerror or error}",
                    hint="The app works, but does not save your choices.",
                ) from error
            self._changed.clear()


def _stored(file: Path) -> dict[str, Value]:
    """Return the values of a state file; none if it is unreadable."""
    values: dict[str, Value] = {}
    with suppress(InputError, ValueError, RecursionError):
        for name, value in msgspec.convert(json.loads(read_text(file, _STATE_BYTES_MAX)), dict[str, Any]).items():
            with suppress(msgspec.ValidationError):
                values[name] = msgspec.convert(value, Value)
    return values
