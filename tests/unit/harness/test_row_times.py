"""The time of a call of a row: no time that processes wait makes it shorter than the work that was measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc_board.harness.measure.row_benchmarks import _Measured, _Row
from hpc_board.harness.processes.calls import Called

TIMES_NS = st.floats(0, 1e10)


def empty(ran_ns: float, copying_ns: float, idle_ns: float, delay_ns: float, excused_ns: float) -> Called:
    """A row of the trusted worker: two processes ran, the processor slept, and something delayed the row."""
    wall_ns = ran_ns + copying_ns + idle_ns + delay_ns
    return Called(10, copying_ns, wall_ns, waited_ns=excused_ns, ran_ns=ran_ns + copying_ns)


EMPTY_ROWS = st.builds(empty, TIMES_NS, TIMES_NS, TIMES_NS, TIMES_NS, TIMES_NS)


def call_ns(row: Called, overheads: list[Called]) -> float:
    return _Measured(row_overhead_ns={10: [each.empty_ns for each in overheads]}).call_ns(row)


@given(st.lists(EMPTY_ROWS, min_size=1), TIMES_NS, TIMES_NS)
def test_no_delay_of_the_trusted_worker_s_rows_takes_more_off_than_ran_in_them(
    overheads: list[Called], wall_ns: float, waited_ns: float
) -> None:
    ran_ns = min(each.ran_ns - each.claimed_ns for each in overheads)
    bound_ns = (wall_ns - waited_ns - ran_ns) / 10
    assert call_ns(Called(10, 0, wall_ns, waited_ns=waited_ns), overheads) >= bound_ns * (1 - 1e-9) - 1e-3


def test_of_a_row_that_nothing_delays_the_whole_overhead_is_taken_off() -> None:
    # The supervisor looks for the worker's stop while the worker stops, so the two run 100 us at once.
    overhead = Called(10, claimed_ns=1e4, wall_ns=4.1e5, ran_ns=5.1e5)
    assert call_ns(Called(10, 0, 1e6 + 4e5), [overhead]) == pytest.approx(1e5)


def test_an_overhead_that_includes_the_description_of_outputs_is_no_row_s_of_addresses() -> None:
    measured = _Measured(row_overhead_ns={1: [1e5], 10: [9e6]})
    assert measured.call_ns(Called(10, 0, 1e7, by_address=True)) == pytest.approx(1e5)
    del measured.row_overhead_ns[10]
    assert measured.call_ns(Called(10, 0, 1e7, by_address=True)) == pytest.approx(9.9e5)
    assert measured.call_ns(Called(10, 0, 1e7, by_address=False)) == pytest.approx(9.9e5)


@pytest.mark.parametrize(("calls", "wanted", "fullness"), [(1, 1, 1), (1, 2, 1), (5, 10, 1), (1, 10, 0.1), (30, 10, 1)])
def test_a_row_with_few_of_its_calls_has_as_much_of_the_overhead_taken_off(
    calls: int, wanted: int, fullness: float
) -> None:
    row = _Row(Called(calls, 0, 1e6), wanted)
    assert row.fullness == pytest.approx(fullness)
    measured = _Measured(row_overhead_ns={calls: [5e5]}, passes=[[row]])
    timing = measured.timing(0)
    assert timing is not None
    assert timing.samples_ns == pytest.approx(((1e6 - fullness * 5e5) / calls,))


def test_calls_that_were_timed_one_by_one_say_so_where_it_costs_them_time() -> None:
    short, full = ([[_Row(Called(1, 0, 1e6), wanted)]] for wanted in (10, 1))
    assert "one by one" in _Measured(passes=short, one_by_one=True).note
    assert _Measured(passes=full, one_by_one=True).note == _Measured(passes=short).note == ""


@pytest.mark.parametrize(
    ("alone_ns", "note"), [(6.0e5, "a call alone took 200 µs, a call in a row 50.0 µs"), (5.5e5, "")]
)
def test_a_case_whose_time_is_that_of_its_calls_alone_says_so(alone_ns: float, note: str) -> None:
    rows = [[_Row(Called(10, 0, 9e5), 10)]]
    measured = _Measured(row_overhead_ns={1: [4e5], 10: [4e5]}, passes=rows, alone=[Called(1, 0, alone_ns)])
    timing = measured.timing(0)
    assert timing is not None
    assert timing.median_ns == pytest.approx(8e4 if note else 5e4)
    assert measured.note.startswith(note)
    assert bool(measured.note) == bool(note)
