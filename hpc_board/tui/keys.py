"""The keys of the app: one meaning for each letter, and the names by which preferences change them."""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from textual.app import App
from textual.binding import Binding, BindingType
from textual.dom import DOMNode


class Verb(msgspec.Struct, frozen=True):
    """The meaning of a key on all screens, and the actions that carry it out there."""

    meaning: str
    actions: tuple[str, ...]


VERBS: Mapping[str, Verb] = {
    "s": Verb("submit a file", ("submit", "send")),
    "R": Verb("run again: submit the same file, or on Admin the best ones", ("resubmit", "rerun", "choose('again')")),
    "e": Verb("edit the file in your editor", ("edit", "choose('edit')")),
    "w": Verb("watch the file: test it on every save", ("watch", "choose('watch')")),
    "P": Verb("pause the watch, or resume it", ("pause",)),
    "W": Verb("write the starter to a file", ("write",)),
    "c": Verb("cancel runs", ("cancel",)),
    "space": Verb("select a row, or unselect it", ("select",)),
    "asterisk": Verb("select all rows, or none", ("toggle_all",)),
    "m": Verb("mark for a comparison", ("mark",)),
    "y": Verb("copy to the clipboard", ("copy",)),
    "r": Verb("go to the runs", ("runs",)),
    "b": Verb("go to the board (standings)", ("standings",)),
    "f": Verb("go to the feed", ("feed",)),
    "p": Verb("go to the cluster", ("cluster",)),
    "t": Verb("go to the trend", ("trend",)),
    "v": Verb("view the submitted file", ("code",)),
    "d": Verb("go to the description, and back to the list", ("description",)),
    "L": Verb("go to the log, and back to the overview", ("log",)),
    "u": Verb("go to your row", ("mine",)),
    "x": Verb("next steps after a run that did not pass", ("next",)),
    "a": Verb("switch between a part (your own, one task) and all", ("own", "everyone", "everyones_runs", "all_tasks")),
    "o": Verb("sort by the next column", ("sort",)),
    "O": Verb("reverse the order", ("swap", "reverse")),
    "slash": Verb("filter a list, or search standings and texts", ("filter", "search", "search_log")),
    "n": Verb("next match", ("step(1)",)),
    "N": Verb("previous match", ("step(-1)",)),
    "j": Verb("down", ("cursor_down", "scroll_down")),
    "k": Verb("up", ("cursor_up", "scroll_up")),
    "h": Verb("left", ("scroll_left", "turn(-1)")),
    "l": Verb("right", ("scroll_right", "turn(1)")),
    "g": Verb("to the start", ("scroll_top", "scroll_home")),
    "G": Verb("to the end", ("scroll_bottom", "scroll_end")),
    "left_square_bracket": Verb("previous page", ("turn(-1)", "part(-1)")),
    "right_square_bracket": Verb("next page", ("turn(1)", "part(1)")),
    "tilde": Verb("go to the home folder", ("home",)),
    "question_mark": Verb("open the help, or close it", ("help", "dismiss")),
    "q": Verb("quit; runs go on", ("quit_by_letter", "app.quit")),
    "A": Verb("go to Admin", ("admin",)),
    "V": Verb("Admin: open or close the board", ("visibility",)),
    "D": Verb("Admin: change the deadline", ("deadline",)),
    "H": Verb("Admin: limit the submissions per hour", ("limits",)),
    "S": Verb("Admin: stop or start submissions", ("stop",)),
    "B": Verb("Admin: ban or unban the user", ("ban",)),
    "X": Verb("Admin: remove or readmit the submission", ("remove",)),
    "i": Verb("Admin: add a note", ("note",)),
}
"""The meaning of each key that types a character; the digits open the pages of a screen."""

_PLACES = frozenset(
    action.partition("(")[0]
    for verb in VERBS.values()
    if verb.meaning.startswith(("go to", "view"))
    for action in verb.actions
)

_DISPLAYED = {"esc": "Esc", "⏎": "Enter", "space": "Space", "tab": "Tab", "pgup": "PgUp", "pgdn": "PgDn"}


def displayed(name: str) -> str:
    """Return the one spelling of a key that all screens show, of a name as Textual displays it."""
    return _DISPLAYED.get(name, name.upper() if re.fullmatch(r"f\d+", name) else name)


def opens_place(action: str) -> bool:
    """Return whether an action opens another place, and changes nothing."""
    return action.rpartition(".")[2].partition("(")[0] in _PLACES


def named(bindings: Iterable[BindingType], prefix: str) -> list[BindingType]:
    """Return the bindings, with ids such as `runs.cancel` for those without one."""
    return [
        dataclasses.replace(binding, id=f"{prefix}.{_word(binding.action)}")
        if isinstance(binding, Binding) and not binding.id
        else binding
        for binding in bindings
    ]


def actions(places: Sequence[type[DOMNode]]) -> dict[str, bool]:
    """Return the names of all actions of these classes, each with True if its key also works in text fields."""
    return {binding.id: binding.priority for place in places for binding in _bindings(place) if binding.id}


def clashes(keymap: Mapping[str, str], places: Sequence[type[DOMNode]]) -> dict[str, str]:
    """Return the faults of a keymap by action: a key that is bound to another action on the same screen."""
    everywhere = [binding for place in places if issubclass(place, App) for binding in _bindings(place)]
    found: dict[str, str] = {}
    for place in places:
        there = [*_bindings(place), *([] if issubclass(place, App) else everywhere)]
        for name, keys in keymap.items():
            if not any(binding.id == name for binding in there):
                continue
            taken = {key: other for other in there for key in _keys(other, keymap) if _other(other, name, there)}
            for key in keys.split(","):
                if key in taken:
                    other = taken[key]
                    found.setdefault(name, f'"{key}" is the key of {other.id or other.action} already')
    return found


def _other(binding: Binding, name: str, there: Sequence[Binding]) -> bool:
    """Return whether a binding has another action than those with this name."""
    return binding.id != name and binding.action not in {each.action for each in there if each.id == name}


def _keys(binding: Binding, keymap: Mapping[str, str]) -> list[str]:
    return (keymap.get(binding.id or "") or binding.key).split(",")


def _bindings(place: type[DOMNode]) -> Iterator[Binding]:
    """Yield the bindings of a class and of its bases in this package; a subclass overrides its bases' keys."""
    taken: set[str] = set()
    for base in place.__mro__:
        if not base.__module__.startswith("hpc_board."):
            continue
        for binding in base.__dict__.get("BINDINGS", ()):
            keys = [key for key in binding.key.split(",") if key not in taken]
            taken.update(keys)
            if keys:
                yield dataclasses.replace(binding, key=",".join(keys))


def _word(action: str) -> str:
    words = action.rpartition(".")[2].replace("-", "minus_")
    return re.sub(r"\W+", "_", words).strip("_").lower()
