"""The user's settings of the app, `app.yaml`, as they are read."""

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import msgspec

from hpc_board.errors import BoardError
from hpc_board.model.names import suggestion
from hpc_board.tui.preferences import Notify, Preferences
from hpc_board.yaml_document import Document
from hpc_board.yaml_sections import Line, Section

_THEMES_HINT = 'Ctrl+P, then "Change the theme (colours)", shows all of them'
"""Their names alone would fill the box of the faults, and push the next ones out of it."""

_KEY = re.compile(r"(?:(?:ctrl|shift|alt|super|meta|hyper)\+)*(?:[!-~]|[a-z][a-z0-9_]{0,31})\Z")


class AppFile(Section, frozen=True):
    """The whole of `app.yaml`."""

    theme: Line | None = None
    """The colours to begin with: `hpc-board`, `hpc-board-light` or one of Textual's themes."""
    notify: Notify = Notify.NONE
    """At the end of a run: `bell` rings the terminal's bell, `osc9` asks the terminal for a desktop notification."""
    keys: dict[Line, Line] = msgspec.field(default_factory=dict)
    """Keys by the names of actions, as the help (F1) lists them: `runs.cancel: x`; several are joined by commas."""


def load(
    file: Path,
    *,
    themes: Collection[str],
    actions: Callable[[], Mapping[str, bool]],
    clashes: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda _: {},
) -> Preferences:
    """The preferences in `file`; the defaults, with the fault, where it cannot be used.

    `themes` are the names that there are. `actions` returns the names of what a key can be given to, each with whether
    its key works while one types, and so cannot be a letter. `clashes` says which actions cannot have the keys that
    they would have, and why. Both are called only for a file that has keys.
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
        document.fault(("theme",), f'there is no theme "{section.theme}".{near} {_THEMES_HINT}')
    known = actions() if section.keys else {}
    for action, keys in section.keys.items():
        if action not in known:
            near = suggestion(action, known)
            document.fault(("keys", action), f"is not an action of the app.{near} The help (F1) lists them")
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
            faults.append(f'"{key}" cannot be typed any more if it does this: take a key with ctrl, or an F key')
    return faults


def _split(keys: str) -> list[str]:
    return [key.strip() for key in keys.split(",")]
