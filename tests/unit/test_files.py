"""Files: written whole, in the place that was named, and never in the place of something else; locked in turn."""

import math
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hpc_board.errors import InputError
from hpc_board.files import locked, read_bounded, take_lock, write_file, write_whole
from hpc_board.model.files import NotRegularFileError, open_regular, whole_file
from tests.unit.recorded import full_device

_WRITE = (
    "import sys; from pathlib import Path; from hpc_board.files import write_file;"
    "write_file(Path(sys.argv[1]), b'kernel', force=sys.argv[2] == 'force')"
)


@pytest.mark.parametrize("force", [False, True])
def test_a_device_of_characters_is_written_to_and_stays(tmp_path: Path, force: bool) -> None:
    # A terminal's folder takes no other files, so that code which is wrong damages nothing of this machine.
    reader, terminal = os.openpty()
    os.set_blocking(reader, False)
    link = tmp_path / "terminal"
    link.symlink_to(os.ttyname(terminal))
    try:
        write_file(link, b"kernel", force=force)
        assert os.read(reader, 100) == b"kernel"
        assert stat.S_ISCHR(link.stat().st_mode)
    finally:
        os.close(reader)
        os.close(terminal)
    assert link.is_symlink()


def test_a_device_that_is_full_is_told_and_force_is_no_remedy() -> None:
    with pytest.raises(InputError, match="No space left on device") as refusal:
        write_file(full_device(), b"kernel", force=False)
    assert "--force" not in refusal.value.hint


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("kind", ["folder", "socket"])
def test_what_is_no_file_is_never_replaced(tmp_path: Path, kind: str, force: bool) -> None:
    target = tmp_path / "target"
    if kind == "folder":
        target.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(target))
    with pytest.raises(InputError, match="is not a regular file") as refusal:
        write_file(target, b"kernel", force=force)
    assert "--force" not in refusal.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
    assert not target.is_file()


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_file(pipe, b"kernel", force=True)
        assert os.read(reader, 100) == b"kernel"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_pipe_that_nobody_reads_does_not_hold_the_command(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="cannot be written"):
        write_file(pipe, b"kernel", force=False)


@pytest.mark.parametrize(("name", "force"), [("/dev/stdout", "no"), ("/proc/self/fd/1", "force")])
def test_the_standard_output_gets_the_bytes(tmp_path: Path, name: str, force: str) -> None:
    command = [sys.executable, "-c", _WRITE, name, force]
    assert subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout == b"kernel"
    log = tmp_path / "log"
    log.write_bytes(b"earlier ")
    with log.open("ab") as file:
        subprocess.run(command, check=True, stdout=file)
        file.write(b" later")
    assert log.read_bytes() == b"earlier kernel later"


def test_force_follows_a_link_to_the_file_that_is_meant(tmp_path: Path) -> None:
    target, link = tmp_path / "folder" / "kernel.py", tmp_path / "link.py"
    target.parent.mkdir()
    target.write_bytes(b"old")
    link.symlink_to("folder/kernel.py")
    with pytest.raises(InputError, match="already exists") as refusal:
        write_file(link, b"new", force=False)
    assert "--force" in refusal.value.hint
    assert target.read_bytes() == b"old"
    write_file(link, b"new", force=True)
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert [path.name for path in target.parent.iterdir()] == ["kernel.py"]


def test_a_link_that_leads_nowhere_is_filled_by_force_alone(tmp_path: Path) -> None:
    link = tmp_path / "link.py"
    link.symlink_to("kernel.py")
    with pytest.raises(InputError, match="already exists"):
        write_file(link, b"new", force=False)
    write_file(link, b"new", force=True)
    assert link.is_symlink()
    assert (tmp_path / "kernel.py").read_bytes() == b"new"


@pytest.mark.parametrize("force", [False, True])
def test_a_link_to_itself_cannot_be_written(tmp_path: Path, force: bool) -> None:
    link = tmp_path / "link.py"
    link.symlink_to("link.py")
    with pytest.raises(InputError, match="cannot be written"):
        write_file(link, b"new", force=force)
    assert link.is_symlink()


