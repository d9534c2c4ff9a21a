"""Write the table of keys in docs/app.md anew, from the verbs of the app and the bindings of its screens."""

from collections.abc import Iterator
from pathlib import Path

from textual.dom import DOMNode

from hpc_board.tui.app import BoardApp, keyed
from hpc_board.tui.keys import displayed
from hpc_board.tui.screens.base import BoardScreen
from hpc_board.tui.screens.run_keys import RunScreen
from hpc_board.tui.verbs import VERBS, Verb
from hpc_board.tui.widgets.text_pane import TextPane

PAGE = Path(__file__).resolve().parents[1] / "docs" / "app.md"

_BEGIN = "<!-- The table from here to the end mark is made by `make docs`. -->\n"
_END = "<!-- end -->\n"


def page_with_keys(page: str) -> str:
    """The text of the page with its table of keys made anew."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{table()}\n{_END}{after}"


def table() -> str:
    """A row for each verb: its key, its word, its meaning, and the screens that have it."""
    head = ["| key | word | meaning | screens |", "|---|---|---|---|"]
    rows = [
        f"| {_key(verb)} | {verb.word} | {verb.meaning} | {', '.join(sorted(_places(verb)))} |"
        for verb in VERBS.values()
    ]
    return "\n".join([*head, *rows])


def _key(verb: Verb) -> str:
    name = displayed(verb.display or verb.key)
    return name.capitalize() if len(name) > 2 else f"`{name}`"


def _places(verb: Verb) -> Iterator[str]:
    known: tuple[type[DOMNode], ...] = (*keyed(), TextPane)
    for place in known:
        for each in vars(place).get("BINDINGS", ()):
            if (each.key, each.description) == (verb.key, verb.word):
                yield _name(place, each.action)


def _name(place: type[DOMNode], action: str) -> str:
    if place is RunScreen:
        without = sorted(screen.NAME for screen in RunScreen.__subclasses__() if action in screen.WITHOUT)
        return f"every run (not {', '.join(without)})" if without else "every run"
    if issubclass(place, BoardScreen):
        return place.NAME
    return "all screens" if place is BoardApp else "texts"


if __name__ == "__main__":
    PAGE.write_text(page_with_keys(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
