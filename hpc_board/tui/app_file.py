"""The reader of the user's preferences file, `app.yaml`."""

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec
from textual.dom import DOMNode

from hpc_board.model.names import suggestion
from hpc_board.tui import keys
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
    records: bool = True
    """Show a notification of other users' new records while the app is open."""
    keys: dict[Line, Line] = msgspec.field(default_factory=dict)
    """Keys by action, with the names in the help (F1): `run.cancel: K`; commas separate several keys."""


def load(file: Path, themes: Collection[str], places: Callable[[], Sequence[type[DOMNode]]]) -> Preferences:
    """Return the preferences in `file`.

    `themes` are the names of all themes; `places` returns the classes with keys, and is called for a file with keys.

    Raises:
        BoardError: the file is invalid.
    """
    document = Document.read(file, hint="The app uses its defaults until these lines are corrected.")
    section = document.value(AppFile)
    if section.theme is not None and section.theme not in themes:
        near = suggestion(section.theme, themes)
        document.fault(("theme",), f'unknown theme "{section.theme}".{near} {_THEMES_HINT}')
    classes = places() if section.keys else ()
    known = keys.actions(classes)
    keymap: dict[str, str] = {}
    for action, chosen in section.keys.items():
        if action not in known:
            near = suggestion(action, known)
            document.fault(("keys", action), f"unknown action.{near} The help (F1) lists all actions")
        elif faults := _key_faults(chosen, typing=known[action]):
            for message in faults:
                document.fault(("keys", action), message)
        else:
            keymap[action] = ",".join(_split(chosen))
    for action, message in keys.clashes(keymap, classes).items():
        document.fault(("keys", action), message)
    document.check()
    return Preferences(section.theme or "", section.notify, keymap, records=section.records)


def _key_faults(chosen: str, *, typing: bool) -> list[str]:
    faults = []
    for key in _split(chosen):
        if not _KEY.match(key):
            faults.append(f'expected keys such as "x", "f5" or "ctrl+r", joined by commas, found "{key}"')
        elif typing and len(key) == 1:
            faults.append(f'"{key}" could then not be typed in text fields: use a key with ctrl, or an F key')
    return faults


def _split(chosen: str) -> list[str]:
    return [key.strip() for key in chosen.split(",")]
