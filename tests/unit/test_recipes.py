"""The recipes for sites: of this version, and read by the programs that they are for, where these are installed."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

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
    (package,) = RECIPES.glob("spack/spack_repo/hpc_board/packages/*/package.py")
    (play,) = yaml.safe_load((RECIPES / "ansible/site.yml").read_text())
    assert (module.stem, easyconfig.stem, play["vars"]["version"]) == (
        __version__,
        f"hpc-board-{__version__}",
        __version__,
    )
    assert f"version = '{__version__}'" in easyconfig.read_text()
    assert f'version("{__version__}")' in package.read_text()
    assert f"/hpc_board-{__version__}.tar.gz" in package.read_text()
    assert f"hpc_board-{__version__}-py3-none-any.whl" in (REPOSITORY / "docs/clusters.md").read_text()


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
        echo "$XDG_DATA_DIRS"
        module unload hpc-board
        echo "$PATH" | tr : '\\n' | grep -c {tmp_path}
    """
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(["bash", "-c", script], env=environ, capture_output=True, text=True, timeout=60, check=False)
    program, completion, shown, manual, data, left = done.stdout.splitlines()
    assert (program, shown, left) == ("it runs", "1", "0"), done.stderr
    assert completion.endswith("_hpc_board_completion hpc-board")
    assert f"{root}/venv/share/man" in manual
    assert data == f"{root}/venv/share:/usr/local/share:/usr/share"


class Prefix(str):
    """A stand-in for Spack's prefixes: an attribute is a folder below."""

    __slots__ = ()

    def __getattr__(self, name: str) -> "Prefix":
        return Prefix(f"{self}/{name}")

    def join(self, name: str) -> "Prefix":  # type: ignore[override]
        return Prefix(f"{self}/{name}")


class Python:
    """A stand-in for Spack's Python: it makes environments, and its pip installs a program that tells its arguments."""

    @staticmethod
    def command(*words: str) -> None:
        if words[1] == "venv":
            subprocess.run([sys.executable, *words], check=True, capture_output=True, timeout=100)
            return
        python = Path(next(word for word in words if word.startswith("--python=")).partition("=")[2])
        assert python.exists()
        python.with_name("hpc-board").write_text(f"#!/bin/sh\necho '{' '.join(words)}'\n")
        python.with_name("hpc-board").chmod(0o755)


@pytest.fixture
def spack(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[tuple[Any, ...]]]:
    """Put a stand-in for Spack's modules where a package file imports them; return the directives that it uses."""
    used: dict[str, list[tuple[Any, ...]]] = {}

    def directive(name: str) -> Callable[..., None]:
        return lambda *words, **named: used.setdefault(name, []).append((*words, *named.items()))

    for name in ("spack", "spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    generic, package = ModuleType("generic"), ModuleType("package")
    monkeypatch.setitem(sys.modules, "spack_repo.builtin.build_systems.generic", generic)
    monkeypatch.setitem(sys.modules, "spack.package", package)
    vars(generic)["Package"] = object
    names = ("license", "version", "depends_on")
    vars(package).update({name: directive(name) for name in names}, mkdirp=os.makedirs, symlink=os.symlink)
    return used


def test_the_spack_package_makes_an_environment_and_shows_the_program_alone(
    tmp_path: Path, spack: dict[str, list[tuple[Any, ...]]]
) -> None:
    (file,) = RECIPES.glob("spack/spack_repo/*/packages/*/package.py")
    space: dict[str, Any] = {}
    exec(compile(file.read_text(), file, "exec"), space)  # noqa: S102
    repository = yaml.safe_load((file.parents[2] / "repo.yaml").read_text())["repo"]
    assert (repository["namespace"], file.parents[2].name, file.parent.name) == ("hpc_board",) * 3
    (python, pip) = spack["depends_on"]
    assert (python[0], pip[0].partition("@")[0]) == ("python@3.11:", "py-pip")
    prefix = Prefix(tmp_path)
    space["HpcBoard"]().install({"python": Python}, prefix)
    assert [file.name for file in Path(prefix.bin).iterdir()] == ["hpc-board"]
    told = subprocess.run([prefix.bin.join("hpc-board")], capture_output=True, text=True, check=True).stdout
    assert told.endswith("install --constraint=constraints.txt .\n")
