"""The pauses between questions to schedulers."""

import fcntl
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from hpc_board.errors import SchedulerError, SchedulerRefused
from hpc_board.model.gpu import Availability, Cluster, Device, Gpu
from hpc_board.runs.backoff import Backoff, ProgressCache, SharedPause
from hpc_board.runs.clusters import Answer, shared_answer
from hpc_board.schedulers.slurm.refusals import query_failed
from hpc_board.transport import Completed
from tests.values import replace

AT = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
H100 = Gpu("H100", Cluster("main", "slurm"), Device.CUDA, partition="gpu")
A100 = replace(H100, name="A100")


def pause(backoff: Backoff) -> float:
    """The seconds that have to pass after `AT` until the scheduler may be asked, to a tenth."""
    return next(tenths / 10 for tenths in range(10_000) if backoff.due(AT + timedelta(seconds=tenths / 10)))


def test_nobody_has_asked_yet(tmp_path: Path) -> None:
    backoff = Backoff(tmp_path / "asked", 10)
    assert backoff.due(AT)
    assert backoff.asked_at is None
    backoff.settle(news=True)
    assert backoff.asked_at is None


def test_all_clients_share_one_pause(tmp_path: Path) -> None:
    Backoff(tmp_path / "asked", 10).begin(AT)
    other = Backoff(tmp_path / "asked", 10)
    assert other.asked_at == AT
    assert pause(other) == 10


def test_pauses_grow_while_nothing_is_new_and_are_short_again_afterwards(tmp_path: Path) -> None:
    backoff = Backoff(tmp_path / "asked", 10)
    pauses = []
    for _ in range(12):
        backoff.begin(AT)
        backoff.settle(news=False)
        pauses.append(pause(backoff))
    assert 10 <= pauses[0] <= 20
    assert 32 <= pauses[-1] <= 40
    assert len(set(pauses[6:])) > 1, "pauses that are all alike make boards ask at the same moment"
    backoff.settle(news=True)
    assert pause(backoff) == 10


def test_the_shortest_pause_holds_whatever_the_file_says(tmp_path: Path) -> None:
    file = tmp_path / "asked"
    Backoff(file, 1).begin(AT)
    assert pause(Backoff(file, 10)) == 10
    file.write_text(file.read_text().replace('"seconds":1}', '"seconds":1e9}'))
    assert pause(Backoff(file, 10)) == 40


def test_a_controller_that_asks_for_less_is_left_alone_for_longer_and_longer(tmp_path: Path) -> None:
    backoff, now = Backoff(tmp_path / "asked", 10), AT
    rests = []
    for _ in range(6):
        backoff.begin(now)
        backoff.fail(now, 0, throttled=True)
        rests.append(next(second for second in range(1000) if not backoff.rests(now + timedelta(seconds=second))))
        now += timedelta(seconds=rests[-1])
    assert rests == [30, 30, 60, 120, 240, 480]
    backoff.settle(news=False)
    assert not backoff.rests(now)


def test_a_rest_after_hours_without_a_question_is_a_short_one(tmp_path: Path) -> None:
    backoff = Backoff(tmp_path / "asked", 10)
    backoff.begin(AT - timedelta(hours=3))
    backoff.settle(news=True)
    # Questions about free GPUs begin no pause.
    for minutes in (0, 1):
        now = AT + timedelta(minutes=minutes)
        backoff.fail(now, 0, throttled=True)
        assert backoff.silent_since == AT
        assert not backoff.rests(now + timedelta(seconds=60))


def test_no_answer_of_a_pass_ends_the_rest_that_another_client_began_meanwhile(tmp_path: Path) -> None:
    poller, other = Backoff(tmp_path / "asked", 10), Backoff(tmp_path / "asked", 10)
    poller.begin(AT)
    other.fail(AT + timedelta(seconds=1), 0, throttled=True)
    poller.settle(news=False)
    assert other.rests(AT + timedelta(seconds=30))
    assert not other.rests(AT + timedelta(seconds=31))
    assert other.silent_since is None
    # A question that was due before the rest began.
    other.fail(AT + timedelta(seconds=40), 0, throttled=True)
    poller.begin(AT + timedelta(seconds=40))
    assert other.rests(AT + timedelta(seconds=69))


def test_a_rest_that_begins_while_a_pass_notes_its_answers_is_not_lost(tmp_path: Path) -> None:
    together, times = threading.Barrier(2, timeout=60), [AT + timedelta(hours=number) for number in range(200)]

    def passes() -> None:
        for at in times:
            together.wait()
            backoff = Backoff(tmp_path / "asked", 10)
            backoff.begin(at)
            backoff.settle(news=True)
            together.wait()

    def others() -> list[bool]:
        rests = []
        for at in times:
            together.wait()
            backoff = Backoff(tmp_path / "asked", 10)
            backoff.fail(at, 0, throttled=True)
            together.wait()
            rests.append(backoff.rests(at))
        return rests

    with ThreadPoolExecutor(2) as clients:
        clients.submit(passes)
        assert all(clients.submit(others).result())


