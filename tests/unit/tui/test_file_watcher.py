"""Seeing that a file was saved."""

import os
from pathlib import Path

import pytest

from hpc_board.domain.submission import SOURCE_BYTES_MAX
from hpc_board.tui.local_files import contents
from hpc_board.tui.screens.watch import Saves


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.py"
    path.write_text("one")
    return path


def looks(saves: Saves, count: int = 1) -> tuple[Saves, list[bool]]:
    news = []
    for _ in range(count):
        saves, new = saves.look()
        news.append(new)
    return saves, news


def test_what_was_there_before_is_no_save(file: Path) -> None:
    assert looks(Saves.since_now(file), 3)[1] == [False, False, False]


def test_a_save_is_new_once_it_has_come_to_rest_and_until_it_is_dealt_with(file: Path) -> None:
    saves = Saves.since_now(file)
    file.write_text("two!")
    saves, news = looks(saves, 3)
    assert news == [False, True, True]
    assert looks(saves.handled(), 2)[1] == [False, False]


def test_a_file_that_is_still_being_written_is_waited_for(file: Path) -> None:
    saves = Saves.since_now(file)
    for text in ("tw", "two", "two!"):
        file.write_text(text)
        saves, (new,) = looks(saves)
        assert not new
    assert looks(saves)[1] == [True]


def test_the_same_contents_saved_again_are_new_only_at_the_first_save(file: Path) -> None:
    saves = Saves.since_now(file)
    os.utime(file, ns=(1, 1))
    saves, news = looks(saves, 2)
    assert news == [True, True]
    os.utime(file, ns=(2, 2))
    assert looks(saves.handled(), 2)[1] == [False, False]


def test_an_editor_that_puts_another_file_in_its_place_has_saved(file: Path) -> None:
    saves = Saves.since_now(file)
    file.unlink()
    saves, news = looks(saves, 2)
    assert news == [False, False]
    (file.parent / "new").write_text("two")
    (file.parent / "new").rename(file)
    assert looks(saves, 2)[1] == [False, True]


def test_an_empty_file_is_not_sent(file: Path) -> None:
    saves = Saves.since_now(file)
    file.write_text("")
    assert looks(saves, 3)[1] == [False, False, False]


@pytest.mark.timeout(10)
def test_what_is_no_file_to_send_has_no_contents(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as large:
        large.truncate(SOURCE_BYTES_MAX + 1)
    for name in ("missing", "pipe", "large", ".", "\0"):
        assert contents(tmp_path / name) is None
