"""The verbs of the screens: one table of keys, words and meanings.

Bindings are made from it, and with them the last line, the help and the palette; `make docs` makes the table in
docs/app.md. A key has one verb on all screens, and a verb one word.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
from textual.binding import Binding


class Verb(msgspec.Struct, frozen=True):
    """A verb: its key, its word in the last line, its meaning in the help, and its action if that has another name.

    `display` is the key as it is shown, where Textual's name differs. One that is not `shown` is left to the help.
    `where` names its places to the user of its key elsewhere.
    """

    key: str
    word: str
    meaning: str
    action: str = ""
    display: str | None = None
    shown: bool = True
    where: str = "on other screens"


_A_RUN, _A_LIST, _ADMIN, _WATCH = "on a run", "on a list with rows", "on a page of Admin", "on Watch"

VERBS = {
    "pause": Verb("P", "Pause", "Pause submissions, or resume them", where=_WATCH),
    "visibility": Verb("V", "Close", "Show the selected board to all users, or to members only", where=_ADMIN),
    "terms": Verb("D", "Terms", "Change deadline, freeze and names of the selected board", where=_ADMIN),
    "stop": Verb("S", "Stop", "Stop submissions to all boards, or start them again", where=_ADMIN),
    "limits": Verb("H", "Limits", "Limit the submissions per user and period to the selected board", where=_ADMIN),
    "ban": Verb("B", "Ban", "Ban the selected user from submitting, or lift the ban", where=_ADMIN),
    "remove": Verb("X", "Remove", "Remove the submission from the standings, or readmit it", where=_ADMIN),
    "submit": Verb("s", "Submit", "Open the form with the file of the run or task"),
    "edit": Verb("e", "Edit", "Edit the file, then open the form with it"),
    "cancel": Verb("c", "Cancel", "Cancel the run, or the selected runs", where="on a run in flight"),
    "standings": Verb("b", "Board", "Open the board: the standings of the task"),
    "mine": Verb("u", "Your row", "Go to your row, and from there to the first", where="on a board"),
    "scope": Verb("a", "All", "Switch between your runs and those of all users", where="on Runs, a board or the feed"),
    "code": Verb("v", "Code", "Show the submitted file, if you may read it", where=_A_RUN),
    "trend": Verb("t", "Trend", "Plot the history of the user's scores", where=_A_RUN),
    "mark": Verb(
        "m", "Mark", "Mark the run; a second mark compares both: times and diff", where="on a run that has ended"
    ),
    "user": Verb("U", "User", "Show the user's ranks and newest runs", where=_A_RUN),
    "watch": Verb("w", "Watch", "Submit the file on every save"),
    "mode": Verb("M", "Mode", "Choose the next mode, on Watch for the next saves", where="on Watch or a form"),
    "rerun": Verb("R", "Rerun", "Rerun it with the same file, or the selected runs", where=_A_RUN),
    "write": Verb("W", "Write", "Write the starter to a file", where="on Tasks"),
    "select": Verb("space", "Select", "Select or deselect the row", where="on Runs"),
    "hold": Verb("f6", "Hold", "Hold the GPU for your next runs, or release it", where="on a GPU that may be held"),
    "runs": Verb("r", "Runs", "Show your runs"),
    "competition": Verb(
        "C", "Overall", "Show the overall standings of the board's competition", where="on a board of a competition"
    ),
    "feed": Verb("f", "Feed", "Show recent changes to the standings"),
    "cluster": Verb("p", "Cluster", "Show the state of the GPUs"),
    "tasks": Verb("T", "Tasks", "Go to the list of tasks, and close all other screens"),
    "admin": Verb("A", "Admin", "Manage boards, users and runs"),
    "panel": Verb("tab", "Panel", "Move to the next panel", "focus_next"),
    "sort": Verb("o", "Sort", "Sort by the next column", where=_A_LIST),
    "refresh": Verb("f5", "Refresh", "Read it again", "again"),
    "filter": Verb("slash", "Filter", "Filter the list as you type", display="/", where=_A_LIST),
    "search": Verb(
        "slash", "Search", "Go to the lines with a text", display="/", where="on a text or a list with rows"
    ),
    "next_match": Verb("n", "Next match", "Go to the next match", "step(1)", shown=False, where="after a search"),
    "previous_match": Verb(
        "N", "Previous match", "Go to the previous match", "step(-1)", shown=False, where="after a search"
    ),
    "note": Verb("i", "Note", "Add a note to your own run", shown=False, where=_A_RUN),
    "copy": Verb("y", "Copy", "Copy text or run number; again: command, file, job", shown=False, where=_A_RUN),
    "select_all": Verb(
        "asterisk", "Select all", "Select all loaded rows, or none", "toggle_all", "*", shown=False, where="on Runs"
    ),
    "reverse": Verb("O", "Reverse", "Reverse the order", shown=False, where=_A_LIST),
}
"""The verbs by name, in the order of the manual: those of an object, places, those of a view.

`/` filters a list where rows disappear, and searches elsewhere.
"""

_FIRST = ("select_cursor", "send", "search", "filter")
"""The actions whose keys begin the last line, wherever the focus is."""

_LAST = ("back", "quit", "suspend_process", "commands", "help")
"""The actions of all screens, whose keys end the last line."""

_POSITIONS = {verb.word: position for position, verb in enumerate(VERBS.values())}


def position(binding: Binding) -> int:
    """Return the position of a key in the last line, the help and the palette.

    The keys of a single screen are before the verbs, and those of its pages behind them.
    """
    if binding.action in _FIRST:
        return _FIRST.index(binding.action) - len(_FIRST) - 1
    if binding.action in _LAST:
        return len(VERBS) + 1 + _LAST.index(binding.action)
    return _POSITIONS.get(binding.description, len(VERBS) if binding.key.isdigit() else -1)


def binding(name: str, meaning: str = "", *, action: str = "", **options: Any) -> Binding:
    """Return the binding of a verb, with a meaning and an action of its own if the screen has any."""
    verb = VERBS[name]
    return Binding(
        verb.key,
        action or verb.action or name,
        verb.word,
        tooltip=meaning or verb.meaning,
        key_display=verb.display,
        **{"show": verb.shown, **options},
    )


def page_bindings(named: Iterable[tuple[str, str]]) -> tuple[Binding, ...]:
    """Return the bindings of pages with their titles: a digit for each, and [ and ] for the previous and the next."""
    return (
        *(
            Binding(str(number), f"show('{name}')", title, show=False, tooltip=f"Show the page {title}")
            for number, (name, title) in enumerate(named, start=1)
        ),
        Binding("left_square_bracket", "turn(-1)", show=False),
        Binding("right_square_bracket", "turn(1)", show=False),
    )


def app_binding(name: str) -> Binding:
    """Return the binding of a verb of the app, for a screen that has its key in the last line."""
    return binding(name, action=f"app.{name}", id=f"app.{name}")


def bindings(*names: str) -> tuple[Binding, ...]:
    """Return the bindings of these verbs."""
    return tuple(map(binding, names))
