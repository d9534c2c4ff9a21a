"""The folder that `hpc-board task start` makes."""

import re
from pathlib import Path

import pytest

from hpc_board.catalog import workplace
from hpc_board.service.client import RemoteBoard
from tests.service import serving
from tests.unit.recorded import Recorded, call


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("heat",), {"kernel.py", "reference.py"}),
        (("matmul", "--language", "c++"), {"kernel.cpp", "reference.py", "hpc_board.h"}),
    ],
)
def test_a_folder_has_the_kernel_the_reference_and_a_guide(
    board: Recorded, words: tuple[str, ...], names: set[str]
) -> None:
    place = board.folder / "place"
    done = call(board, "task", "start", words[0], str(place), *words[1:])
    assert (done.exit_code, done.stdout) == (0, "")
    assert {path.name for path in place.iterdir()} == names | {workplace.GUIDE}
    kernel = next(iter(names & {"kernel.py", "kernel.cpp"}))
    assert (place / kernel).read_text().partition("\n")[0].endswith(f"!POPCORN leaderboard {words[0]}")
    lines = (place / workplace.GUIDE).read_text().splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 120
    assert not re.search(r"\$\w", "\n".join(lines))


def test_the_commands_of_the_guide_are_commands_for_its_kernel(
    board: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call(board, "task", "start", "heat", str(board.folder / "place")).exit_code == 0
    guide = (board.folder / "place" / workplace.GUIDE).read_text()
    monkeypatch.chdir(board.folder / "place")
    submits = re.findall(r"^ +(hpc-board submit .*)$", guide, re.MULTILINE)
    assert len(submits) == 3
    for line in submits:
        words = re.findall(r"'[^']*'|\S+", line.replace(" --wait", " --dry-run"))[1:]
        assert call(board, *(word.strip("'") for word in words)).exit_code == 0, line


def test_a_name_that_is_taken_is_left_as_it_is(board: Recorded) -> None:
    place = board.folder / "place"
    place.mkdir()
    done = call(board, "task", "start", "heat", str(place))
    assert (done.exit_code, [*place.iterdir()]) == (2, [])
    assert "already exists" in done.stderr


def test_a_folder_from_a_service_has_no_reference(board: Recorded, tmp_path: Path) -> None:
    with serving(board.board.settings, tmp_path / "service.sock"):
        remote = RemoteBoard(tmp_path / "service.sock")
        with remote.session():
            task = remote.tasks.get("heat")
    found = workplace.files(task, None, ())
    assert set(found) == {"kernel.py", workplace.GUIDE}
    assert "The board keeps the reference." in found[workplace.GUIDE]
