"""Files of this machine, and by a real OpenSSH server: written whole, ensured, removed, and read with care."""

import gc
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from hpc_board.model.files import NotRegularFileError
from hpc_board.transport import RENEW_SECONDS, Files, draft_of
from hpc_board.transport.sudo import SharedFiles

DATA = os.urandom(200_000)
CONTENTS = {"job.sh": b"#!/bin/bash\n", "task/deep/reference.py": b"x = 1\n", "harness.pyz": os.urandom(400_000)}


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def names(files: Files, folder: Path) -> set[str]:
    return {entry.name for entry in files.entries(folder)}


# Folders


def test_a_folder_appears_whole_with_what_lies_below_it(files: Files, tmp_path: Path) -> None:
    folder = tmp_path / "board" / "runs" / "1-hb-0123"
    files.write_folder(folder, CONTENTS)
    assert files_in(folder) == CONTENTS
    assert folder.stat().st_mode & 0o777 == (0o770 if isinstance(files, SharedFiles) else 0o700)
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_folder_that_is_there_stays_as_it_is(files: Files, tmp_path: Path) -> None:
    files.write_folder(tmp_path / "1", {"job.sh": b"first"})
    files.write_folder(tmp_path / "1", {"job.sh": b"second"})
    assert files_in(tmp_path / "1") == {"job.sh": b"first"}


def test_a_folder_that_cannot_be_written_says_why_and_leaves_nothing(files: Files, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"Not a directory|Failure"):
        files.write_folder(tmp_path / "file" / "runs" / "1", CONTENTS)
    with pytest.raises(OSError, match=r"exists|Failure"):
        files.write_folder(tmp_path / "1", {"a": b"", "./a": b""})
    assert {path.name for path in tmp_path.iterdir()} - {"home"} == {"file"}


def test_what_an_interrupted_attempt_left_is_removed(files: Files, tmp_path: Path) -> None:
    draft = draft_of(tmp_path / "board" / "1", CONTENTS)
    (draft / "task").mkdir(parents=True)
    (draft / "task" / "half").write_text("x")
    (draft / "task" / "link").symlink_to(tmp_path)
    files.write_folder(tmp_path / "board" / "1", CONTENTS)
    assert files_in(tmp_path / "board") == {f"1/{name}": data for name, data in CONTENTS.items()}


def test_a_link_in_the_place_of_the_draft_is_not_followed(files: Files, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "kept").touch()
    draft_of(tmp_path / "1", CONTENTS).symlink_to("other")
    with pytest.raises(OSError, match=r"exists|Failure"):
        files.write_folder(tmp_path / "1", CONTENTS)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["kept"]


@pytest.mark.parametrize("name", ["../x", "task/../../x", "/tmp/x", "", ".", "task/a\nb"])
def test_a_path_that_leads_out_of_a_folder_writes_nothing(files: Files, tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError, match="is not a path below 1"):
        files.write_folder(tmp_path / "1", {"job.sh": b"x", name: b"x"})
    assert {path.name for path in tmp_path.iterdir()} <= {"home"}
    assert not (tmp_path.parent / "x").exists()


def test_the_draft_s_name_needs_the_contents() -> None:
    folder, contents = Path("/board/runs/1"), {"job.json": b"a secret", "job.sh": b""}
    names = [
        draft_of(folder, other).name
        for other in (contents, {**contents, "job.json": b"another"}, {"job.json": b"a secret", "job.s": b"h"})
    ]
    assert len(set(names)) == 3
    assert all(name.startswith(".1.") for name in names)


def test_a_file_appears_whole_and_a_folder_goes_with_an_empty_one_above(files: Files, tmp_path: Path) -> None:
    folder = tmp_path / "checks" / "1"
    (folder / "deep").mkdir(parents=True)
    (tmp_path / "kept").touch()
    (folder / "deep" / "link").symlink_to(tmp_path)
    files.write(folder / "answer.json", b"first")
    files.write(folder / "answer.json", b"{}")
    assert (folder / "answer.json").read_bytes() == b"{}"
    assert names(files, folder) == {"answer.json", "deep"}
    with pytest.raises(OSError, match="No such file"):
        files.write(folder / "none" / "answer.json", b"")
    with pytest.raises(FileNotFoundError):
        files.entries(folder / "none")
    (tmp_path / "checks" / "2").mkdir()
    files.remove_folder(folder)
    assert names(files, tmp_path / "checks") == {"2"}
    files.remove_folder(tmp_path / "checks" / "2")
    files.remove_folder(tmp_path / "checks" / "2")
    assert names(files, tmp_path) - {"home"} == {"kept"}


