"""Messages on a terminal of any width."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import click
import pytest

from hpc_board.cli.exits import INTERRUPTED, Program
from hpc_board.cli.output import wrapped
from tests.unit.recorded import recorded


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "30")


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("short  stays", ["short  stays"]),
        ("a line that is longer than thirty columns", ["a line that is longer than", "thirty columns"]),
        ("one\n\n  two of them, indented as a fault is", ["one", "", "  two of them, indented as a", "  fault is"]),
        ("then run `hpc-board --config here admin check`.", ["then run", "`hpc-board --config here admin check`."]),
        ("Then run: hpc-board --config here admin check", ["Then run:", "hpc-board --config here admin check"]),
        ("漢字漢字漢字 漢字漢字漢字 漢字漢字漢字", ["漢字漢字漢字 漢字漢字漢字", "漢字漢字漢字"]),
        (f"{' ' * 40}far right", [f"{' ' * 15}far right"]),
        ("/a/path/that/is/longer/than/thirty/columns", ["/a/path/that/is/longer/than/thirty/columns"]),
    ],
)
def test_a_message_is_wrapped_between_words_and_commands_stay_whole(text: str, lines: list[str]) -> None:
    assert wrapped(text).split("\n") == lines


@pytest.mark.usefixtures("terminal")
def test_the_first_line_leaves_room_for_its_label() -> None:
    assert wrapped("twenty-three columns it", 7) == "twenty-three columns it"
    assert wrapped("twenty-four columns it is", 7) == "twenty-four columns it\nis"


def test_errors_and_hints_fit_the_terminal_and_a_pipe_has_them_whole(tmp_path: Path) -> None:
    board = recorded(tmp_path)
    argv = [sys.executable, "-m", "hpc_board", "runs", "--state", "bogus"]
    piped = subprocess.run(argv, cwd=board.folder, stderr=subprocess.PIPE, text=True, check=False).stderr
    assert max(map(len, piped.splitlines())) > 200
    leader, follower = pty.openpty()
    environ = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    subprocess.run(argv, cwd=board.folder, env=environ, stderr=follower, check=False)
    os.close(follower)
    shown = b""
    while True:
        try:
            shown += os.read(leader, 4096)
        except OSError:  # the end of a terminal without a writer
            break
    os.close(leader)
    assert max(map(len, shown.decode().splitlines())) <= 80
    assert shown.decode().split() == piped.split()


def test_a_question_that_is_not_answered_with_yes_ends_as_an_interrupt_and_not_as_a_failed_kernel() -> None:
    @click.command()
    def ask() -> None:
        raise click.Abort

    with pytest.raises(SystemExit) as caught:
        Program(commands={"ask": ask}).main(["ask"])
    assert caught.value.code == INTERRUPTED
