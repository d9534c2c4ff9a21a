"""Keys typed ahead: each acts once the one before has had its effect, such as another screen."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
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

_LOOK_SECONDS = 0.25
"""The interval at which a wait for the effect of a key is looked at, since a closed screen cannot report that."""

_CALM_LOOKS_MAX, _LOOKS_MAX = 4, 20
"""The most looks at one wait: while the app has nothing else to do, and in all."""

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
        self._has_escape = False
        """False only if no Esc is among the keys that wait."""
        self._wait: object | None = None
        self._is_looked_at = False
        self._origin: Screen[Any] | None = None
        """The screen that was in front at the last key, and may be opening the one for which others wait."""

    def __bool__(self) -> bool:
        return bool(self._held)

    def begin(self) -> None:
        """Give the first key once the first screen of the board has set its focus."""
        self.has_begun = True
        self._await_focus(self._begin_wait())

    async def take(self, typed: Typed) -> None:
        """Give a key now, or once those before it have had their effect."""
        self._drop_stale()
        if len(self._held) < _HELD_MAX:
            self._held.append(typed)
            self._has_escape |= _is_escape(typed)
        if self._wait is not None:
            self._look_later(self._wait)
        elif self.has_begun:
            await self.give_next()

    def drop(self) -> None:
        """Forget the keys that wait."""
        self._held.clear()
        self._has_escape, self._origin = False, None

    async def give_next(self) -> None:
        """Give the next key, unless a screen is being opened: Esc ends that, and drops the keys before it."""
        self._wait = None
        if not self._app.screen_stack:
            return
        self._drop_stale()
        if not self._held:
            return
        screen: Any = self._app.screen
        self._origin = screen
        if _is_opening(screen):
            if self._has_escape:
                self._abandon(screen)
            return
        wait = self._begin_wait()
        field = self._app.focused
        path = (field or screen).ancestors_with_self
        typed = self._held.popleft()
        await self._give(typed)
        # A text field takes texts in their order, and none of them moves the focus.
        while isinstance(field, Input) and _is_text(typed) and self._held and _is_text(self._held[0]):
            typed = self._held.popleft()
            await self._give(typed)
        self._follow(wait, screen, path, self._arrive)

    def end_opening(self, screen: Screen[Any]) -> None:
        """Give the next key to the screen that has been opened; drop those that waited for it if there is none."""
        self._drop_stale(has_ended=self._origin is screen)
        count = len(self._held)

        def arrive(wait: object, screen: Screen[Any]) -> None:
            if self._app.screen is screen:
                self._held = deque(islice(self._held, count, None))
            self._arrive(wait, screen)

        self._follow(self._begin_wait(), screen, (screen, self._app), arrive)

    def _drop_stale(self, *, has_ended: bool = False) -> None:
        """Drop the keys that wait for a screen if another one, such as that of a clicked row, is in front by now."""
        if not (has_ended or _is_opening(self._origin)) or not self._app.screen_stack:
            return
        if self._app.screen is not self._origin:
            self.drop()

    def _abandon(self, screen: Any) -> None:
        """End an opening and drop the keys up to the first Esc, if one waits."""
        held = list(self._held)
        escapes = [index for index, typed in enumerate(held) if _is_escape(typed)]
        self._has_escape = len(escapes) > 1
        if escapes:
            # The end of the opening drops all that are held by then.
            self._held.clear()
            screen.abandon_opening()
            self._held.extend(held[escapes[0] + 1 :])
            if self._wait is not None:
                self._look_later(self._wait)

    def _begin_wait(self) -> object:
        self._wait = object()
        if self._held:
            self._look_later(self._wait)
        return self._wait

    def _look_later(self, wait: object, calm: int = 0, looks: int = 0) -> None:
        if not self._is_looked_at:
            self._is_looked_at = True
            self._app.set_timer(_LOOK_SECONDS, lambda: self._look(wait, calm, looks))

    async def _look(self, wait: object, calm: int, looks: int) -> None:
        """Give the next key if the end of the wait is lost or late: it needs no further key."""
        self._is_looked_at = False
        if self._wait is None or not self._held or not self._app.screen_stack:
            return
        if wait is not self._wait:
            self._look_later(self._wait)
            return
        busy = self._app.message_queue_size or self._app.screen.message_queue_size
        calm, looks = calm + (not busy), looks + 1
        if calm < _CALM_LOOKS_MAX and looks < _LOOKS_MAX:
            self._look_later(wait, calm, looks)
        else:
            await self.give_next()

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
        if self._app.screen is screen:
            self._app.call_later(self.give_next)
            return
        self._drop_stale()
        self._await_focus(wait)

    def _await_focus(self, wait: object) -> None:
        front = self._app.screen
        front.call_after_refresh(self._app.call_later, self._arrive, wait, front)


def _is_opening(screen: Any) -> bool:
    return getattr(screen, "is_opening", False)


def _is_escape(typed: Typed) -> bool:
    return isinstance(typed, events.Key) and typed.key == "escape"


def _is_text(typed: Typed) -> bool:
    return isinstance(typed, events.Paste) or typed.is_printable
