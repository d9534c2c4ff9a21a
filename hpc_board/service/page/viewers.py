"""Viewers of live pages: a look at the board after each pass and write, and an event for each whose page changed."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from typing import TypeVar

from hpc_board.errors import BoardError
from hpc_board.service.page.pages import PageMark, Pages
from hpc_board.service.page.views import Content

T = TypeVar("T")

GONE = b"event: gone\ndata:\n\n"
"""The event for a page that does not exist any more, or is not for the viewer any more."""

REST = b"event: rest\ndata:\n\n"
"""The event at the planned end of a stream: the browser connects again."""

_PAUSE_SECONDS = 0.1


class Viewers:
    """The viewers of live pages. After `start`, all methods but `look` belong to the event loop's thread.

    `may_read` tells whether the account of a uid may still read pages; it may take long, and is called in any thread.
    """

    def __init__(self, pages: Pages, pool: Executor, log: Callable[..., None], may_read: Callable[[int], bool]) -> None:
        self._pages = pages
        self._pool = pool
        self._log = log
        self._may_read = may_read
        self._told: dict[str, str] = {}
        self._viewers: set[_Viewer] = set()
        self._looked: PageMark | None = None
        # True after a new viewer has come, whose page may be older than the last look.
        self._newcomers = False
        self._looking = False
        self._wanted = False
        self._asking = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._viewers)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send events in this loop."""
        self._loop = loop

    def look(self) -> None:
        """Look for changes, if any page has a viewer; called after each pass and each write, from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._begin)

    def close(self) -> None:
        """End all streams."""
        for viewer in self._viewers:
            viewer.end()
        for task in self._tasks:
            task.cancel()

    async def events(
        self, path: str, first: Content, version: str, uid: int | None, beat_seconds: float, stream_seconds: float
    ) -> AsyncGenerator[bytes, None]:
        """Yield the events of the page at `path`, which is now `first`, to a viewer who has its `version`.

        An empty comment comes after `beat_seconds` without an event. The stream ends after `stream_seconds`, or once
        the account `uid` may not read any more; None is a viewer without an account.
        """
        viewer = _Viewer(path, first, version, uid)
        self._viewers.add(viewer)
        self._newcomers = True
        loop = asyncio.get_running_loop()
        end = loop.time() + stream_seconds
        try:
            yield b": hpc-board\n\n"
            while not viewer.ended:
                for event in viewer.take():
                    yield event
                left = end - loop.time()
                if viewer.gone or left <= 0:
                    break
                try:
                    async with asyncio.timeout(min(beat_seconds, left)):
                        await viewer.changed.wait()
                except TimeoutError:
                    yield b":\n\n"
            if not viewer.gone:
                yield REST
        finally:
            self._viewers.discard(viewer)

    def _begin(self) -> None:
        self._wanted = True
        if self._viewers and not self._looking:
            self._looking = True
            self._go(self._look())
        if not self._asking and (uids := {viewer.uid for viewer in self._viewers if viewer.uid is not None}):
            self._asking = True
            self._go(self._send_away(uids))

    def _go(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_away(self, uids: Collection[int]) -> None:
        """End the streams of those of these accounts that may not read any more."""
        problem = ""
        try:
            # Apart from the looks, which no slow directory of users may delay.
            barred = await asyncio.get_running_loop().run_in_executor(
                None, lambda: {uid for uid in uids if not self._may_read(uid)}
            )
            for viewer in self._viewers:
                if viewer.uid in barred:
                    viewer.see(None)
        except Exception as error:  # noqa: BLE001 - a fault of the service is told to its log alone
            problem = repr(error)
        finally:
            self._asking = False
        self._tell("readers", "fault", problem)

    async def _look(self) -> None:
        """Look once, and again for later writes; with a pause, so that many writes make few looks."""
        try:
            while self._wanted and self._viewers:
                self._wanted = False
                await self._look_once()
                await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            self._looking = False

    async def _look_once(self) -> None:
        event, problem = "", ""
        try:
            await self._show_changes()
        except BoardError as error:
            event, problem = "page failed", error.message
        except Exception as error:  # noqa: BLE001 - a fault of the service is told to its log alone
            event, problem = "fault", repr(error)
        self._tell("pages", event, problem)

    def _tell(self, of: str, event: str, problem: str) -> None:
        """Log a problem, unless it is the same as at the look before."""
        if problem and problem != self._told.get(of):
            self._log(event, route="events", problem=problem)
        self._told[of] = problem

    async def _show_changes(self) -> None:
        mark = await self._in_thread(self._pages.mark)
        if mark == self._looked and not self._newcomers:
            return
        # Without a mark, the next look reads the pages again if this one fails.
        self._looked, self._newcomers = None, False
        paths = {viewer.path for viewer in self._viewers}
        found, failure = await self._in_thread(lambda: self._read(paths))
        for viewer in self._viewers:
            if viewer.path in found:
                viewer.see(found[viewer.path])
        if failure is not None:
            raise failure
        self._looked = mark

    def _read(self, paths: Iterable[str]) -> tuple[dict[str, Content | None], Exception | None]:
        """Return the pages that can be read, and the last failure of the others."""
        found: dict[str, Content | None] = {}
        failure: Exception | None = None
        with self._pages.session():
            for path in paths:
                try:
                    found[path] = self._pages.get(path)
                except Exception as error:  # noqa: BLE001 - told in the log, once the other pages are read
                    failure = error
        return found, failure

    async def _in_thread(self, what: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, what)


class _Viewer:
    """A browser of the account `uid` that shows the page at `path`: the version that it has, and the newest content."""

    def __init__(self, path: str, newest: Content, version: str, uid: int | None) -> None:
        self.path = path
        self.uid = uid
        self.changed = asyncio.Event()
        self.gone = False
        self.ended = False
        self._newest = newest
        self._has = version
        self._shown: Mapping[str, str] = {}

    def see(self, content: Content | None) -> None:
        """Note the newest content; None if the page does not exist any more, or is not for the viewer."""
        if content is None:
            self.gone = True
        else:
            self._newest = content
        if self.gone or content is None or content.version != self._has:
            self.changed.set()

    def end(self) -> None:
        """End the stream."""
        self.ended = True
        self.changed.set()

    def take(self) -> list[bytes]:
        """Return the events that bring the browser from the version that it has to the newest one."""
        self.changed.clear()
        if self.gone:
            return [GONE]
        events: list[bytes] = []
        parts = {part.id: part.html for part in self._newest.parts}
        if self._newest.version != self._has:
            for id_, html in parts.items():
                if self._shown.get(id_) != html:
                    data = json.dumps({"id": id_, "html": html, "parts": len(parts)})
                    events.append(f"event: part\ndata: {data}\n\n".encode())
            events.append(f"event: version\ndata: {self._newest.version}\n\n".encode())
        self._has, self._shown = self._newest.version, parts
        return events
