"""A field with one of several choices, which a typed name selects."""

from typing import TypeVar

from rich.text import Text
from textual import events
from textual.widgets import Select

PAUSE_SECONDS = 0.7
"""The pause after which a letter begins another name; that of Textual's open list."""

_Value = TypeVar("_Value")


class TypedSelect(Select[_Value]):
    """A list of choices; letters select the next one that begins with them, without opening the list.

    It takes letters, digits, `_` and `-`, so that no name acts as keys of the screen.
    """

    _begun = ""
    _typed_at = 0.0

    def check_consume_key(self, key: str, character: str | None = None) -> bool:
        """Return whether a key types a character of a name."""
        del key
        return character is not None and (character.isalnum() or character in ("_", "-"))

    def on_key(self, event: events.Key) -> None:
        """Select the choice whose name is typed."""
        if event.character is None or not self.check_consume_key(event.key, event.character):
            return
        event.stop()
        event.prevent_default()
        is_new = event.time - self._typed_at > PAUSE_SECONDS
        self._typed_at = event.time
        self._begun = ("" if is_new else self._begun) + event.character.casefold()
        self._select_begun()

    def _select_begun(self) -> None:
        """Select the next choice that begins with the typed letters; a repeated letter is one of its own."""
        values = [value for _, value in self._options]
        here = values.index(self.value)
        for begun in dict.fromkeys((self._begun, self._begun[0] if len(set(self._begun)) == 1 else self._begun)):
            start = here + (len(begun) == 1)
            for index in (each % len(values) for each in range(start, start + len(values))):
                prompt = self._options[index][0]
                if isinstance(prompt, str | Text) and str(prompt).casefold().startswith(begun):
                    self.value = values[index]
                    return