def test_a_failure_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    target = tmp_path / "state.json"
    write_whole(target, b"old")

    def half() -> None:
        with whole_file(target) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_reader_sees_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "state.json"
    write_whole(target, b"old")
    with whole_file(target) as file:
        file.write(b"new")
        file.flush()
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize(("mode", "written"), [(0o660, 0o660), (0o600, 0o600), (None, 0o640)])
def test_a_mode_holds_whatever_the_umask_and_is_left_to_it_without_one(
    tmp_path: Path, mode: int | None, written: int
) -> None:
    target = tmp_path / "state.json"
    before = os.umask(0o027)
    try:
        write_whole(target, b"", mode=mode)
    finally:
        os.umask(before)
    assert stat.S_IMODE(target.stat().st_mode) == written


def test_an_existing_file_or_link_is_no_place_for_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("file", "link"):
        with pytest.raises(FileExistsError):
            write_whole(tmp_path / name, b"new", replace=False)
    assert (tmp_path / "file").read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"old")
    (tmp_path / "link").symlink_to("other")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "other").read_bytes() == b"old"
    assert (tmp_path / "link").read_bytes() == b"new"
    assert not (tmp_path / "link").is_symlink()


def test_a_lock_has_one_holder_at_a_time(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with locked(lock) as mine, locked(lock) as other:
        assert (mine, other) == (True, False)
    with locked(lock) as mine:
        assert mine


def test_a_shared_lock_has_several_holders_and_excludes_others(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    first, second = take_lock(lock, shared=True), take_lock(lock, shared=True)
    assert first is not None
    assert second is not None
    os.close(first)
    assert take_lock(lock) is None
    os.close(second)
    with locked(lock) as mine:
        assert mine
        assert take_lock(lock, shared=True) is None


def test_only_a_regular_file_is_a_lock(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "folder").mkdir()
    with pytest.raises(NotRegularFileError, match="pipe is not a regular file"):
        take_lock(tmp_path / "pipe")
    for name in ("link", "folder", "missing/lock"):
        with pytest.raises(OSError, match=r"symbolic links|Is a directory|No such file"):
            take_lock(tmp_path / name)


@pytest.mark.parametrize("wait_seconds", [60.0, math.inf])
def test_a_lock_is_waited_for(tmp_path: Path, wait_seconds: float) -> None:
    lock = tmp_path / "lock"
    held = take_lock(lock)
    assert held is not None
    threading.Timer(0.2, os.close, [held]).start()
    with locked(lock, wait_seconds=wait_seconds) as mine:
        assert mine


def test_the_wait_for_a_lock_has_a_limit(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with locked(lock):
        began = time.monotonic()
        with locked(lock, wait_seconds=0.2) as mine:
            assert not mine
        assert time.monotonic() - began >= 0.2


def test_a_link_in_the_place_of_a_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to("other")
    with pytest.raises(OSError, match="symbolic links"), locked(tmp_path / "lock"):
        pass
    assert not (tmp_path / "other").exists()


def test_a_link_is_read_through_only_where_it_may_be(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"0123")
    (tmp_path / "link").symlink_to("other")
    (tmp_path / "loop").symlink_to("loop")
    with open_regular(tmp_path / "link", follow=True) as file:
        assert file.read() == b"0123"
    with pytest.raises(NotRegularFileError):
        read_bounded(tmp_path / "link", 2)
    with pytest.raises(OSError, match="symbolic links") as failure:
        open_regular(tmp_path / "loop", follow=True)
    assert not isinstance(failure.value, NotRegularFileError)


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("kind", ["folder", "pipe", "socket"])
def test_what_is_no_regular_file_is_not_read(tmp_path: Path, kind: str, follow: bool) -> None:
    place = tmp_path / "state.json"
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(place))
    with pytest.raises(NotRegularFileError, match="is not a regular file"):
        open_regular(place, follow=follow)
