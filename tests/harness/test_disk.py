"""The blame for a full disk: the submission's if its files account for it, else the node's."""

from pathlib import Path
from typing import Any

import pytest

from hpc_board.harness.confine import scratch
from hpc_board.harness.confine.scratch import Disk, remove

MIB = 2**20


@pytest.mark.parametrize(
    ("at_first", "now", "held", "words"),
    [
        ((500 * MIB, 9999), (0, 9999), (400 * MIB, 3), "400 MiB lie in its folder, 500 MiB were free before"),
        ((500 * MIB, 9999), (0, 9999), (200 * MIB, 3), ""),
        ((500 * MIB, 9999), (9 * MIB, 9999), (400 * MIB, 3), ""),
        ((9 * MIB, 9999), (0, 9999), (9 * MIB, 3), ""),
        ((500 * MIB, 20_000), (400 * MIB, 0), (9 * MIB, 19_000), "19000 files lie in its folder, 20000 could be made"),
        ((500 * MIB, 50), (400 * MIB, 0), (9 * MIB, 50), ""),
    ],
    ids=["filled", "others filled it", "there is room", "it was full before", "files", "few files before"],
)
def test_a_full_disk_is_the_submission_s_doing_where_its_files_account_for_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at_first: tuple[int, int],
    now: tuple[int, int],
    held: tuple[int, int],
    words: str,
) -> None:
    free: list[Any] = [at_first, now]
    monkeypatch.setattr(scratch, "_free", lambda _: free.pop(0))
    monkeypatch.setattr(scratch, "_held", lambda _: held)
    found = Disk(tmp_path).filled()
    assert words in found
    assert bool(found) is bool(words)


def test_what_lies_in_a_folder_is_counted_however_deep_and_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"1" * MIB)
    (tmp_path / "a" / "away").symlink_to("/usr")
    for depth in range(1500):
        tmp_path.joinpath(*["d"] * (depth + 1)).mkdir()
    held_bytes, held_files = scratch._held(tmp_path)
    remove(tmp_path / "d")
    assert held_files == 4 + 1500
    assert MIB <= held_bytes < 10 * MIB
