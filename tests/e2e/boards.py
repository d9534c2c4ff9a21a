"""Boards to try the whole path on: a settings file, a task that takes milliseconds, kernels, and a scheduler."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.commands import printed_json, run_hpc_board
from tests.harness.evaluations import QUICK, REFERENCE

RIGHT = "#!POPCORN leaderboard double\n\ndef custom_kernel(data):\n    return [2 * x for x in data]\n"
WRONG = RIGHT.replace("2 * x", "3 * x")
HANGING = RIGHT.replace("    return", "    import time; time.sleep(120)\n    return")


@dataclass(frozen=True)
class BoardFiles:
    """A folder with a settings file, a task and submissions, and the environment in which the client runs."""

    folder: Path
    settings: Path
    environ: Mapping[str, str] = field(default_factory=dict)

    def kernel(self, text: str = RIGHT, name: str = "kernel.py") -> Path:
        """A submission with this text."""
        path = self.folder / name
        path.write_text(text)
        return path

    def command(self, *words: str | Path) -> list[str]:
        """The command line of the client with this board's settings."""
        return [sys.executable, "-m", "hpc_board", *self.words(*words)]

    def words(self, *words: str | Path) -> list[str]:
        """The words of the command line after the program."""
        return ["--config", str(self.settings), *map(str, words)]

    def run(self, *words: str | Path, timeout_seconds: float = 120) -> "subprocess.CompletedProcess[str]":
        """The client's command, run to its end."""
        return run_hpc_board(
            self.words(*words), environ={**os.environ, **self.environ}, timeout_seconds=timeout_seconds
        )

    def json(self, *words: str | Path) -> Any:
        """Return the output of a command with `--json`; it must succeed or have evaluated something."""
        return printed_json(self.run(*words, "--json"))

    def ended(self, run: int) -> dict[str, Any]:
        """The run's object at its end, for which one client waits."""
        self.run("watch", str(run))
        shown: dict[str, Any] = self.json("run", str(run))
        return shown


def board_files(folder: Path, *, slurm: bool, environ: Mapping[str, str] | None = None) -> BoardFiles:
    """A board in `folder` with the task `double`: on the embedded scheduler, or on Slurm with H100, A100 and CPU.

    Its jobs on this machine wait for no other board's, as those with a common state folder do.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_task(folder / "tasks" / "double")
    settings: dict[str, Any] = {"board": str(folder / "board"), "tasks": [str(folder / "tasks"), "bundled"]}
    if slurm:
        settings["clusters"] = {"lab": {"scheduler": "slurm", "poll_seconds": 1, "allow_root": True}}
        settings["gpus"] = {
            "H100": _gpu("h100", {"style": "gres", "value": "gpu:h100:1"}),
            "A100": _gpu("a100", {"style": "gres", "value": "gpu:a100:1"}),
            "CPU": _gpu("cpu", {"style": "none"}),
            "H100-CUDA": {**_gpu("h100", {"style": "gres", "value": "gpu:h100:1"}), "device": "cuda"},
        }
    else:
        settings["clusters"] = {"here": {"scheduler": "local"}}
        settings["gpus"] = {"CPU": {"cluster": "here"}}
    path = folder / "hpc-board.yaml"
    path.write_text(yaml.safe_dump(settings, sort_keys=False))
    return BoardFiles(folder, path, {"XDG_STATE_HOME": str(folder / "state"), **(environ or {})})


def without_libraries(files: BoardFiles) -> BoardFiles:
    """Give the jobs a Python without libraries, of which probe jobs try no language, and no task that needs any."""
    settings = yaml.safe_load(files.settings.read_text())
    settings["tasks"] = settings["tasks"][:1]
    for gpu in settings["gpus"].values():
        gpu["python"] = "/usr/bin/python3"
    files.settings.write_text(yaml.safe_dump(settings, sort_keys=False))
    return files


def _gpu(partition: str, request: Mapping[str, str]) -> dict[str, Any]:
    return {
        "cluster": "lab",
        "partition": partition,
        "request": dict(request),
        "device": "cpu",
        "time": "00:05:00",
        "python": sys.executable,
    }


def write_task(folder: Path) -> None:
    """Make the folder of the task `double`."""
    folder.mkdir(parents=True)
    document = {
        "lang": "py",
        "description": "Double every number.",
        "files": [
            {"name": "submission.py", "source": "@SUBMISSION@"},
            {"name": "reference.py", "source": "reference.py"},
        ],
        "tests": [{"size": 3, "seed": 1}, {"size": 10, "seed": 2}],
        "benchmarks": [{"size": 100, "seed": 3}],
        "ranking_by": "geom",
        # Calls that hang do so until a test has ended them, also on a busy machine.
        "hpc_board": {
            "limits": {**QUICK, "workers": 1, "call_seconds": 20, "first_call_seconds": 20, "test_call_seconds": 20}
        },
    }
    (folder / "task.yml").write_text(yaml.safe_dump(document, sort_keys=False))
    (folder / "reference.py").write_text(REFERENCE)


def slurm_jobs(environ: Mapping[str, str], fields: Sequence[str] = ("%i", "%j", "%T")) -> list[list[str]]:
    """Every job that the controller remembers, as the fields of `squeue -o`."""
    done = subprocess.run(
        ["squeue", "-h", "-t", "all", "-o", "|".join(fields)],
        capture_output=True,
        text=True,
        env={**os.environ, **environ},
        check=True,
    )
    return [line.split("|") for line in done.stdout.splitlines()]


def fill(path: Path, left_bytes: int = 0) -> None:
    """Fill the file system of a new file but for some bytes."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            file.truncate(max(0, path.stat().st_size - left_bytes))
