"""Tasks that the commands of a board find in its folder, as an earlier command read them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hpc_board import bundled
from hpc_board.board import Board
from hpc_board.board.context import Installation
from hpc_board.catalog import folders, known_tasks
from hpc_board.catalog.known_tasks import TaskCache, task_called, tasks
from tests.unit.catalog.test_folders import folder_with, settled
from tests.unit.recorded import recorded


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count the task folders that are read."""
    names: list[str] = []
    really = folders.task_or_fault

    def counted(folder: Path, *rest: object) -> object:
        names.append(folder.name)
        return really(folder, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(folders, "task_or_fault", counted)
    return names


def folder_of_tasks(parent: Path) -> Path:
    made = parent / "tasks"
    made.mkdir()
    return made


def test_a_later_process_reads_no_task_that_is_as_it_was(tmp_path: Path, read: list[str]) -> None:
    place, file = bundled.folder("tasks"), tmp_path / "tasks.json"
    first = tasks([place], settled(file))
    assert len(read) == len(first.tasks)
    read.clear()
    assert tasks([place], settled(file)) == first
    assert task_called("vectoradd_py", [place], settled(file)) == first.task("vectoradd_py")
    assert read == []


def test_a_task_that_is_gone_leaves_the_file(tmp_path: Path, read: list[str]) -> None:
    place, file = folder_of_tasks(tmp_path), tmp_path / "tasks.json"
    one, two = folder_with(place, name="one"), folder_with(place, name="two")
    tasks([place], settled(file))
    two.rename(tmp_path / "two")
    assert [task.name for task in tasks([place], settled(file)).tasks] == ["one"]
    assert str(two) not in file.read_text()
    assert str(one) in file.read_text()
    assert read == ["one", "two"]


def test_one_task_is_read_and_added_to_the_others(tmp_path: Path, read: list[str]) -> None:
    place, file = folder_of_tasks(tmp_path), tmp_path / "tasks.json"
    folder_with(place, name="one")
    tasks([place], settled(file))
    folder_with(place, name="two")
    task_called("two", [place], settled(file))
    tasks([place], settled(file))
    assert read == ["one", "two"]


def shared(file: Path) -> None:
    file.chmod(0o620)


def linked(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def of_another_form(file: Path) -> None:
    file.write_text(file.read_text().replace('"language":', '"tongue":').replace('"language": ', '"tongue": '))


def of_another_version(file: Path) -> None:
    file.write_text(file.read_text().replace('{"reader":"', '{"reader":"9'))


def nested(file: Path) -> None:
    content = json.loads(file.read_text())
    content["tasks"][0][4] = "deep"
    file.write_text(json.dumps(content).replace('"deep"', "[" * 100_000 + "]" * 100_000))


def too_large(file: Path) -> None:
    with file.open("ab") as opened:
        opened.truncate(known_tasks._FILE_BYTES_MAX + 1)


@pytest.mark.parametrize("spoil", [shared, linked, pipe, cut, of_another_form, of_another_version, nested, too_large])
def test_a_file_that_cannot_be_relied_on_is_read_past_and_replaced(
    tmp_path: Path, read: list[str], spoil: Callable[[Path], object]
) -> None:
    place, file = folder_of_tasks(tmp_path), tmp_path / "tasks.json"
    folder_with(place, name="one")
    first = tasks([place], settled(file))
    spoil(file)
    assert tasks([place], settled(file)) == first
    assert tasks([place], settled(file)) == first
    assert read == ["one", "one"]


def test_a_board_without_a_folder_or_one_that_cannot_be_written_has_its_tasks(tmp_path: Path, read: list[str]) -> None:
    place = folder_of_tasks(tmp_path)
    folder_with(place, name="one")
    (tmp_path / "tasks.json").mkdir()
    for file in (tmp_path / "nowhere/tasks.json", tmp_path / "tasks.json"):
        assert [task.name for task in tasks([place], settled(file)).tasks] == ["one"]
    assert not (tmp_path / "nowhere").exists()
    assert read == ["one", "one"]


def test_tasks_beyond_the_room_of_the_file_are_read_and_it_is_not_written_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: list[str]
) -> None:
    place, file = folder_of_tasks(tmp_path), tmp_path / "tasks.json"
    folder_with(place, name="one")
    folder_with(place, name="two")
    tasks([place], settled(file))
    monkeypatch.setattr(known_tasks, "_TASKS_BYTES_MAX", file.stat().st_size * 2 // 3)
    file.unlink()
    tasks([place], settled(file))
    written = file.stat()
    read.clear()
    assert [task.name for task in tasks([place], settled(file)).tasks] == ["one", "two"]
    assert read == ["two"]
    assert file.stat() == written


def test_a_task_that_was_edited_just_now_is_not_kept(tmp_path: Path, read: list[str]) -> None:
    place, file = folder_of_tasks(tmp_path), tmp_path / "tasks.json"
    now = folder_with(place, name="one").joinpath("task.yml").stat().st_ctime
    for _ in range(2):
        tasks([place], TaskCache(lambda: now + 1, file))
    assert read == ["one", "one"]


def test_known_tasks_are_found_without_a_yaml_library(tmp_path: Path) -> None:
    place, file = bundled.folder("tasks"), tmp_path / "tasks.json"
    first = tasks([place], settled(file))
    code = """
import sys
from pathlib import Path
from hpc_board.catalog.known_tasks import TaskCache, tasks
print(*(task.version for task in tasks([Path(sys.argv[1])], TaskCache(file=Path(sys.argv[2]))).tasks))
assert not {"yaml", "dataclasses"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code, place, file], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [task.version for task in first.tasks]


def test_a_board_keeps_its_tasks_and_a_service_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_tasks, "SETTLED_SECONDS", -3_600)
    board = recorded(tmp_path).board
    board.tasks.catalog()
    assert not board.settings.board.exists()
    board.settings.board.mkdir(mode=0o700)
    served = Installation(board.settings, "ada", print, launch=lambda _: ())
    Board.seen_by("ada", served, print).tasks.catalog()
    assert list(board.settings.board.iterdir()) == []
    board.tasks.catalog()
    assert [file.name for file in board.settings.board.iterdir()] == ["tasks.json"]
