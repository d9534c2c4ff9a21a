"""Keys typed ahead: each acts once the one before has had its effect, such as another screen."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from textual import events
from textual.app import App
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.widgets import Input

_HELD_MAX = 100_000
"""The most keys that wait, a large text from a terminal without bracketed paste; later ones are dropped."""

_ROUNDS = 4
"""The most messages in a row that a key causes before a screen opens: row chosen, item chosen, open."""

_MOUNTED_SECONDS = 0.01
_LOST_SECONDS = 1.0
"""The interval of looks for the widgets of a new screen, and the longest wait for a widget, which may have closed."""

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
        self._held: deque[Typed] = deque()
        self._wait: object | None = None
        """The wait for the effect of the last key."""
        self._origin: Screen[Any] | None = None
        """The screen that was in front at the last key, and may be opening the one for which others wait."""
        self._dropped_without = 0
        """The number of keys to drop if that screen has opened none."""

    def __bool__(self) -> bool:
        return bool(self._held)

    def begin(self) -> None:
        """Give the first key once the first screen of the board has set its focus."""
        self.has_begun = True
        self._settle_soon(())

    async def add(self, typed: Typed) -> None:
        """Give a key now, or once those before it have had their effect."""
        self._drop_outdated()
        if len(self._held) < _HELD_MAX:
            self._held.append(typed)
        if self.has_begun and self._wait is None:
            await self._give_next()

    def wake(self) -> None:
        """Give the keys that wait for rows, once the screen in front has handled the messages of an answer."""
        self._drop_outdated()
        if self._held and self._wait is None:
            self._settle_soon(())

    def _drop_outdated(self) -> None:
        """Drop the keys for a screen that opens once another one, such as that of a clicked row, is in front."""
        if _is_opening(self._origin) and self._app.screen is not self._origin:
            self.drop()

    def drop(self) -> None:
        self._held.clear()
        self._origin, self._dropped_without = None, 0

    def end_opening(self, screen: Screen[Any]) -> None:
        """Give the next key to the screen that `screen` opens; drop those that waited for it if there is none."""
        if self._origin is screen:
            if self._app.screen is not screen:
                self.drop()
            self._dropped_without = len(self._held)
            self._settle_soon((screen,))

    async def _give_next(self) -> None:
        """Give the next key, unless it waits for an opening screen or for rows: Esc ends that and drops keys before."""
        screen: Any = self._app.screen
        keys = [getattr(typed, "key", "") for typed in self._held]
        until_escape = keys.index("escape") if "escape" in keys else None
        if _is_opening(screen):
            self._origin = screen
            if until_escape is not None:
                later = list(self._held)[until_escape + 1 :]
                # The end of the opening drops all that are held by then.
                self._held.clear()
                screen.abandon_opening()
                self._held.extend(later)
            return
        if self._origin is screen:
            self._held = deque(islice(self._held, self._dropped_without, None))
        self._origin, self._dropped_without = screen, 0
        if self._waits_for_rows:
            if until_escape is None:
                return
            self._held = deque(islice(self._held, until_escape, None))
        if not self._held:
            return
        field = self._app.focused
        path = (field or screen).ancestors_with_self
        typed = self._held.popleft()
        await self._give(typed)
        # A text field takes texts in their order, and none of them moves the focus.
        while isinstance(field, Input) and _is_text(typed) and self._held and _is_text(self._held[0]):
            typed = self._held.popleft()
            await self._give(typed)
        self._settle_soon(path)

    @property
    def _waits_for_rows(self) -> bool:
        """Return whether the next key waits for the rows of the screen in front; those of the app do not."""
        screen = self._app.screen
        if not self._held or not getattr(screen, "is_loading", False) or isinstance(self._app.focused, Input):
            return False
        active = screen.active_bindings.get(getattr(self._held[0], "key", ""))
        return active is None or active.node is not self._app

    def _settle_soon(self, path: Sequence[MessagePump]) -> None:
        self._wait = object()
        self._app.run_worker(self._settle(self._wait, self._app.screen, path), group="type-ahead", exclusive=True)

    async def _settle(self, wait: object, screen: Screen[Any], path: Sequence[MessagePump]) -> None:
        """Give the next key once the messages on the path from a widget to the app, and those they cause, are handled.

        The screen in front then has set its focus.
        """
        app = self._app
        for number in range(_ROUNDS):
            await _handled(path)
            if not app.screen_stack or app.screen is not screen:
                break
            # Most keys cause no further messages; after one round, some may be on their way between queues.
            if number and not any(node.message_queue_size for node in path):
                break
        while app.screen_stack and not app.screen.is_mounted:
            await asyncio.sleep(_MOUNTED_SECONDS)
        if app.screen_stack:
            await _handled((app.screen, app))
            app.call_later(self._go_on, wait)

    async def _go_on(self, wait: object) -> None:
        if wait is self._wait and self._app.screen_stack:
            self._wait = None
            await self._give_next()


async def _handled(path: Sequence[MessagePump]) -> None:
    """Return once each node of the path has handled the messages that it has by then."""
    for node in path:
        done = asyncio.Event()
        if node.call_later(done.set):
            with suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), _LOST_SECONDS)


def _is_opening(screen: Screen[Any] | None) -> bool:
    return getattr(screen, "is_opening", False)


def _is_text(typed: Typed) -> bool:
    return isinstance(typed, events.Paste) or typed.is_printable
