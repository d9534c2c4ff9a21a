from datetime import timedelta

import pytest

from hpc_board.domain.clock import span_of, span_option, span_words


@pytest.mark.parametrize(
    ("text", "seconds"), [("30m", 1800), ("1h30m", 5400), ("90s", 90), ("1w2d", 777_600), ("0m", 0)]
)
def test_a_length_of_time_is_read_in_its_units(text: str, seconds: int) -> None:
    assert span_of(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "30", "soon", "m", "1.5h", "-3m", "3 m", "1h30", "٣m"])
def test_a_text_without_units_is_no_length_of_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not a length of time"):
        span_of(text)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0 s"),
        (0.9, "0 s"),
        (45, "45 s"),
        (60, "1 min"),
        (1443, "24 min 3 s"),
        (5400, "1 h 30 min"),
        (3601, "1 h 1 s"),
        (3600 * 10**30, f"{10**30} h"),
    ],
)
def test_a_length_of_time_is_told_to_the_second(seconds: float, words: str) -> None:
    assert span_words(seconds) == words


@pytest.mark.parametrize("text", ["0s", "45s", "24m3s", "1h30m", "1h1s"])
def test_a_length_of_time_is_written_as_users_give_it(text: str) -> None:
    assert span_option(span_of(text).total_seconds()) == text
