"""The key of the cache of names: it changes with each settings file that a command may read."""

from pathlib import Path

import click
import pytest

from hpc_board.cli import names_cache
from hpc_board.settings_file import find


def test_the_key_of_names_has_each_settings_file_in_the_order_of_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache repeats the order of the search, whose module costs each Tab more."""
    monkeypatch.chdir(tmp_path)
    system = tmp_path / "etc" / "config.yaml"
    environ = {"HPC_BOARD_CONFIG": str(tmp_path / "named.yaml"), "XDG_CONFIG_HOME": str(tmp_path / "own")}
    files = [tmp_path / "named.yaml", tmp_path / "hpc-board.yaml", tmp_path / "own" / "hpc-board" / "config.yaml"]
    monkeypatch.setattr("hpc_board.settings_file._SYSTEM_FILE", system)
    for file in (*files, system):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}\n")
    ctx = click.Context(click.Command("x"))
    for number, file in enumerate(files):
        known = names_cache._key("tasks", ctx, environ)
        file.write_text("{board: b}\n")
        assert names_cache._key("tasks", ctx, environ) != known
        found = find(None, environ, tmp_path)
        assert getattr(found, "path", found) == file
        file.unlink()
        if not number:
            del environ["HPC_BOARD_CONFIG"]
