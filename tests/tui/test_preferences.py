"""The user's settings of the app, and what the app remembers."""

import hashlib
import json
import os
import stat
from pathlib import Path

import pytest
from textual.theme import BUILTIN_THEMES

from hpc_board.errors import StorageError
from hpc_board.tui.app import load_preferences
from hpc_board.tui.local_files import remember_sent, sent_as
from hpc_board.tui.preferences import Memory, Notify, Preferences, settings_file, state_file
from tests.tui.fake_board import ADDRESS


def loaded(folder: Path, data: bytes) -> Preferences:
    (folder / "hpc-board").mkdir()
    (folder / "hpc-board" / "app.yaml").write_bytes(data)
    return load_preferences({"XDG_CONFIG_HOME": str(folder)})


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert load_preferences({"XDG_CONFIG_HOME": str(tmp_path)}) == Preferences()


def test_a_file_says_theme_notification_and_keys(tmp_path: Path) -> None:
    text = "theme: nord\nnotify: bell\nrecords: false\nkeys:\n  run.cancel: K\n  app.quit: 'ctrl+q, f10'\n"
    found = loaded(tmp_path, text.encode())
    assert found == Preferences("nord", Notify.BELL, {"run.cancel": "K", "app.quit": "ctrl+q,f10"}, records=False)


def test_every_fault_is_told_at_once_and_the_defaults_are_used(tmp_path: Path) -> None:
    keys = "keys:\n  run.cancle: K\n  app.quit: 'hyper space'\n  submit.send: s\n  run.cancel: s\n"
    text = f"theme: norde\nnotify: loud\ncolour: red\n{keys}"
    found = loaded(tmp_path, text.encode())
    assert (found.theme, found.notify, found.keys) == ("", Notify.NONE, {})
    assert found.fault is not None
    words = str(found.fault.message)
    assert [f"line {number}:" in words for number in range(1, 9)] == [True] * 3 + [False] + [True] * 4, words
    for part in ('Did you mean "nord"', 'Did you mean "run.cancel"', "line 8: keys.run.cancel"):
        assert part in words, words
    assert "defaults" in found.fault.hint


def test_the_names_of_all_themes_leave_room_for_the_other_faults(tmp_path: Path) -> None:
    found = loaded(tmp_path, b"theme: zzz\n")
    assert found.fault is not None
    assert "^p" in found.fault.message
    assert not any(theme in found.fault.message for theme in BUILTIN_THEMES)


@pytest.mark.parametrize("data", [b"\xff\xfe", b"theme: [", b"- a\n- b\n", b"x" * 2_000_000, b"a: &a [*a]"])
def test_a_file_that_is_no_settings_file_is_a_fault_and_no_crash(tmp_path: Path, data: bytes) -> None:
    assert loaded(tmp_path, data).fault is not None


def test_the_files_are_in_the_users_folders() -> None:
    environ = {"HOME": "/home/ada", "XDG_CONFIG_HOME": "relative", "XDG_STATE_HOME": "/state"}
    assert settings_file(environ) == Path("/home/ada/.config/hpc-board/app.yaml")
    assert state_file(environ) == Path("/state/hpc-board/app.json")


def test_what_is_set_is_there_after_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "state" / "hpc-board" / "app.json"
    memory = Memory(file)
    memory.set("runs", "filter", "h100 ädä")
    memory.set("runs", "everyone", True)
    memory.set("submit", "folders", ("/a", "/b"))
    memory.set("standings", "column", 3)
    memory.flush()
    again = Memory(file)
    assert again.get("runs", "filter", "") == "h100 ädä"
    assert again.get("runs", "everyone", False) is True
    assert again.get("submit", "folders", ()) == ("/a", "/b")
    assert again.get("standings", "column", 0) == 3
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["app.json"]


