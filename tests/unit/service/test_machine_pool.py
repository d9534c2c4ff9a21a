"""Machines of clients, and the turns in which a pool of threads works for them."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from hpc_board.service.machine_pool import BLAMED_TURNS, MACHINES_MAX, Crowded, MachinePool
from hpc_board.service.machines import THIS_MACHINE, machine_of
from tests.waiting import WAIT_SECONDS


class Desk:
    """A pool whose calls note their machine when they begin, and end when they are let go."""

    def __init__(self, threads: int, calls_max: int = 256) -> None:
        self.pool = MachinePool("test", threads, calls_max)
        self.begun: list[str] = []
        self.tasks: list[asyncio.Task[str]] = []
        self._begun = asyncio.Semaphore(0)
        self._go_on = threading.Semaphore(0)
        self._loop = asyncio.get_running_loop()

    async def call(self, machine: str, wanted: Callable[[], bool] = lambda: True) -> asyncio.Task[str]:
        """Have a call of this machine wait for its turn."""

        def work() -> str:
            self.begun.append(machine)
            self._loop.call_soon_threadsafe(self._begun.release)
            assert self._go_on.acquire(timeout=WAIT_SECONDS)
            return machine

        task = asyncio.ensure_future(self.pool.run(machine, work, wanted))
        self.tasks.append(task)
        await asyncio.sleep(0)
        return task

    async def calls(self, *machines: str) -> None:
        for machine in machines:
            await self.call(machine)

    async def begins(self, count: int) -> list[str]:
        """Wait until so many more calls have begun; return the machines of all that have."""
        for _ in range(count):
            await asyncio.wait_for(self._begun.acquire(), WAIT_SECONDS)
        return self.begun

    async def end(self, count: int = 1) -> None:
        """End calls, one after another, each before the next call begins."""
        for _ in range(count):
            self._go_on.release()
            await self.begins(1)

    def let_go(self, count: int) -> None:
        """End the calls that are at work, so many of them."""
        for _ in range(count):
            self._go_on.release()

    async def close(self) -> None:
        self.let_go(10_000)
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.pool.close()


@pytest.fixture
async def one() -> AsyncIterator[Desk]:
    """A pool with one thread."""
    desk = Desk(threads=1)
    yield desk
    await desk.close()


@pytest.fixture
async def four() -> AsyncIterator[Desk]:
    desk = Desk(threads=4)
    yield desk
    await desk.close()


async def test_a_machine_alone_has_all_threads(four: Desk) -> None:
    await four.calls(*["a"] * 10)
    assert await four.begins(4) == ["a"] * 4


async def test_a_machine_leaves_half_of_the_threads_to_others(four: Desk) -> None:
    await four.calls("b", *["a"] * 10)
    assert await four.begins(3) == ["b", "a", "a"]
    await four.calls("c")
    assert await four.begins(1) == ["b", "a", "a", "c"]


async def test_machines_take_turns_whatever_waits_of_each(one: Desk) -> None:
    await one.calls(*["a"] * 6, "b", "b", "c")
    await one.begins(1)
    await one.end(5)
    assert one.begun == ["a", "b", "c", "a", "b", "a"]


async def test_a_machine_that_comes_anew_has_saved_no_turns(one: Desk) -> None:
    await one.calls(*["a"] * 6)
    await one.begins(1)
    await one.end(3)
    await one.calls("b", "b", "b")
    await one.end(4)
    assert one.begun[4:] == ["b", "a", "b", "a"]


async def test_a_machine_with_blame_waits_longer_and_gets_its_turn(one: Desk) -> None:
    await one.calls("a")
    await one.begins(1)
    one.pool.blame("b")
    await one.calls("b", *["a"] * (BLAMED_TURNS + 2))
    await one.end(BLAMED_TURNS + 1)
    assert one.begun == ["a"] * BLAMED_TURNS + ["b", "a"]


async def test_a_machine_with_blame_that_is_alone_waits_for_no_other(one: Desk) -> None:
    for _ in range(100):
        one.pool.blame("a")
    await one.calls("a")
    assert await one.begins(1) == ["a"]


async def test_calls_that_wait_leave_places_for_other_machines() -> None:
    desk = Desk(threads=2, calls_max=8)
    try:
        for machine, places in (("a", 4), ("b", 2), ("c", 1), ("d", 1)):
            await desk.calls(*[machine] * places)
            with pytest.raises(Crowded):
                await desk.pool.run(machine, lambda: None, lambda: True)
        with pytest.raises(Crowded):
            await desk.pool.run("e", lambda: None, lambda: True)
        desk.let_go(8)
        await asyncio.gather(*desk.tasks)
        assert await desk.pool.run("e", lambda: 7, lambda: True) == 7
    finally:
        await desk.close()


async def test_a_caller_that_is_cancelled_keeps_its_thread_until_the_call_ends(one: Desk) -> None:
    first, second = await one.call("a"), await one.call("a")
    await one.begins(1)
    for task in (first, second):
        task.cancel()
    await asyncio.wait((first, second))
    await one.calls("b")
    assert one.begun == ["a"]
    await one.end()
    assert one.begun == ["a", "b"]


async def test_a_call_that_is_not_wanted_any_more_does_not_begin(one: Desk) -> None:
    await one.calls("a")
    gone = await one.call("a", wanted=lambda: False)
    await one.calls("a")
    await one.begins(1)
    await one.end()
    with pytest.raises(ConnectionError):
        await gone
    assert one.begun == ["a", "a"]


async def test_an_error_is_the_callers_and_the_thread_goes_on(four: Desk) -> None:
    for _ in range(10):
        with pytest.raises(ZeroDivisionError):
            await four.pool.run("a", lambda: 1 // 0, lambda: True)
    assert await four.pool.run("a", lambda: 7, lambda: True) == 7


async def test_few_machines_are_remembered_and_those_with_blame_for_the_longest_time(four: Desk) -> None:
    four.pool.blame("a")
    for number in range(2 * MACHINES_MAX):
        await four.pool.run(f"m{number}", lambda: None, lambda: True)
    assert len(four.pool._clocks) == MACHINES_MAX
    assert "a" in four.pool._clocks
    assert not four.pool._calls
    assert not four.pool._working
    assert not four.pool._waiting


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("127.0.0.1", "127.9.8.7", True),
        ("127.0.0.1", "::1", True),
        ("127.0.0.1", "::ffff:127.0.0.2", True),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("fe80::1%eth0", "fe80::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("unknown", "10.0.0.1", False),
    ],
)
def test_addresses_that_one_machine_has_at_will_are_one_machine(one: str, other: str, same: bool) -> None:
    assert (machine_of(one) == machine_of(other)) is same


def test_this_machine_is_known_by_its_loopback_addresses_alone() -> None:
    assert [machine_of(each) == THIS_MACHINE for each in ("127.0.0.1", "::1", "10.0.0.1")] == [True, True, False]
