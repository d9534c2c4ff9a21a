"""The user's preferences for the app (a settings file), and the app's memory (a state file).

Both are per user and apply to all boards: `hpc-board/app.yaml` in the folder for settings ($XDG_CONFIG_HOME or
~/.config), and `hpc-board/app.json` in the folder for state ($XDG_STATE_HOME or ~/.local/state).
"""

import json
import re
import threading
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hpc_board.errors import BoardError, InputError, StorageError
from hpc_board.files import read_text, user_folder, write_whole

SETTINGS_NAME = "app.yaml"
STATE_NAME = "app.json"

_STATE_BYTES_MAX = 256 * 1024
_VALUES_MAX = 400
"""The most values in the memory; the oldest ones are dropped."""

_TEXT_MAX = 4096
_LIST_MAX = 50
_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,79}\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

Value = str | int | bool | tuple[str, ...]
T = TypeVar("T", str, int, bool, tuple[str, ...])


class Notify(StrEnum):
    """A notification at the end of a run, in addition to the one on the screen."""

    NONE = "none"
    BELL = "bell"
    OSC9 = "osc9"


class Preferences(msgspec.Struct, frozen=True):
    """The values of `app.yaml`, or the defaults with a `fault` if the file is invalid."""

    theme: str = ""
    notify: Notify = Notify.NONE
    keys: Mapping[str, str] = msgspec.field(default_factory=dict)
    fault: BoardError | None = None


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

        Texts have no control characters, and tuples consist of texts. A value may be out of date: its folder may be
        deleted, its run may belong to another board.
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
        """Store `value` under `key` of `screen`; drop a value that is too long or has control characters.

        Raises:
            ValueError: `screen` or `key` has other characters than lower-case letters, digits and _ . -
        """
        name = f"{screen}.{key}"
        if not _NAME.match(name):
            raise ValueError(f"not the name of a value: {name!r}")
        kept = value if _fits(value) else ""
        with self._lock:
            if self._values.get(name) == kept and type(self._values.get(name)) is type(kept):
                return
            for values in (self._values, self._changed):
                values.pop(name, None)  # move the value to the end: the oldest are dropped first
                values[name] = kept

    def flush(self) -> None:
        """Write the changed values; keep those that other instances of the app wrote.

        Raises:
            StorageError: the state file cannot be written; the changes remain for the next call.
        """
        with self._lock:
            if self._file is None or not self._changed:
                return
            values = {name: value for name, value in _stored(self._file).items() if name not in self._changed}
            values |= self._changed
            try:
                self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                text = json.dumps(_newest(values), ensure_ascii=False, indent=1) + "\n"
                write_whole(self._file, text.encode())
            except OSError as error:
                raise StorageError(
                    f"{self._file}: cannot be written: {error.strerror or error}",
                    hint="The app goes on, but does not store your choices.",
                ) from error
            self._changed.clear()


def _stored(file: Path) -> dict[str, Value]:
    """Return the valid values of a state file; none if it is unreadable."""
    try:
        found: Any = json.loads(read_text(file, _STATE_BYTES_MAX))
    except (InputError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    values: dict[str, Value] = {}
    for name, value in found.items():
        kept = tuple(value) if isinstance(value, list) else value
        if _NAME.match(name) and _fits(kept):
            values[name] = kept
    return _newest(values)


def _fits(value: object) -> bool:
    if isinstance(value, tuple):
        return len(value) <= _LIST_MAX and all(isinstance(item, str) and _fits(item) for item in value)
    if isinstance(value, str):
        return len(value) <= _TEXT_MAX and not _CONTROL.search(value)
    return isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**63)


def _newest(values: dict[str, Value]) -> dict[str, Value]:
    """Return the latest values that fit into the state file."""
    kept: dict[str, Value] = {}
    room = _STATE_BYTES_MAX // 2
    for name, value in list(reversed(values.items()))[:_VALUES_MAX]:
        room -= len(json.dumps([name, value], ensure_ascii=False).encode())
        if room < 0:
            break
        kept[name] = value
    return dict(reversed(kept.items()))
