"""The recipes for sites: of this version, and read by the programs that they are for, where these are installed."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from hpc_board import __version__
from hpc_board.service.units import system_unit
from tests.unit.recorded import REPOSITORY

RECIPES = REPOSITORY / "recipes"
LMOD = Path("/usr/share/lmod/lmod/init/bash")


def test_the_recipes_are_of_this_version() -> None:
    (module,) = RECIPES.glob("lmod/hpc-board/*.lua")
    (easyconfig,) = RECIPES.glob("easybuild/*.eb")
    (play,) = yaml.safe_load((RECIPES / "ansible/site.yml").read_text())
    assert (module.stem, easyconfig.stem, play["vars"]["version"]) == (
        __version__,
        f"hpc-board-{__version__}",
        __version__,
    )
    assert f"version = '{__version__}'" in easyconfig.read_text()
    assert f"hpc_board-{__version__}-py3-none-any.whl" in (REPOSITORY / "docs/recipes.md").read_text()


def test_the_playbook_writes_the_unit_that_the_command_shows() -> None:
    (play,) = yaml.safe_load((RECIPES / "ansible/site.yml").read_text())
    written = (RECIPES / "ansible/hpc-board.service.j2").read_text()
    for name in ("board", "root", "account"):
        written = written.replace(f"{{{{ {name} }}}}", play["vars"][name])
    root, board = play["vars"]["root"], play["vars"]["board"]
    command = [f"{root}/venv/bin/hpc-board", "--config", f"{board}-service/hpc-board.yaml", "serve"]
    path = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    assert written == system_unit(Path(board), command, path, play["vars"]["account"])


@pytest.mark.skipif(not LMOD.exists(), reason="Lmod is not installed here (`apt-get install lmod`)")
def test_the_module_shows_the_program_alone_and_leaves_nothing_behind(tmp_path: Path) -> None:
    text = next(RECIPES.glob("lmod/hpc-board/*.lua")).read_text()
    modules, root = tmp_path / "modules" / "hpc-board", tmp_path / "apps" / __version__
    modules.mkdir(parents=True)
    (modules / f"{__version__}.lua").write_text(text.replace("/opt/apps/hpc-board", str(tmp_path / "apps")))
    (root / "bin").mkdir(parents=True)
    (root / "bin/hpc-board").write_text("#!/bin/sh\necho it runs\n")
    (root / "bin/hpc-board").chmod(0o755)
    completions = root / "venv/share/bash-completion/completions"
    completions.mkdir(parents=True)
    (completions / "hpc-board").write_bytes((REPOSITORY / "share/bash-completion/completions/hpc-board").read_bytes())
    script = f"""
        source {LMOD}
        module use {modules.parent}
        module load hpc-board && hpc-board && complete -p hpc-board
        echo "$PATH" | tr : '\\n' | grep -c {tmp_path}
        echo "$MANPATH"
        module unload hpc-board
        echo "$PATH" | tr : '\\n' | grep -c {tmp_path}
    """
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(["bash", "-c", script], env=environ, capture_output=True, text=True, timeout=60, check=False)
    program, completion, shown, manual, left = done.stdout.splitlines()
    assert (program, shown, left) == ("it runs", "1", "0"), done.stderr
    assert completion.endswith("_hpc_board_completion hpc-board")
    assert f"{root}/venv/share/man" in manual
