"""The fair queue: which runs go now, in which order, and what the others are told."""

from hypothesis import given
from hypothesis import strategies as st

from hpc_board.domain.run import Run, RunState
from hpc_board.runs.launcher import in_fair_turns
from tests.tui.fake_board import run
from tests.values import replace


def made(number: int, user: str, state: RunState = RunState.CREATED, token: str = "") -> Run:
    return replace(run(number, state, user=user), token=token or f"hb-{number}")


def test_users_take_turns_and_the_excess_of_each_waits() -> None:
    runs = [made(1, "ada"), made(2, "ada"), made(3, "ada"), made(4, "bob"), made(5, "cy")]
    going, reasons = in_fair_turns(runs, runs, 2)
    assert [each.id for each in going] == [1, 4, 5, 2]
    assert reasons == {3: "2 runs of the same user are ahead (limit 2 at a time)"}


def test_runs_at_work_count_and_runs_of_others_do_not() -> None:
    at_work = [made(1, "ada", RunState.RUNNING), *(made(number, "bob", RunState.QUEUED) for number in range(2, 9))]
    new = [made(10, "ada"), made(11, "ada")]
    going, reasons = in_fair_turns(new, [*at_work, *new], 1)
    assert going == []
    assert reasons == {
        10: "1 run of the same user is ahead (limit 1 at a time)",
        11: "2 runs of the same user are ahead (limit 1 at a time)",
    }


def test_a_run_that_was_sent_before_is_sent_again_whatever_is_in_flight() -> None:
    again = made(1, "ada", RunState.SUBMITTING)
    going, reasons = in_fair_turns([again], [again, made(2, "ada", RunState.RUNNING)], 1)
    assert (going, reasons) == ([again], {})


def test_the_runs_of_an_array_go_together() -> None:
    array = [made(number, "ada", token=f"hb-a.{number}") for number in range(3)]
    single = made(9, "ada")
    going, reasons = in_fair_turns([*array, single], [*array, single], 2)
    assert going == array
    assert list(reasons) == [9]


def test_an_array_waits_until_there_is_room_for_all_of_it() -> None:
    array = [made(number, "ada", token=f"hb-a.{number}") for number in range(1, 4)]
    single, at_work = made(9, "ada"), made(0, "ada", RunState.RUNNING)
    going, reasons = in_fair_turns([*array, single], [at_work, *array, single], 3)
    assert (going, list(reasons)) == ([], [1, 2, 3, 9])
    going, reasons = in_fair_turns([*array, single], [at_work, *array, single], 4)
    assert (going, list(reasons)) == (array, [9])


def test_a_long_queue_changes_its_reasons_seldom() -> None:
    runs = [made(number, "ada") for number in range(1, 100)]
    _, reasons = in_fair_turns(runs, runs, 1)
    assert reasons[99] == reasons[50] == "over 10 runs of the same user are ahead (limit 1 at a time)"


STATES = st.sampled_from([RunState.CREATED, RunState.CREATED, RunState.QUEUED, RunState.RUNNING])


@given(st.lists(st.tuples(st.sampled_from("abc"), STATES), max_size=30), st.integers(1, 5))
def test_each_candidate_goes_or_has_a_reason_and_no_user_exceeds_the_limit(
    drawn: list[tuple[str, RunState]], limit: int
) -> None:
    in_flight = [made(number, user, state) for number, (user, state) in enumerate(drawn, 1)]
    candidates = [each for each in in_flight if each.state is RunState.CREATED]
    going, reasons = in_fair_turns(candidates, in_flight, limit)
    assert sorted([each.id for each in going] + list(reasons)) == [each.id for each in candidates]
    for user in "abc":
        at_work = sum(each.user == user and each.state is not RunState.CREATED for each in in_flight)
        sent = sum(each.user == user for each in going)
        assert sent <= max(0, limit - at_work)
        waits = any(in_flight[number - 1].user == user for number in reasons)
        assert not waits or at_work + sent >= limit
