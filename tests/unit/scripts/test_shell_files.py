"""The man page and the completion scripts: made from the commands, and accepted by the programs that read them."""

import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

from hpc_board.cli.main import cli
from tests.unit.recorded import REPOSITORY

SHARE = REPOSITORY / "share"
MAN = SHARE / "man/man1/hpc-board.1"


def test_the_files_are_what_the_commands_say() -> None:
    made = runpy.run_path(str(REPOSITORY / "scripts" / "shell_files.py"))["shell_files"]()
    stored = {str(file.relative_to(SHARE)): file.read_text() for file in SHARE.rglob("*") if file.is_file()}
    assert stored == made, "make docs writes them anew"


def test_the_man_page_has_every_command_and_no_line_that_roff_takes_for_its_own() -> None:
    text = MAN.read_text()
    for name in cli.commands:
        assert f"\n.SS hpc\\-board {name.replace('-', chr(92) + '-')}" in text
    assert {line.split()[0] for line in text.splitlines() if line.startswith((".", "'"))} == {
        *(".TH", ".SH", ".SS", ".PP", ".TP")
    }


@pytest.mark.parametrize(
    ("shell", "name"),
    [
        ("bash", "bash-completion/completions/hpc-board"),
        ("zsh", "zsh/site-functions/_hpc-board"),
        ("fish", "fish/vendor_completions.d/hpc-board.fish"),
    ],
)
def test_a_shell_takes_its_script(shell: str, name: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    done = subprocess.run([shell, "-n", SHARE / name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_wheel_has_them() -> None:
    built = (REPOSITORY / "pyproject.toml").read_text()
    assert re.search(r'wheel\.shared-data\]\n"share" = "share"', built)
    assert Path(SHARE / "man/man1").is_dir()
