"""The keys of the app: their spelling, and the names by which preferences change them."""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from textual.app import App
from textual.binding import Binding, BindingType
from textual.dom import DOMNode

_PLACES = frozenset(
    ("admin", "cluster", "code", "competition", "feed", "mine", "runs", "show", "standings", "tasks", "trend", "user")
)
"""The actions that open another place, and change nothing."""

_DISPLAYED = {"esc": "Esc", "⏎": "Enter", "space": "Space", "tab": "Tab", "pgup": "PgUp", "pgdn": "PgDn"}


def displayed(name: str) -> str:
    """Return the one spelling of a key that all screens show, of a name as Textual displays it."""
    return _DISPLAYED.get(name, name.upper() if re.fullmatch(r"f\d+", name) else name)


def opens_place(action: str) -> bool:
    """Return whether an action opens another place, and changes nothing."""
    return action.rpartition(".")[2].partition("(")[0] in _PLACES


def named(bindings: Iterable[BindingType], prefix: str) -> list[BindingType]:
    """Return the bindings, with ids such as `run.cancel` for those without one."""
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
            own = {binding.action for binding in there if binding.id == name}
            others = [binding for binding in there if own and binding.id != name and binding.action not in own]
            taken = {key: other for other in others for key in (keymap.get(other.id or "") or other.key).split(",")}
            for key in keys.split(","):
                if key in taken:
                    other = taken[key]
                    found.setdefault(name, f'"{key}" is already the key of {other.id or other.action}')
    return found


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