def test_who_was_silent_is_left_alone_for_four_times_as_long_and_no_more_than_ten_minutes(tmp_path: Path) -> None:
    backoff = Backoff(tmp_path / "asked", 10)
    for seconds, until in ((0.0, 0), (15.0, 60), (1e9, 600)):
        backoff.begin(AT - timedelta(seconds=seconds))
        backoff.fail(AT, seconds)
        assert pause(backoff) >= max(10, until)
        assert pause(backoff) <= max(40, until)
        assert backoff.rests(AT + timedelta(seconds=until - 0.1)) is (until > 0)
        assert not backoff.rests(AT + timedelta(seconds=until))
    over = AT + timedelta(seconds=600)
    backoff.begin(over)
    assert not backoff.rests(over)
    assert backoff.due(over + timedelta(seconds=40))


def test_a_silence_lasts_from_the_first_question_in_vain_to_the_next_answer(tmp_path: Path) -> None:
    backoff, other = Backoff(tmp_path / "asked", 10), Backoff(tmp_path / "asked", 10)
    backoff.begin(AT)
    backoff.settle(news=False)
    assert other.silent_since is None
    for minutes in (1, 5, 9):
        backoff.begin(AT + timedelta(minutes=minutes))
        backoff.fail(AT + timedelta(minutes=minutes, seconds=5), 5)
        assert other.silent_since == AT + timedelta(minutes=1)
    other.begin(AT + timedelta(minutes=11))
    assert backoff.silent_since == AT + timedelta(minutes=1)
    other.settle(news=False)
    assert backoff.silent_since is None


def test_a_clock_that_was_set_back_puts_nothing_off(tmp_path: Path) -> None:
    backoff = Backoff(tmp_path / "asked", 10)
    backoff.begin(AT + timedelta(hours=1))
    assert backoff.due(AT)


@pytest.mark.parametrize(
    "text",
    ["", "no", "[]", "{}", '{"pause": {"at": "x", "seconds": 1}}', '{"pause": {"at": 1, "seconds": NaN}}', "[" * 9000],
)
def test_a_file_that_says_nothing_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "asked").write_text(text)
    assert Backoff(tmp_path / "asked", 10).due(AT)
    assert Backoff(tmp_path / "asked", 10).asked_at is None


def test_what_stays_the_same_far_away_is_looked_at_less_and_less_often() -> None:
    clock, there, looked = [0.0], [b"1"], [0.0]
    progress = ProgressCache(lambda: clock[0])

    def look() -> bytes:
        looked.append(clock[0])
        return there[0]

    def until(seconds: int) -> list[float]:
        looked.clear()
        while clock[0] < seconds:
            assert progress.at(7, look) in (b"1", b"2")
            clock[0] += 0.5
        return [later - earlier for earlier, later in pairwise(looked)]

    pauses = until(60)
    assert (pauses[0], pauses[-1]) == (1.0, 5.0)
    assert pauses == sorted(pauses)
    there[0] = b"2"
    assert min(until(80)) == 1.0
    assert progress.at(8, lambda: b"another run's") == b"another run's"


def test_what_was_seen_far_away_takes_no_more_and_more_memory() -> None:
    progress = ProgressCache(lambda: 0.0)
    for number in range(10_000):
        progress.at(number, lambda: b"x")
    assert len(progress._seen) <= 2000


@dataclass
class Asked:
    """A scheduler that counts what it is asked, and has one more GPU free each time."""

    error: SchedulerError | None = None
    questions: list[Sequence[Gpu]] = field(default_factory=list)

    def __call__(self, gpus: Sequence[Gpu]) -> list[Availability]:
        self.questions.append(gpus)
        if self.error is not None:
            raise self.error
        return [Availability(gpu.name, len(self.questions), 8, 0, "up") for gpu in gpus]


def free(answer: Answer) -> list[int | None]:
    return [each.free for each in answer.available]


def test_twenty_clients_ask_what_is_free_once(tmp_path: Path) -> None:
    asked, together = Asked(), threading.Barrier(20)

    def client(_: int) -> Answer:
        together.wait()
        return shared_answer(tmp_path / "free", 600, [H100, A100], asked, lock_seconds=60)

    with ThreadPoolExecutor(20) as clients:
        answers = list(clients.map(client, range(20)))
    assert len(asked.questions) == 1
    assert all(answer == answers[0] for answer in answers)
    assert free(answers[0]) == [1, 1]


def test_what_is_free_is_asked_again_once_it_is_old(tmp_path: Path) -> None:
    asked = Asked()
    shared = partial(shared_answer, tmp_path / "free", 0)
    assert [free(shared([H100], asked)) for _ in range(3)] == [[1], [2], [3]]


