"""The tutorial, followed from an empty board to its last command: what it shows is what is printed."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.installation import install
from tests.pages import comparable, pattern_of
from tests.slurm.lab import SlurmLab
from tests.unit.recorded import REPOSITORY

HERE, _, ON_A_CLUSTER = (REPOSITORY / "docs" / "tutorial.md").read_text(encoding="utf-8").partition("## On a cluster")
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
Step = tuple[str, str, str]
"""A command, the output that the tutorial shows, and the one that was printed."""


@dataclass(frozen=True)
class Follower:
    """A user who types the commands of the tutorial in a folder, with a board that is empty at first."""

    folder: Path
    installation: Path

    def follow(self, page: str, environ: Mapping[str, str] | None = None) -> Iterator[Step]:
        """The commands of `page`, typed one after the other; its kernels go into `kernel.py`."""
        for language, body in BLOCK.findall(page):
            if language == "python":
                (self.folder / "kernel.py").write_text(body)
                continue
            for shown in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, _, output = shown.partition("\n")
                yield command, output, self._printed(command, environ or os.environ)

    def _printed(self, command: str, environ: Mapping[str, str]) -> str:
        program, *words = shlex.split(command)
        assert program == "hpc-board"
        kept = {name: value for name, value in environ.items() if not name.startswith(("HPC_BOARD_", "XDG_"))}
        done = subprocess.run(
            [sys.executable, "-m", "hpc_board", *words],
            cwd=self.folder,
            env=kept | {"HOME": str(self.folder), "PYTHONPATH": str(self.installation)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        return done.stdout

    def settle(self, clusters: Mapping[str, Any], gpus: Mapping[str, Any]) -> None:
        """Write the settings; where the board lies is left to the default."""
        (self.folder / "hpc-board.yaml").write_text(yaml.safe_dump({"clusters": clusters, "gpus": gpus}))


def check(steps: Iterable[Step]) -> None:
    for command, shown, printed in steps:
        assert re.fullmatch(pattern_of(shown), comparable(printed)), f"{command} printed\n{printed}"


def emulated(kind: str) -> dict[str, Any]:
    return {
        "cluster": "main",
        "partition": kind,
        "request": {"style": "gres", "value": f"gpu:{kind}:1"},
        "device": "cpu",
        "python": sys.executable,
    }


@pytest.fixture(scope="module")
def follower(tmp_path_factory: pytest.TempPathFactory) -> Follower:
    """Return a user with an empty board, and a machine whose GPUs, if any, are left aside."""
    pytest.importorskip("torch")
    found = Follower(tmp_path_factory.mktemp("tutorial"), install(tmp_path_factory.mktemp("installation")))
    found.settle({"local": {"scheduler": "local"}}, {"CPU": {"cluster": "local"}})
    return found


@pytest.fixture(scope="module")
def steps_here(follower: Follower) -> list[Step]:
    """The steps on this machine, taken."""
    return list(follower.follow(HERE))


@pytest.mark.timeout(600)
def test_what_the_tutorial_shows_of_this_machine_is_what_is_printed(steps_here: list[Step]) -> None:
    check(steps_here)
    assert sum(command.startswith("hpc-board submit") for command, _, _ in steps_here) == 4


@pytest.mark.slurm
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("steps_here")
def test_what_the_tutorial_shows_of_a_cluster_goes_on_from_there(follower: Follower, slurm_lab: SlurmLab) -> None:
    gpus = {"H100": emulated("h100"), "A100": emulated("a100")}
    follower.settle({"main": {"scheduler": "slurm", "poll_seconds": 1, "allow_root": True}}, gpus)
    check(follower.follow(ON_A_CLUSTER, slurm_lab.environment))
