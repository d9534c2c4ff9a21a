"""How often schedulers are asked."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from hpc_board.asking import Asking, Looks

AT = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def pause(asking: Asking) -> float:
    """The seconds that have to pass after `AT` until the scheduler may be asked, to a tenth."""
    return next(tenths / 10 for tenths in range(10_000) if asking.due(AT + timedelta(seconds=tenths / 10)))


def test_nobody_has_asked_yet(tmp_path: Path) -> None:
    asking = Asking(tmp_path / "asked", 10)
    assert asking.due(AT)
    assert asking.asked_at is None
    asking.settle(news=True)
    assert asking.asked_at is None


def test_all_clients_share_one_pause(tmp_path: Path) -> None:
    Asking(tmp_path / "asked", 10).begin(AT)
    other = Asking(tmp_path / "asked", 10)
    assert other.asked_at == AT
    assert pause(other) == 10


def test_pauses_grow_while_nothing_is_new_and_are_short_again_afterwards(tmp_path: Path) -> None:
    asking = Asking(tmp_path / "asked", 10)
    pauses = []
    for _ in range(12):
        asking.begin(AT)
        asking.settle(news=False)
        pauses.append(pause(asking))
    assert 10 <= pauses[0] <= 15
    assert 32 <= pauses[-1] <= 40
    assert len(set(pauses[6:])) > 1, "pauses that are all alike make boards ask at the same moment"
    asking.settle(news=True)
    assert pause(asking) == 10


def test_the_shortest_pause_holds_whatever_the_file_says(tmp_path: Path) -> None:
    file = tmp_path / "asked"
    Asking(file, 1).begin(AT)
    assert pause(Asking(file, 10)) == 10
    file.write_text(file.read_text().replace('"pause_seconds": 1,', '"pause_seconds": 1e9,'))
    assert pause(Asking(file, 10)) == 40


def test_who_was_silent_is_left_alone_for_four_times_as_long_and_no_more_than_ten_minutes(tmp_path: Path) -> None:
    asking = Asking(tmp_path / "asked", 10)
    for seconds, until in ((0.0, 0), (15.0, 60), (1e9, 600)):
        asking.begin(AT - timedelta(seconds=seconds))
        asking.fail(AT, seconds)
        assert pause(asking) >= max(10, until)
        assert pause(asking) <= max(40, until)
        assert asking.rests(AT + timedelta(seconds=until - 0.1)) is (until > 0)
        assert not asking.rests(AT + timedelta(seconds=until))
    asking.begin(AT)
    assert not asking.rests(AT)
    assert pause(asking) <= 40


def test_patience_of_one_never_waits_longer(tmp_path: Path) -> None:
    asking = Asking(tmp_path / "asked", 10, patience=1)
    for _ in range(3):
        asking.begin(AT)
        asking.settle(news=False)
    assert pause(asking) == 10


def test_a_clock_that_was_set_back_puts_nothing_off(tmp_path: Path) -> None:
    asking = Asking(tmp_path / "asked", 10)
    asking.begin(AT + timedelta(hours=1))
    assert asking.due(AT)


@pytest.mark.parametrize(
    "text", ["", "no", "[]", "{}", '{"at": "x", "pause_seconds": 1}', '{"at": 1, "pause_seconds": NaN}', "[" * 9000]
)
def test_a_file_that_says_nothing_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "asked").write_text(text)
    assert Asking(tmp_path / "asked", 10).due(AT)
    assert Asking(tmp_path / "asked", 10).asked_at is None


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        Asking(tmp_path / "none" / "asked", 10).begin(AT)


def test_what_stays_the_same_far_away_is_looked_at_less_and_less_often() -> None:
    clock, there, looked = [0.0], [b"1"], [0.0]
    looks = Looks(lambda: clock[0])

    def look() -> bytes:
        looked.append(clock[0])
        return there[0]

    def until(seconds: int) -> list[float]:
        looked.clear()
        while clock[0] < seconds:
            assert looks.at(7, look) in (b"1", b"2")
            clock[0] += 0.5
        return [later - earlier for earlier, later in pairwise(looked)]

    pauses = until(60)
    assert (pauses[0], pauses[-1]) == (1.0, 5.0)
    assert pauses == sorted(pauses)
    there[0] = b"2"
    assert min(until(80)) == 1.0
    assert looks.at(8, lambda: b"another run's") == b"another run's"


def test_what_was_seen_far_away_takes_no_more_and_more_memory() -> None:
    looks = Looks(lambda: 0.0)
    for number in range(1000):
        looks.at(number, lambda: b"x")
    assert len(looks._seen) <= 100