def test_a_clock_that_was_set_back_makes_no_answer_last(tmp_path: Path) -> None:
    shared, asked = partial(shared_answer, tmp_path / "free", 600), Asked()
    answer = shared([H100], asked)
    text = (tmp_path / "free").read_text()
    (tmp_path / "free").write_text(text.replace(f"{answer.asked_at:%Y}", f"{answer.asked_at.year + 1}"))
    assert free(shared([H100], asked)) == [2]


def test_other_settings_have_answers_of_their_own(tmp_path: Path) -> None:
    shared, asked = partial(shared_answer, tmp_path / "free", 600), Asked()
    elsewhere = replace(H100, partition="other")
    for _ in range(3):
        assert free(shared([H100], asked)) == [1]
        assert free(shared([elsewhere], asked)) == [2]


def test_that_nobody_answers_is_shared_too(tmp_path: Path) -> None:
    asked = Asked(SchedulerError("sinfo did not answer within 60 s"))
    shared = partial(shared_answer, tmp_path / "free", 600)
    answers = [shared([H100, A100], asked) for _ in range(2)]
    assert [answer.problem for answer in answers] == ["sinfo did not answer within 60 s"] * 2
    assert free(answers[1]) == [None, None]
    assert len(asked.questions) == 1


def test_a_site_that_hides_its_nodes_is_asked_once_and_the_last_numbers_stay(tmp_path: Path) -> None:
    first = shared_answer(tmp_path / "free", 0, [H100], Asked())
    denied = Completed(1, "", "slurm_load_node: Access/permission denied")
    asked = Asked(query_failed("sinfo", denied, "main"))
    shared_answer(tmp_path / "free", 0, [H100], asked)
    answers = [shared_answer(tmp_path / "free", 600, [H100], asked) for _ in range(5)]
    assert len(asked.questions) == 1
    assert {(answer.known_at, *free(answer)) for answer in answers} == {(first.known_at, 1)}


def test_without_an_answer_the_last_known_numbers_keep_their_time(tmp_path: Path) -> None:
    asked = Asked()
    shared = partial(shared_answer, tmp_path / "free", 0)
    first = shared([H100], asked)
    asked.error = SchedulerError("sinfo did not answer within 2 s")
    for _ in range(2):
        later = shared([H100], asked)
        assert (free(later), later.problem) == ([1], "sinfo did not answer within 2 s")
        assert later.known_at == first.known_at == first.asked_at < later.asked_at


def test_that_there_is_no_scheduler_here_is_told_to_nobody_else(tmp_path: Path) -> None:
    shared = partial(shared_answer, tmp_path / "free", 600)
    with pytest.raises(SchedulerRefused, match="no sinfo"):
        shared([H100], Asked(SchedulerRefused("no sinfo")))
    assert free(shared([H100], Asked())) == [1]


def test_a_client_that_asks_for_long_holds_nobody_up(tmp_path: Path) -> None:
    asked = Asked()
    shared = partial(shared_answer, tmp_path / "free", 0, lock_seconds=0)
    with (tmp_path / "free.lock").open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(SchedulerError, match="another client has been querying free GPUs"):
            shared([H100], asked)
    first = shared([H100], asked)
    with (tmp_path / "free.lock").open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert shared([H100], asked) == first


@pytest.mark.parametrize("change", ["", "no", "[]", '"A100"', "9e999", "[" * 9000])
def test_an_answer_that_cannot_be_read_is_none(tmp_path: Path, change: str) -> None:
    shared, asked = partial(shared_answer, tmp_path / "free", 600), Asked()
    shared([H100], asked)
    text = (tmp_path / "free").read_text()
    (tmp_path / "free").write_text(text.replace('"H100"', change))
    assert free(shared([H100], asked)) == [2]
    (tmp_path / "free").write_text(change)
    assert free(shared([H100], asked)) == [3]


@pytest.mark.parametrize(("begun_seconds", "pause_seconds"), [(0, 0), (5, 5), (600, 60)])
def test_a_shared_pause_ends_and_is_no_longer_than_the_longest(
    tmp_path: Path, begun_seconds: float, pause_seconds: int
) -> None:
    assert SharedPause(tmp_path / "scanned", 60).is_over(AT)
    SharedPause(tmp_path / "scanned", 60).begin(AT, begun_seconds)
    other = SharedPause(tmp_path / "scanned", 60)
    assert next(seconds for seconds in range(100) if other.is_over(AT + timedelta(seconds=seconds))) == pause_seconds
    assert other.is_over(AT - timedelta(hours=1)), "a clock that was set back prolongs nothing"


@pytest.mark.parametrize("text", ["", "soon", "nan", "inf", "1e400", "9" * 5000, "\xff"])
def test_a_file_without_a_pause_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "scanned").write_bytes(text.encode("latin-1"))
    assert SharedPause(tmp_path / "scanned", 60).is_over(AT)


def test_a_pipe_in_the_place_of_a_file_counts_as_none_and_holds_no_client(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "asked")
    assert Backoff(tmp_path / "asked", 10).due(AT)
    assert SharedPause(tmp_path / "asked", 60).is_over(AT)
