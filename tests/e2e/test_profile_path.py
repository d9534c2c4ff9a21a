"""A profile through the command line, on the embedded scheduler."""

from pathlib import Path

from tests.e2e.boards import RIGHT, WRONG, board_files


def test_a_profile_is_shown_and_enters_no_board(tmp_path: Path) -> None:
    board = board_files(tmp_path, slurm=False)
    done = board.run("submit", board.kernel(RIGHT), "--mode", "profile", "--wait")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Passed: 1 benchmark." in done.stdout
    shown = board.json("run", "1")
    assert (shown["state"], shown["verdict"], shown["score_s"], shown["rank"]) == ("finished", "pass", None, None)
    assert shown["stopped"] == ""
    assert "the call " in shown["profile"]
    assert shown["profile"].splitlines()[0] in board.run("run", "1").stdout
    assert board.json("show", "double")["boards"][0]["rows"] == []
    wrong = board.run("submit", board.kernel(WRONG), "--mode", "profile", "--wait")
    assert wrong.returncode == 1
