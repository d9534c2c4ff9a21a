"""Keys typed ahead: each acts once the one before has had its effect, such as another screen."""

from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import Any

from textual import events
from textual.app import App
from textual.message_pump import MessagePump
from textual.screen import Screen

_HELD_MAX = 1000
"""The most keys that wait; later ones are dropped."""

_ROUNDS = 4
"""The most messages in a row that a key causes before a screen opens: row chosen, item chosen, open."""

_PATIENCE_SECONDS = 5.0
"""The longest wait for the effect of a key, which a screen that is closed meanwhile cannot report."""

Typed = events.Key | events.Paste


class TypeAhead:
    """The keys and pasted texts that wait, the oldest first; `give` passes one to the widget with the focus.

    Without it, they would act on the screen before, or overtake those on their way to a field that a key opens.
    """

    def __init__(self, app: App[Any], give: Callable[[Typed], Awaitable[None]]) -> None:
        self.has_begun = False
        """True from the first screen of the board on."""
        self._app = app
        self._give = give
        self._held: list[Typed] = []
        self._wait: object | None = None
        self._waits_since = 0.0

    def __bool__(self) -> bool:
        return bool(self._held)

    async def take(self, typed: Typed) -> None:
        """Give a key now, or once those before it have had their effect."""
        if len(self._held) < _HELD_MAX:
            self._held.append(typed)
        waits = self._wait is not None and monotonic() - self._waits_since < _PATIENCE_SECONDS
        if self.has_begun and not waits:
            await self.give_next()

    def drop(self) -> None:
        """Forget the keys that wait."""
        self._held.clear()

    async def give_next(self) -> None:
        """Give the next key, unless a screen is being opened: Esc ends that, and drops the keys before it."""
        self.has_begun, self._wait = True, None
        if not self._held or not self._app.screen_stack:
            return
        screen: Any = self._app.screen
        if getattr(screen, "is_opening", False):
            escapes = [isinstance(each, events.Key) and each.key == "escape" for each in self._held]
            if any(escapes):
                behind = self._held[escapes.index(True) + 1 :]
                # The end of the opening drops all that are held by then.
                self.drop()
                screen.abandon_opening()
                self._held = behind
            return
        typed, wait = self._held.pop(0), self._begin_wait()
        path = (self._app.focused or screen).ancestors_with_self
        await self._give(typed)
        self._follow(wait, screen, path, self._arrive)

    def end_opening(self, screen: Screen[Any]) -> None:
        """Give the next key to the screen that has been opened; drop those that waited for it if there is none."""
        count = len(self._held)

        def arrive(wait: object, screen: Screen[Any]) -> None:
            if self._app.screen is screen:
                del self._held[:count]
            self._arrive(wait, screen)

        self._follow(self._begin_wait(), screen, (screen, self._app), arrive)

    def _begin_wait(self) -> object:
        self._wait, self._waits_since = object(), monotonic()
        return self._wait

    def _follow(
        self,
        wait: object,
        screen: Screen[Any],
        path: Sequence[MessagePump],
        then: Callable[[object, Screen[Any]], None],
        rounds: int = _ROUNDS,
    ) -> None:
        """Call `then` once the messages on the path from a widget to the app, and those they cause, are handled."""

        def rise(index: int) -> None:
            if wait is not self._wait or not self._app.screen_stack:
                return
            # A closed widget takes no callback.
            while index < len(path):
                index += 1
                if path[index - 1].call_later(rise, index):
                    return
            if rounds > 1 and self._app.screen is screen and any(node.message_queue_size for node in path):
                self._follow(wait, screen, path, then, rounds - 1)
            else:
                then(wait, screen)

        rise(0)

    def _arrive(self, wait: object, screen: Screen[Any]) -> None:
        """Give the next key once the screen in front has set its focus, before its first refresh."""
        if wait is not self._wait or not self._app.screen_stack:
            return
        if (front := self._app.screen) is not screen:
            front.call_after_refresh(self._app.call_later, self._arrive, wait, front)
        else:
            self._app.call_later(self.give_next)
