"""Files of a job: written whole or not at all, and opened without trust."""

import os
import stat
from pathlib import Path

import pytest

from hpc_board.harness.files import open_regular, whole_file


def test_a_file_gets_its_name_and_its_mode_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    with whole_file(target, 0o444) as file:
        file.write(b"{}")
        assert not target.exists()
    assert (target.read_bytes(), stat.S_IMODE(target.stat().st_mode)) == (b"{}", 0o444)


def test_a_failure_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    target.write_bytes(b"old")

    def half() -> None:
        with whole_file(target) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_what_is_no_regular_file_is_not_opened(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "kernel.so"
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        (tmp_path / "other").write_bytes(b"")
        place.symlink_to("other")
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError, match=r"not a regular file|symbolic links"):
        open_regular(place)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
