"""Files of this machine: folders appear whole, and what a job left is read with care."""

import os
from pathlib import Path

import pytest

from hpc_board.files import NotRegularFileError
from hpc_board.transport import draft_of
from hpc_board.transport.local_files import LocalFiles


def test_a_folder_appears_whole_with_what_lies_below_it(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "1"
    LocalFiles().write_folder(folder, {"job.sh": b"#!", "task/reference.py": b"x = 1"})
    assert (folder / "task" / "reference.py").read_bytes() == b"x = 1"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.parent.iterdir()] == ["1"]


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    LocalFiles().write_folder(tmp_path / "1", {"job.sh": b"first"})
    LocalFiles().write_folder(tmp_path / "1", {"job.sh": b"second"})
    assert (tmp_path / "1" / "job.sh").read_bytes() == b"first"


def test_a_folder_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="exists"):
        LocalFiles().write_folder(tmp_path / "1", {"a": b"", "./a": b""})
    assert list(tmp_path.iterdir()) == []


def test_what_an_interrupted_attempt_left_is_removed(tmp_path: Path) -> None:
    draft = draft_of(tmp_path / "1", {"a": b"1"})
    draft.mkdir()
    (draft / "half").touch()
    LocalFiles().write_folder(tmp_path / "1", {"a": b"1"})
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == ["1", "1/a"]


def test_a_link_in_the_place_of_the_draft_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "kept").touch()
    draft_of(tmp_path / "1", {"a": b"1"}).symlink_to("other")
    with pytest.raises(OSError, match="exists"):
        LocalFiles().write_folder(tmp_path / "1", {"a": b"1"})
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["kept"]


def test_the_draft_s_name_needs_the_contents() -> None:
    folder, contents = Path("/board/runs/1"), {"job.json": b"a secret", "job.sh": b""}
    names = [
        draft_of(folder, other).name
        for other in (contents, {**contents, "job.json": b"another"}, {"job.json": b"a secret", "job.s": b"h"})
    ]
    assert len(set(names)) == 3
    assert all(name.startswith(".1.") for name in names)


def test_the_beginning_or_the_end_of_a_file_is_read_with_one_byte_more_where_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"0123456789")
    assert LocalFiles().read(path, 4) == b"01234"
    assert LocalFiles().read(path, 4, end=True) == b"6789"
    assert LocalFiles().read(path, 100) == b"0123456789"


@pytest.mark.parametrize("kind", ["folder", "link", "pipe", "device"])
def test_what_is_no_regular_file_is_told_and_leaves_nothing_open(tmp_path: Path, kind: str) -> None:
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
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with pytest.raises(NotRegularFileError, match="is no regular file"):
            LocalFiles().read(place, 100)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert not LocalFiles().is_file(place)


def test_a_file_is_there_or_not(tmp_path: Path) -> None:
    (tmp_path / "progress.jsonl").touch()
    assert LocalFiles().is_file(tmp_path / "progress.jsonl")
    assert not LocalFiles().is_file(tmp_path / "result.json")


def test_a_file_appears_whole_and_a_folder_goes_with_an_empty_one_above(tmp_path: Path) -> None:
    files, folder = LocalFiles(), tmp_path / "checks" / "1"
    (folder / "deep").mkdir(parents=True)
    (tmp_path / "kept").touch()
    (folder / "deep" / "link").symlink_to(tmp_path)
    files.write(folder / "answer.json", b"first")
    files.write(folder / "answer.json", b"{}")
    assert (folder / "answer.json").read_bytes() == b"{}"
    assert files.names(folder) == {"answer.json", "deep"}
    with pytest.raises(OSError, match="No such file"):
        files.write(folder / "none" / "answer.json", b"")
    with pytest.raises(FileNotFoundError):
        files.names(folder / "none")
    (tmp_path / "checks" / "2").mkdir()
    files.remove_folder(folder)
    assert files.names(tmp_path / "checks") == {"2"}
    files.remove_folder(tmp_path / "checks" / "2")
    files.remove_folder(tmp_path / "checks" / "2")
    assert files.names(tmp_path) - {"home"} == {"kept"}