def test_a_value_of_another_kind_is_the_default() -> None:
    memory = Memory()
    memory.set("runs", "limit", True)
    assert memory.get("runs", "limit", 5) == 5
    assert memory.get("runs", "limit", "") == ""
    assert memory.get("runs", "nothing", ("a",)) == ("a",)


def test_two_apps_do_not_forget_each_others_values(tmp_path: Path) -> None:
    file = tmp_path / "app.json"
    one, other = Memory(file), Memory(file)
    one.set("runs", "filter", "one")
    other.set("tasks", "filter", "other")
    one.flush()
    other.flush()
    again = Memory(file)
    assert (again.get("runs", "filter", ""), again.get("tasks", "filter", "")) == ("one", "other")


def test_a_value_that_another_program_has_written_since_is_read_again(tmp_path: Path) -> None:
    one, other = Memory(tmp_path / "app.json"), Memory(tmp_path / "app.json")
    other.set("submit", "files", ("/a",))
    other.flush()
    assert one.get("submit", "files", ()) == ()
    assert one.read_again("submit", "files", ()) == ("/a",)
    one.set("submit", "files", ("/b",))
    assert one.read_again("submit", "files", ()) == ("/b",)
    one.flush()
    assert other.read_again("submit", "files", ()) == ("/b",)


def test_files_that_two_programs_send_are_both_remembered(tmp_path: Path) -> None:
    app, command = Memory(tmp_path / "app.json"), Memory(tmp_path / "app.json")
    for memory, name in ((app, "a"), (command, "b"), (app, "c")):
        remember_sent(memory, ADDRESS, (Path(f"/{name}.py"), name.encode()))
    app.set("runs", "filter", "x")
    app.flush()
    known = Memory(tmp_path / "app.json")
    found = [sent_as(known, ADDRESS, hashlib.sha256(name.encode()).hexdigest()) for name in "abc"]
    assert found == [(Path(f"/{name}.py"),) for name in "abc"]


def test_a_path_that_cannot_be_remembered_costs_no_other_one() -> None:
    memory = Memory()
    remember_sent(memory, ADDRESS, (Path("/d.py"), b"d"), (Path("/e\x1b.py"), b"e"))
    digests = [hashlib.sha256(code).hexdigest() for code in (b"d", b"e")]
    assert [sent_as(memory, ADDRESS, digest) for digest in digests] == [(Path("/d.py"),), ()]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[1]",
        b"\xff",
        b"[" * 100_000,
        b'{"runs.filter": {"a": 1}}',
        b'{"runs.filter": ["a", 1]}',
        b'{"runs.filter": 1e999}',
        b" " * 1_100_000,
    ],
)
def test_a_damaged_state_file_is_an_empty_memory_that_can_be_written(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "app.json"
    file.write_bytes(data)
    memory = Memory(file)
    assert memory.get("runs", "filter", "none") == "none"
    assert memory.get("runs", "filter", ("none",)) == ("none",)
    memory.set("runs", "filter", "x")
    memory.flush()
    assert json.loads(file.read_text()) == {"runs.filter": "x"}


def test_a_pipe_in_the_place_of_the_state_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "app.json")
    assert Memory(tmp_path / "app.json").get("runs", "filter", "none") == "none"


def test_the_oldest_values_make_way_for_new_ones(tmp_path: Path) -> None:
    file = tmp_path / "app.json"
    memory = Memory(file)
    for number in range(500):
        memory.set("runs", f"place{number}", "x")
    memory.flush()
    again = Memory(file)
    assert [again.get("runs", f"place{number}", "") for number in (99, 100, 499)] == ["", "x", "x"]


def test_a_state_file_that_cannot_be_written_says_so_and_can_be_tried_again(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file in the way")
    memory = Memory(tmp_path / "state" / "app.json")
    memory.set("runs", "filter", "x")
    with pytest.raises(StorageError, match="cannot be written"):
        memory.flush()
    (tmp_path / "state").unlink()
    memory.flush()
    assert Memory(tmp_path / "state" / "app.json").get("runs", "filter", "") == "x"
