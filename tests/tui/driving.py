"""Driving the app in tests: it is waited for, never slept for."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from hpc_board.board import Board
from hpc_board.tui.app import BoardApp
from hpc_board.tui.screens.base import BoardScreen
from tests.tui.fake_board import NOW

DEADLINE_SECONDS = 60.0

Door = Callable[..., Board]
"""The type of the fixture `door`: a function of settings and of a user, by default the account's."""

SnapCompare = Callable[..., bool]
"""The type of the fixture `snap_compare`."""

_LOOK_SECONDS = 0.004
_ENDLESS = ("_loader", "changes")
"""The groups of workers that wait until the app ends."""

_EDGES = str.maketrans(dict.fromkeys("│╭╮╰╯", " "))

_CALM_LOOKS = 3
"""The looks without a change after which the app is calm: an answer of a thread shows its effect by the next one."""


def app_on(board: Board, file: Path | None = None, *, tick_seconds: float = 3600) -> BoardApp:
    """The app with a clock that stands still, and no beat of its own unless a test wants one."""
    return BoardApp(lambda: board, file, now=lambda: NOW, tick_seconds=tick_seconds, follow_seconds=tick_seconds)


async def until(pilot: Pilot[Any], condition: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> None:
    """Come back when `condition` holds; fail if it does not come true in time."""
    deadline, pause_seconds = time.monotonic() + seconds, 0.01
    while not condition():
        assert time.monotonic() < deadline, f"not in time; the screen says:\n{text_of(pilot.app)}"
        await asyncio.sleep(pause_seconds)
        await pilot.pause()
        # A look costs as much as a key, and the app may wait for another process.
        pause_seconds = min(1.5 * pause_seconds, 0.1)


async def opened(pilot: Pilot[Any]) -> None:
    """Come back when the board is open."""
    await until(pilot, lambda: isinstance(pilot.app.screen, BoardScreen))


async def settled(pilot: Pilot[Any]) -> None:
    """Come back when nothing is being asked, drawn or typed."""

    def unrest() -> Iterator[object]:
        screen = pilot.app.screen
        if isinstance(screen, BoardScreen) and screen.busy:
            yield f"{screen} waits for an answer"
        yield from (each for each in pilot.app.workers if each.group not in _ENDLESS and not each.is_finished)
        if getattr(pilot.app, "_type_ahead", ()):
            yield "keys are held back"
        yield from restless(pilot.app)

    deadline, calm = time.monotonic() + DEADLINE_SECONDS, 0
    while calm < _CALM_LOOKS:
        assert time.monotonic() < deadline, f"never quiet: {[*unrest()]}; the screen says:\n{text_of(pilot.app)}"
        # `pilot.pause` sends a message to every widget in sight, which costs more than all that a key does.
        await asyncio.sleep(_LOOK_SECONDS)
        pilot.app.screen._on_timer_update()
        calm = calm + 1 if pilot.app._exit or next(unrest(), None) is None else 0
    if stop_blinking(pilot):
        await pilot.pause()


def restless(app: App[Any]) -> Iterator[object]:
    """Yield the widgets in sight that have a message or handle one.

    A key has its effect by many messages, from the field that has it up to the screen, and on a busy machine each of
    them may take its time.
    """
    screen = app.screen
    for pump in (app, *screen.walk_children(with_self=True)):
        queue: Any = pump._message_queue
        if not queue.empty() or not queue.ready_event._waiters or pump._next_callbacks:
            yield pump
    yield from screen._callbacks


def stop_blinking(pilot: Pilot[Any]) -> bool:
    """Let every cursor stand still, so that screens can be compared; return whether any did not."""
    fields = [*pilot.app.screen.query(Input), *pilot.app.screen.query(TextArea)]
    blinking = [field for field in fields if field.cursor_blink]
    for field in blinking:
        field.cursor_blink = False
    return bool(blinking)


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys, each after the last one has had its effect."""
    for key in keys:
        # `pilot.press` sends a message to every widget in sight, as `pilot.pause` does.
        await pilot.app._press_keys([key])
        await settled(pilot)


async def go_to(pilot: Pilot[Any], selector: str) -> None:
    """Give the focus to a widget."""
    pilot.app.screen.query_one(selector).focus()
    await settled(pilot)


def text_of(app: Any) -> str:
    """Return the lines of the screen, without colours and the edges of panels."""
    strips = app.screen._compositor.render_strips(app.size)
    lines = ("".join(segment.text for segment in strip).translate(_EDGES) for strip in strips)
    return "\n".join(line.rstrip() for line in lines)


def toasts(app: App[Any]) -> list[str]:
    """Return the notifications, the oldest first, as "title: message", or as their messages if they have no title."""
    return [": ".join(filter(None, (toast.title, toast.message))) for toast in app._notifications]


def footer_keys(app: App[Any]) -> list[Any]:
    """Return the keys in the last line of the screen in front."""
    return [*app.screen.query("FooterKey")]


def driven(*keys: str) -> Callable[[Pilot[Any]], Any]:
    """Return the steps before a snapshot: these keys, one after the other."""

    async def drive(pilot: Pilot[Any]) -> None:
        await settled(pilot)
        await press(pilot, *keys)

    return drive
