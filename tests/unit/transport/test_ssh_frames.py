"""The script for sh on a login node, and the frames of its answer; without a server."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from hpc_board.errors import SchedulerError
from hpc_board.transport import CommandMissing, Completed
from hpc_board.transport.ssh import _completed_command, _Framed, _script

BEGIN, END = "0123456789abcdef" * 2, "fedcba9876543210" * 2
SHELLS = [shell for shell in (["sh"], ["dash"], ["bash", "--posix"], ["busybox", "sh"]) if shutil.which(shell[0])]


def run(
    shell: list[str],
    *argv: str,
    environment: Mapping[str, str] | None = None,
    cwd: str | None = None,
    stdin: str = "",
    size: int = 4096,
    cut: int | None = None,
) -> Completed:
    """The command run by `shell` here, with output in parts of `size` bytes; `cut` bytes of the script are lost."""
    script = _script(argv, BEGIN, END, 30, environment, cwd, stdin)
    process = subprocess.Popen(shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(script.encode()[: None if cut is None else -cut])
        process.stdin.flush()
        if cut is not None:
            process.stdin.close()
        out, err = _Framed(BEGIN, END), _Framed(BEGIN, END)
        for stream, frame in ((process.stdout, out), (process.stderr, err)):
            while not frame.complete and (data := os.read(stream.fileno(), size)):
                frame.feed(data)
    return _completed_command(argv, "login2", out, err)


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_a_frame_comes_back_whole_from_every_sh_however_it_is_cut(shell: list[str], size: int) -> None:
    done = run(shell, sys.executable, "-c", "import sys; print(sys.argv[1]); sys.exit(3)", "it's $HOME", size=size)
    assert done == Completed(3, "it's $HOME\n", "")
    assert run(shell, "cat", stdin="%s'\n", size=size).stdout == "%s'\n"


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_the_environment_is_what_is_given_and_no_more(shell: list[str]) -> None:
    given = {"PATH": "/usr/bin:/bin", "A": "two words; $B '\""}
    assert set(run(shell, "env", environment=given).stdout.splitlines()) == {f"{name}={given[name]}" for name in given}


def test_a_program_is_looked_for_in_the_path_that_is_given(tmp_path: Path) -> None:
    with pytest.raises(CommandMissing, match="env is not in the PATH of a login shell on login2"):
        run(["sh"], "env", environment={"PATH": str(tmp_path)})
    with pytest.raises(SchedulerError, match="login2 cannot enter the folder for env"):
        run(["sh"], "env", cwd=str(tmp_path / "none"))


@pytest.mark.parametrize("cut", [12, 13, 100, 300])
def test_a_script_of_which_a_part_arrived_does_nothing(tmp_path: Path, cut: int) -> None:
    with pytest.raises(SchedulerError, match="printed the status ''"):
        run(["sh"], "touch", str(tmp_path / "done"), cut=cut)
    assert list(tmp_path.iterdir()) == []


def test_what_stands_outside_the_marks_does_not_count() -> None:
    frame = _Framed("b" * 32, "e" * 32)
    frame.feed(b"Welcome\n" + b"b" * 20 + b"\n" + b"noise" * 10_000)
    assert not frame.begun
    frame.feed(b"b" * 32 + b"\nout" + b"e" * 31 + b"x" + b"e" * 32 + b" 7\nleft behind")
    assert (frame.text, frame.status, frame.complete) == ("out" + "e" * 31 + "x", "7", True)
    assert frame.noise.startswith("Welcome\nbbb")
