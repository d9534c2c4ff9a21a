"""The time of a call of a row: no time that processes wait makes it shorter than the work that was measured."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc_board.harness.measure.row_benchmarks import _Measured
from hpc_board.harness.processes.calls import Called

TIMES_NS = st.floats(0, 1e10)
ROW_SECONDS = 0.01


def empty_row(ran_ns: float, copying_ns: float, idle_ns: float, delay_ns: float, excused_ns: float) -> Called:
    """A row of the trusted worker: two processes ran, the processor slept, and something delayed the row."""
    wall_ns = ran_ns + copying_ns + idle_ns + delay_ns
    return Called(10, copying_ns, wall_ns, waited_ns=excused_ns, ran_ns=ran_ns + copying_ns)


EMPTY_ROWS = st.builds(empty_row, TIMES_NS, TIMES_NS, TIMES_NS, TIMES_NS, TIMES_NS)


def empty(calls: int, overhead_ns: float, worked_ns: float = 0.0) -> Called:
    """A quiet row of the trusted worker, which works for a part of its overhead."""
    return Called(calls, 0, overhead_ns, ran_ns=overhead_ns, thread_ns=worked_ns, processor_ns=worked_ns)


def measured(*rows: Called, alone: tuple[Called, ...] = (), by: tuple[Called, ...] = ()) -> _Measured:
    """The measurements of a case: rows, calls alone, and rows without a kernel."""
    found = _Measured(ROW_SECONDS, passes=[list(rows)], alone=list(alone))
    for each in by:
        found.empty.setdefault(each.calls, []).append(each)
    return found


@given(st.lists(EMPTY_ROWS, min_size=1), TIMES_NS, TIMES_NS)
def test_no_delay_of_the_trusted_worker_s_rows_takes_more_off_than_ran_in_them(
    overheads: list[Called], wall_ns: float, waited_ns: float
) -> None:
    ran_ns = min(each.ran_ns - each.claimed_ns for each in overheads)
    bound_ns = (wall_ns - waited_ns - ran_ns) / 10
    row = Called(10, 0, wall_ns, waited_ns=waited_ns)
    assert measured(by=tuple(overheads)).call_ns(row) >= bound_ns * (1 - 1e-9) - 1e-3


def test_of_a_row_that_nothing_delays_the_whole_overhead_is_taken_off() -> None:
    # The supervisor looks for the worker's stop while the worker stops, so the two run 100 us at once.
    overhead = Called(10, claimed_ns=1e4, wall_ns=4.1e5, ran_ns=5.1e5)
    assert measured(by=(overhead,)).call_ns(Called(10, 0, 4e6 + 4e5)) == pytest.approx(4e5)


def test_answers_that_are_written_out_count_with_their_cost() -> None:
    found = measured(by=(empty(1, 1e5), empty(10, 9e6)))
    assert found.call_ns(Called(10, 0, 1.2e7, by_blocks=True)) == pytest.approx(3e5)
    assert found.call_ns(Called(10, 0, 1.2e7, by_blocks=False)) == pytest.approx(1.19e6)
    del found.empty[10]
    assert found.call_ns(Called(10, 0, 1.2e7, by_blocks=True)) == pytest.approx(1.19e6)


@pytest.mark.parametrize(("kernel_ns", "share"), [(1e4, 0.005), (1e6, 0.5), (2e6, 1), (1e7, 1)])
def test_a_row_that_is_short_beside_its_overhead_has_a_part_of_it_taken_off(kernel_ns: float, share: float) -> None:
    timing = measured(Called(4, 0, kernel_ns + 5e5), by=(empty(4, 5e5), empty(1, 5e5))).timing(0)
    assert timing is not None
    assert timing.samples_ns == pytest.approx(((kernel_ns + (1 - share) * 5e5) / 4,))


def test_calls_that_were_timed_one_by_one_say_so_where_it_costs_them_time() -> None:
    short, full = (measured(Called(1, 0, wall_ns), by=(empty(1, 4e5),)) for wall_ns in (1e6, 5e6))
    assert short.note == full.note == ""
    short.one_by_one = full.one_by_one = True
    assert "one by one" in short.note
    assert full.note == ""


def test_work_that_is_unknown_in_rows_without_a_kernel_is_no_work_of_the_harness() -> None:
    row, alone = Called(10, 0, 4e6 + 4e5, processor_ns=8e6), Called(1, 0, 4.3e6)
    unknown = Called(10, 0, 4e5, ran_ns=4e5), Called(1, 0, 4e5, ran_ns=4e5)
    timing = measured(row, alone=(alone,), by=unknown).timing(0)
    assert timing is not None
    assert timing.time_ns == pytest.approx(7.6e5)


@pytest.mark.parametrize(
    ("worked_ns", "alone_ns", "time_ns", "note"),
    [
        (4e6, 4.3e6, 4e5, ""),
        (8e6, 4.1e5 + 3e5, 4e5, ""),
        (8e6, 4.3e6, 7.6e5, "back to back; the time is 95 % of the CPU time of a call, 760 µs"),
        (4.212e6, 4.3e6, 4.0014e5, ""),
        (8e6, 6e5 + 3e5, 5.7e5, "the time is 95 % of a single call, 570 µs"),
        (math.inf, 6e5 + 3e5, 5.7e5, "400 µs each back to back; the time is 95 % of a single call, 570 µs"),
    ],
)
def test_calls_that_ran_at_the_same_time_count_by_their_work_or_by_a_call_alone(
    worked_ns: float, alone_ns: float, time_ns: float, note: str
) -> None:
    row = Called(10, 0, 4e6 + 4e5, processor_ns=worked_ns + 1e5)
    found = measured(row, alone=(Called(1, 0, alone_ns),), by=(empty(1, 4e5, 1e5), empty(10, 4e5, 1e5)))
    timing = found.timing(0)
    assert timing is not None
    assert timing.time_ns == pytest.approx(time_ns)
    assert note in found.note
    assert bool(note) == bool(found.note)
