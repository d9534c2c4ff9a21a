"""The reader of the user's preferences file, `app.yaml`."""

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import msgspec

from hpc_board.errors import BoardError
from hpc_board.model.names import suggestion
from hpc_board.tui.preferences import Notify, Preferences
from hpc_board.yaml_document import Document
from hpc_board.yaml_sections import Line, Section

_THEMES_HINT = "^p, then Theme, lists all themes"
"""A hint in place of all names, which would fill the error box."""

_KEY = re.compile(r"(?:(?:ctrl|shift|alt|super|meta|hyper)\+)*(?:[!-~]|[a-z][a-z0-9_]{0,31})\Z")


class AppFile(Section, frozen=True):
    """The contents of `app.yaml`."""

    theme: Line | None = None
    """The theme at start: `hpc-board`, `hpc-board-light` or one of Textual's themes."""
    notify: Notify = Notify.NONE
    """At the end of a run: `bell` rings the terminal's bell, `osc9` requests a desktop notification from it."""
    keys: dict[Line, Line] = msgspec.field(default_factory=dict)
    """Keys by action, with the names in the help (F1): `runs.cancel: x`; commas separate several keys."""


def load(
    file: Path,
    *,
    themes: Collection[str],
    actions: Callable[[], Mapping[str, bool]],
    clashes: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda _: {},
) -> Preferences:
    """Return the preferences in `file`, or the defaults and the fault if the file is invalid.

    Args:
        file: the preferences file.
        themes: the names of all themes.
        actions: returns the names of all actions; True marks keys that work in text fields and so cannot be letters.
        clashes: returns the faults of keys by action. Both functions are called only for a file with keys.
    """
    try:
        return _read(file, themes, actions, clashes)
    except BoardError as error:
        return Preferences(fault=error)


def _read(
    file: Path,
    themes: Collection[str],
    actions: Callable[[], Mapping[str, bool]],
    clashes: Callable[[Mapping[str, str]], Mapping[str, str]],
) -> Preferences:
    document = Document.read(file, hint="The app goes on with its defaults until these lines are corrected.")
    section = document.value(AppFile)
    if section.theme is not None and section.theme not in themes:
        near = suggestion(section.theme, themes)
        document.fault(("theme",), f'unknown theme "{section.theme}".{near} {_THEMES_HINT}')
    known = actions() if section.keys else {}
    for action, keys in section.keys.items():
        if action not in known:
            near = suggestion(action, known)
            document.fault(("keys", action), f"unknown action.{near} The help (F1) lists all actions")
        else:
            for message in _key_faults(keys, typing=known[action]):
                document.fault(("keys", action), message)
    document.check()
    chosen = {action: ",".join(_split(keys)) for action, keys in section.keys.items()}
    for action, message in clashes(chosen).items() if chosen else ():
        document.fault(("keys", action), message)
    document.check()
    return Preferences(section.theme or "", section.notify, chosen)


def _key_faults(keys: str, *, typing: bool) -> list[str]:
    faults = []
    for key in _split(keys):
        if not _KEY.match(key):
            faults.append(f'expected keys such as "x", "f5" or "ctrl+r", joined by commas, found "{key}"')
        elif typing and len(key) == 1:
            faults.append(f'"{key}" could not be typed into text fields: use a key with ctrl, or an F key')
    return faults


def _split(keys: str) -> list[str]:
    return [key.strip() for key in keys.split(",")]
