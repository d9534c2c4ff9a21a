"""What a user wants of the app (a settings file), and what the app remembers for them (a state file).

Both belong to one user and to every board: `hpc-board/app.yaml` in the folder for settings ($XDG_CONFIG_HOME or
~/.config), and `hpc-board/app.json` in the one for state ($XDG_STATE_HOME or ~/.local/state).
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
from hpc_board.files import read_text, write_whole

SETTINGS_NAME = "app.yaml"
STATE_NAME = "app.json"

_STATE_BYTES_MAX = 256 * 1024
_VALUES_MAX = 400
"""What was remembered longest ago is forgotten where there is more than this."""

_TEXT_MAX = 4096
_LIST_MAX = 50
_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,79}\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

Value = str | int | bool | tuple[str, ...]
T = TypeVar("T", str, int, bool, tuple[str, ...])


class Notify(StrEnum):
    """How the app tells that a run has ended, apart from its words on the screen."""

    NONE = "none"
    BELL = "bell"
    OSC9 = "osc9"


class Preferences(msgspec.Struct, frozen=True):
    """What `app.yaml` says, with every default filled in; `fault` is why it says nothing, if it has faults."""

    theme: str = ""
    notify: Notify = Notify.NONE
    keys: Mapping[str, str] = msgspec.field(default_factory=dict)
    fault: BoardError | None = None


def settings_file(environ: Mapping[str, str]) -> Path:
    """Where the user's `app.yaml` is looked for."""
    return _folder(environ, "XDG_CONFIG_HOME", ".config") / SETTINGS_NAME


def state_file(environ: Mapping[str, str]) -> Path:
    """Where the app keeps what it remembers."""
    return _folder(environ, "XDG_STATE_HOME", ".local/state") / STATE_NAME


class Memory:
    """What the app remembers from one start to the next: small values by the name of a screen and a key.

    Reading never fails: what is not there, is damaged or is of another kind than the default is the default. Values
    live in memory until `flush` writes those that have changed. Any thread may call any method. Without a file nothing
    is kept.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._values = {} if file is None else _stored(file)
        self._changed: dict[str, Value] = {}

    def get(self, screen: str, key: str, default: T) -> T:
        """What was remembered under `key` of `screen`; `default` where there is no value of its kind.

        Texts hold no control characters, and tuples hold texts. What is remembered may be out of date: a folder may be
        gone, a run may belong to another board.
        """
        with self._lock:
            value = self._values.get(f"{screen}.{key}")
        return value if type(value) is type(default) else default

    def set(self, screen: str, key: str, value: Value) -> None:
        """Remember `value` under `key` of `screen`; one that is too long, or has control characters, is forgotten.

        Raises:
            ValueError: `screen` or `key` is no name of small letters, digits and _ . -
        """
        name = f"{screen}.{key}"
        if not _NAME.match(name):
            raise ValueError(f"not the name of a value: {name!r}")
        kept = value if _fits(value) else ""
        with self._lock:
            if self._values.get(name) == kept and type(self._values.get(name)) is type(kept):
                return
            for values in (self._values, self._changed):
                values.pop(name, None)  # what is new goes to the end: the oldest is forgotten first
                values[name] = kept

    def flush(self) -> None:
        """Write what has changed, without undoing what another app has written in the meantime.

        Raises:
            StorageError: the state file cannot be written; the changes stay to be written later.
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
                    hint="The app goes on; it will not remember what you chose.",
                ) from error
            self._changed.clear()


def _folder(environ: Mapping[str, str], variable: str, default: str) -> Path:
    given = Path(environ.get(variable, ""))
    if not given.is_absolute():
        home = environ.get("HOME", "")
        given = (Path(home) if home else _home()) / default
    return given / "hpc-board"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


def _stored(file: Path) -> dict[str, Value]:
    """The values in a state file, without those that are none; nothing at all where it cannot be read."""
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
    """The values that were set last, as far as there is room for them in the file."""
    kept: dict[str, Value] = {}
    room = _STATE_BYTES_MAX // 2
    for name, value in list(reversed(values.items()))[:_VALUES_MAX]:
        room -= len(json.dumps([name, value], ensure_ascii=False).encode())
        if room < 0:
            break
        kept[name] = value
    return dict(reversed(kept.items()))
