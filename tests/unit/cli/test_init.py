"""`admin init`: a board's folder with the right owner and mode, and settings that can be used at once."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hpc_board import settings
from hpc_board.cli.main import cli
from hpc_board.schedulers.slurm.detection import detected_settings
from hpc_board.settings_file import find
from tests.unit.admin.test_detect import recorded_site


def run(*argv: str, environ: Mapping[str, str] | None = None) -> Result:
    # No command of Slurm is found there.
    return CliRunner().invoke(cli, ["admin", "init", *argv], env={"PATH": "/nowhere", **(environ or {})})


def test_a_machine_without_slurm_gets_settings_that_work(tmp_path: Path) -> None:
    board, file = tmp_path / "board", tmp_path / "hpc-board.yaml"
    done = run(str(board), "-o", str(file))
    assert (done.exit_code, done.stdout) == (0, "")
    assert "No Slurm here" in done.stderr
    assert "#" not in done.stderr
    assert f"Test the GPUs: hpc-board --config {file} admin check" in done.stderr
    assert stat.S_IMODE(board.stat().st_mode) == 0o700
    read = settings.load(file, {})
    assert read.board == board
    assert "CPU" in [gpu.name for gpu in read.gpus]
    assert {cluster.scheduler for cluster in read.clusters} == {"local"}


def test_keys_that_are_commented_out_are_named(tmp_path: Path) -> None:
    sinfo = tmp_path / "sinfo"
    sinfo.write_text("#!/bin/sh\necho 'n1|gpu|up|idle|8|infinite|gpu:h100:4|(null)|'\n")
    sinfo.chmod(0o755)
    file = tmp_path / "hpc-board.yaml"
    done = run(str(tmp_path / "board"), "-o", str(file), environ={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert done.exit_code == 0, done.output
    assert "# python: " in file.read_text()
    assert f"Fill in the commented-out keys (#). Then run: hpc-board --config {file} admin check" in done.stderr


def test_settings_that_init_wrote_with_any_umask_can_be_used(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        done = run(str(tmp_path / "board"), "-o", str(tmp_path / "hpc-board.yaml"))
    finally:
        os.umask(before)
    assert done.exit_code == 0
    assert (tmp_path / "hpc-board.yaml").stat().st_mode & 0o777 == 0o644
    environ = {"HOME": str(tmp_path)}
    assert settings.load(find(None, environ, tmp_path), environ).board == tmp_path / "board"


@pytest.mark.parametrize(
    ("prepare", "argv", "words"),
    [
        (lambda board: (board.mkdir(), board.chmod(0o777)), [], "is writable by other accounts"),
        (lambda board: board.write_text(""), [], "is not a folder"),
        (lambda board: (board.parent / "hpc-board.yaml").write_text("kept"), [], "already exists"),
    ],
    ids=["open", "file", "settings"],
)
def test_what_cannot_be_made_is_refused_and_leaves_nothing(
    tmp_path: Path, prepare: object, argv: list[str], words: str
) -> None:
    board, file = tmp_path / "board", tmp_path / "hpc-board.yaml"
    assert callable(prepare)
    prepare(board)
    before = sorted(tmp_path.rglob("*"))
    done = run(str(board), *argv, "-o", str(file))
    assert done.exit_code == 2
    assert words in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_the_settings_of_a_cluster_name_the_board(tmp_path: Path) -> None:
    path = tmp_path / "hpc-board.yaml"
    strange = '/shared/my "board": # 1'
    for board in ("/shared/kernels", strange):
        path.write_text(detected_settings(recorded_site("typed"), board=board).text)
        assert settings.load(path, {}).board == Path(board)