def test_folders_are_listed_and_measured_without_links(files: Files, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    files.write_folder(folder / "1", {"job.sh": b"12345", "task/deep/a": b"123"})
    (folder / "file").write_bytes(b"1")
    (folder / "2").symlink_to(folder / "1")
    (folder / "1" / "out").symlink_to("/")
    (tmp_path / "link").symlink_to(folder)
    assert [entry.name for entry in files.entries(folder) if entry.is_folder] == ["1"]
    assert len(files.entries(folder, most=1)) == 1
    with pytest.raises(NotADirectoryError):
        files.entries(tmp_path / "link")
    with pytest.raises(FileNotFoundError):
        files.entries(tmp_path / "none")
    (folder / "1" / "out").unlink()
    assert files.bytes_in(folder / "1") == 8
    files.remove_folder(folder / "1", alone=True)
    assert names(files, folder) == {"file", "2"}


# Reading


@pytest.mark.parametrize("size", [0, 10, 40_000, 1_000_000])
def test_the_beginning_or_the_end_of_a_file_is_read_with_one_byte_more_where_there_is_one(
    files: Files, tmp_path: Path, size: int
) -> None:
    path, data = tmp_path / "log", os.urandom(size)
    path.write_bytes(data)
    for limit in (0, 4, 35_000, 2_000_000):
        assert files.read(path, limit) == data[: limit + 1]
        assert files.read(path, limit, end=True) == (data[-limit:] if limit else b"")


def test_the_regular_files_of_a_folder_have_their_sizes_and_links_and_folders_none(
    files: Files, tmp_path: Path
) -> None:
    folder = tmp_path / "profile"
    (folder / "deep").mkdir(parents=True)
    (folder / "report").write_bytes(DATA)
    (folder / "link").symlink_to(folder / "report")
    os.mkfifo(folder / "pipe")
    sizes = {entry.name: entry.size for entry in files.entries(folder)}
    assert sizes == {"report": len(DATA), "deep": None, "link": None, "pipe": None}


def test_a_part_of_a_file_is_read_unless_the_file_or_its_folder_is_a_link(files: Files, tmp_path: Path) -> None:
    folder = tmp_path / "profile"
    folder.mkdir()
    (folder / "report").write_bytes(DATA)
    (folder / "link").symlink_to(folder / "report")
    (tmp_path / "other").symlink_to(folder)
    assert files.read(folder / "report", 1000, start=5) == DATA[5:1006]
    assert files.read(folder / "report", 1000, start=199_990) == DATA[199_990:]
    assert files.read(folder / "report", 1000, start=300_000) == b""
    with pytest.raises(NotRegularFileError):
        files.read(folder / "link", 1000)
    with pytest.raises(NotADirectoryError):
        files.read(tmp_path / "other" / "report", 1000)


@pytest.mark.parametrize("kind", ["folder", "link", "pipe", "device"])
def test_what_is_no_regular_file_is_told_and_leaves_nothing_open(files: Files, tmp_path: Path, kind: str) -> None:
    place = tmp_path / "result.json"
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "link":
        (tmp_path / "other").write_text("{}")
        place.symlink_to("other")
    else:
        place = Path("/dev/null")
    assert not files.is_file(place)
    gc.collect()  # sessions of earlier tests
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with pytest.raises(NotRegularFileError, match="is not a regular file"):
            files.read(place, 100)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_file_is_there_or_not(files: Files, tmp_path: Path) -> None:
    (tmp_path / "progress.jsonl").touch()
    assert files.is_file(tmp_path / "progress.jsonl")
    assert not files.is_file(tmp_path / "result.json")
    with pytest.raises(FileNotFoundError):
        files.read(tmp_path / "result.json", 100)


# Files that are ensured, and removed when they are old


def aged(path: Path, seconds: float) -> Path:
    """Set the time of a file to so many seconds ago."""
    at = time.time() - seconds
    os.utime(path, (at, at), follow_symlinks=False)
    return path


def age(path: Path) -> float:
    return time.time() - path.stat().st_mtime


def test_a_file_that_misses_appears_whole_in_a_folder_for_this_account(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "board" / "harness" / "a.pyz"
    assert files.ensure(path, DATA)
    assert path.read_bytes() == DATA
    assert path.parent.stat().st_mode & 0o777 == (0o750 if isinstance(files, SharedFiles) else 0o700)
    assert [each.name for each in path.parent.iterdir()] == ["a.pyz"]


def test_a_way_over_a_folder_that_misses_as_well_is_made(files: Files, tmp_path: Path) -> None:
    assert files.ensure(tmp_path / "board" / "runs" / ".." / "harness" / "a.pyz", DATA)
    assert sorted(each.name for each in (tmp_path / "board").iterdir()) == ["harness", "runs"]


def test_a_file_that_is_there_is_not_written_again(files: Files, tmp_path: Path) -> None:
    files.ensure(tmp_path / "a", b"first")
    assert not files.ensure(tmp_path / "a", b"other")
    assert (tmp_path / "a").read_bytes() == b"first"


def test_the_time_of_a_file_in_use_is_renewed_once_a_day(files: Files, tmp_path: Path) -> None:
    files.ensure(tmp_path / "a", DATA)
    aged(tmp_path / "a", RENEW_SECONDS - 60)
    assert not files.ensure(tmp_path / "a", DATA)
    assert age(tmp_path / "a") > RENEW_SECONDS / 2
    aged(tmp_path / "a", RENEW_SECONDS + 60)
    assert files.ensure(tmp_path / "a", DATA)
    assert age(tmp_path / "a") < 60


def test_a_part_of_the_file_or_a_link_is_replaced(files: Files, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(DATA)
    (tmp_path / "part").write_bytes(DATA[:-1])
    (tmp_path / "link").symlink_to("other")
    for name in ("part", "link"):
        assert files.ensure(tmp_path / name, DATA[::-1])
        assert not (tmp_path / name).is_symlink()
        assert (tmp_path / name).read_bytes() == DATA[::-1]
    assert (tmp_path / "other").read_bytes() == DATA


def test_many_that_put_it_at_once_leave_it_whole_and_nothing_beside(files: Files, tmp_path: Path) -> None:
    path, wrong = tmp_path / "harness" / "a", []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            if path.exists() and path.read_bytes() != DATA:
                wrong.append("a part of the file")

    looking = threading.Thread(target=look)
    putting = [threading.Thread(target=files.ensure, args=(path, DATA)) for _ in range(6)]
    for thread in (looking, *putting):
        thread.start()
    for thread in putting:
        thread.join()
    done.set()
    looking.join()
    assert (wrong, [each.name for each in path.parent.iterdir()]) == ([], ["a"])


def test_a_file_is_listed_with_its_age_and_removed(files: Files, tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    aged(tmp_path / "old", 100)
    (entry,) = (each for each in files.entries(tmp_path) if each.name == "old")
    assert 99 < time.time() - entry.modified_at < 160
    files.remove(tmp_path / "old")
    assert "old" not in names(files, tmp_path)
    with pytest.raises(FileNotFoundError):
        files.remove(tmp_path / "old")


# Renaming


def test_a_file_gets_another_name_and_folder(files: Files, tmp_path: Path) -> None:
    files.write_folder(tmp_path / "runner", {"queue/1": DATA, "taken/0": b""})
    files.rename(tmp_path / "runner" / "queue" / "1", tmp_path / "runner" / "taken" / "1")
    assert (tmp_path / "runner" / "taken" / "1").read_bytes() == DATA
    assert names(files, tmp_path / "runner" / "queue") == set()


def test_a_file_that_is_renamed_already_is_told_from_one_that_cannot_be_renamed(files: Files, tmp_path: Path) -> None:
    (tmp_path / "1").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileNotFoundError):
        files.rename(tmp_path / "0", tmp_path / "1")
    with pytest.raises(FileNotFoundError):
        files.rename(tmp_path / "1", tmp_path / "none" / "1")
    with pytest.raises(OSError, match=r"Is a directory|Failure") as told:
        files.rename(tmp_path / "1", tmp_path / "folder")
    assert not isinstance(told.value, FileNotFoundError)
    assert (tmp_path / "1").exists()


def test_one_of_two_clients_that_rename_a_file_at_once_has_it(files: Files, files_again: Files, tmp_path: Path) -> None:
    places = {place: tmp_path / place for place in ("queue", "taken", "withdrawn")}
    for folder in places.values():
        folder.mkdir()
    numbers = [str(number) for number in range(100)]
    for number in numbers:
        (places["queue"] / number).touch()
    won: dict[str, list[str]] = {"taken": [], "withdrawn": []}
    both = threading.Barrier(2)

    def rename(client: Files, place: str) -> None:
        for number in numbers:
            both.wait()
            with suppress(FileNotFoundError):
                client.rename(places["queue"] / number, places[place] / number)
                won[place].append(number)

    clients = [(files, "taken"), (files_again, "withdrawn")]
    renaming = [threading.Thread(target=rename, args=client) for client in clients]
    for thread in renaming:
        thread.start()
    for thread in renaming:
        thread.join()
    assert sorted(won["taken"] + won["withdrawn"]) == sorted(numbers)
    for place, own in won.items():
        assert {path.name for path in places[place].iterdir()} == set(own)
