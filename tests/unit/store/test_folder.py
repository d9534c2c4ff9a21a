"""The folder of a board: only this account's, or every command refuses it and says how to move in."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hpc_board.accounts import user_name
from hpc_board.errors import InputError, StorageError
from hpc_board.model.result import Verdict
from hpc_board.store.folder import check_own, create_board_folder, make_board_folder
from tests.unit.recorded import Recorded, recorded, result_of, timed_case
from tests.unit.users import NEEDS_ROOT


@pytest.fixture
def board(tmp_path: Path) -> Recorded:
    """A board with a run."""
    made = recorded(tmp_path)
    made.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-5)
    return made


def of_another(folder: Path) -> str:
    os.chown(folder, 61001, -1)
    return f"belongs to {user_name(61001)}"


def open_to_all(folder: Path) -> str:
    folder.chmod(0o777)
    return f"{folder} is writable by other accounts"


def open_to_a_group(folder: Path) -> str:
    os.chown(folder, -1, 61001)
    folder.chmod(0o770)
    return f"{folder} is writable by other accounts"


def with_a_foreign_database(folder: Path) -> str:
    os.chown(folder / "board.db", 61001, -1)
    return f"board.db belongs to {user_name(61001)}"


def with_open_database(folder: Path) -> str:
    (folder / "board.db").chmod(0o666)
    return "board.db is writable by other accounts"


@pytest.mark.parametrize(
    "change",
    [
        open_to_all,
        with_open_database,
        *(pytest.param(each, marks=NEEDS_ROOT) for each in (of_another, open_to_a_group, with_a_foreign_database)),
    ],
    ids=lambda each: each.__name__,
)
def test_every_command_refuses_a_board_that_others_may_write(board: Recorded, change: Callable[[Path], str]) -> None:
    folder = board.board.settings.board
    words = change(folder)
    hint = f"hpc-board admin init FOLDER --serve --from {folder}"
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    for argv in (
        ("runs",),
        ("list",),
        ("show", "vectoradd_py"),
        ("run", "1"),
        ("gpus",),
        ("poll",),
        ("submit", "kernel.py", "--task", "vectoradd_py", "--gpu", "CPU"),
        ("admin", "backup", "copy.db"),
        ("admin", "restore", "copy.db", "--yes"),
        ("admin", "check", "--no-job"),
        ("admin", "log"),
        ("admin", "init", folder, "-o", "new.yaml"),
        ("admin", "init", folder, "--serve", "--user", user_name(os.geteuid())),
        ("serve", "--socket", board.folder / "board.sock", "--allow-root"),
    ):
        done = board.hpc_board(*argv)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), (argv, done.stderr)
        assert f"{words}, and a board belongs to one account" in done.stderr, argv
        assert hint in done.stderr, argv
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    examined = board.hpc_board("admin", "doctor")
    assert (examined.returncode, words in examined.stdout) == (3, True), examined.stdout
    assert not (board.folder / "new.yaml").exists()


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755, 0o2700])
def test_a_folder_of_this_account_is_a_board_in_any_other_mode(board: Recorded, mode: int) -> None:
    board.board.settings.board.chmod(mode)
    assert board.hpc_board("runs").returncode == 0


def test_a_folder_that_others_may_write_is_closed_by_the_command_of_the_hint(board: Recorded) -> None:
    folder = board.board.settings.board
    folder.chmod(0o1777)
    refused = board.hpc_board("runs")
    assert f"chmod go-w {folder}" in refused.stderr
    folder.chmod(0o1755)
    assert board.hpc_board("runs").returncode == 0


@pytest.mark.parametrize("private", [True, False])
def test_the_private_group_of_this_account_may_write_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private: bool
) -> None:
    tmp_path.chmod(0o775)
    group = tmp_path.stat().st_gid
    monkeypatch.setattr("hpc_board.accounts.private_group", lambda _: group if private else None)
    if private:
        check_own(tmp_path)
    else:
        with pytest.raises(StorageError, match="is writable by other accounts"):
            check_own(tmp_path)


def test_a_folder_that_is_missing_or_a_file_is_not_foreign(tmp_path: Path) -> None:
    check_own(tmp_path / "missing" / "board")
    (tmp_path / "file").touch()
    check_own(tmp_path / "file")
    assert create_board_folder(tmp_path / "new" / "board")
    assert not create_board_folder(tmp_path / "new" / "board")
    with pytest.raises(StorageError, match="cannot be created"):
        make_board_folder(tmp_path / "file" / "board")


def test_no_board_is_made_in_a_folder_that_submissions_read() -> None:
    with pytest.raises(InputError, match=r"^/sys/board is in /sys, which submissions can read\.$") as caught:
        create_board_folder(Path("/sys/board"))
    assert caught.value.hint == "Choose another folder for the board, e.g. /srv/hpc-board."
