"""Threads that work for machines by turns, so that a flood from one of them keeps no other waiting."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

BLAMED_TURNS = 8
"""The number of turns that a machine without blame has before the next one of a machine with blame."""

MACHINES_MAX = 1_000
"""The number of machines whose last turn is remembered."""


class Crowded(Exception):
    """A machine has as many calls in the pool as may wait there."""


class _Call(NamedTuple):
    """A call that waits; `result` is done already if its caller has been cancelled."""

    work: Callable[[], Any]
    wanted: Callable[[], bool]
    result: "asyncio.Future[Any]"


class MachinePool:
    """A pool of `threads` threads, where `calls_max` calls may be at one time.

    A machine has half of the threads at most while another one is here. The turns are those of fair queueing: the
    machine is next whose own clock is the earliest. A turn moves it by one, and blame by more; the clock of a machine
    that comes anew is that of the last turn. All methods belong to the event loop's thread.
    """

    def __init__(self, name: str, threads: int, calls_max: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._threads = threads
        self._calls_max = calls_max
        self._calls: Counter[str] = Counter()
        self._working: Counter[str] = Counter()
        self._waiting: dict[str, deque[_Call]] = {}
        self._now = 0
        self._clocks: dict[str, int] = {}

    async def run(self, machine: str, work: Callable[[], T], wanted: Callable[[], bool]) -> T:
        """Return the result of `work` from a thread.

        Raises:
            Crowded: the machine has as many calls here as there are free places, so that others find one.
            ConnectionError: the result was not `wanted` any more at the call's turn.
        """
        if self._calls[machine] >= self._calls_max - self._calls.total():
            raise Crowded
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._calls[machine] += 1
        self._waiting.setdefault(machine, deque()).append(_Call(work, wanted, result))
        self._begin()
        return await result

    def blame(self, machine: str) -> None:
        """Have a machine wait longer for its next turn, if others wait too."""
        self._set_clock(machine, max(self._clock(machine), self._now + BLAMED_TURNS))

    def close(self) -> None:
        """Let the calls in threads end."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _begin(self) -> None:
        """Begin as many calls as there are threads for."""
        while self._working.total() < self._threads:
            most = self._threads if len(self._calls) == 1 else max(1, self._threads // 2)
            ready = [machine for machine in self._waiting if self._working[machine] < most]
            if not ready:
                return
            machine = min(ready, key=self._clock)
            call = self._waiting[machine].popleft()
            if not self._waiting[machine]:
                del self._waiting[machine]
            if call.result.done() or not call.wanted():
                _count_down(self._calls, machine)
                if not call.result.done():
                    call.result.set_exception(ConnectionResetError("the client has gone"))
                continue
            self._now = self._clock(machine)
            self._set_clock(machine, self._now + 1)
            self._working[machine] += 1
            # The thread goes on if the caller is cancelled, and so does its turn.
            ended = partial(self._tell_end, asyncio.get_running_loop(), machine, call)
            self._pool.submit(call.work).add_done_callback(ended)

    def _tell_end(self, loop: asyncio.AbstractEventLoop, machine: str, call: _Call, working: "Future[Any]") -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(self._ended, machine, call, working)

    def _ended(self, machine: str, call: _Call, working: "Future[Any]") -> None:
        for counter in (self._calls, self._working):
            _count_down(counter, machine)
        error = working.exception()
        if not call.result.done():
            if error is None:
                call.result.set_result(working.result())
            else:
                call.result.set_exception(error)
        self._begin()

    def _clock(self, machine: str) -> int:
        return max(self._now, self._clocks.get(machine, 0))

    def _set_clock(self, machine: str, clock: int) -> None:
        self._clocks[machine] = clock
        if len(self._clocks) > MACHINES_MAX:
            del self._clocks[min(self._clocks, key=self._clock)]


def _count_down(counter: Counter[str], machine: str) -> None:
    counter[machine] -= 1
    if not counter[machine]:
        del counter[machine]
