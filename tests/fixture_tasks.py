"""Fixture tasks: folders that between them use all that a task can have, and what each of them is expected to give.

A fixture is a folder with a task, `submissions/` and `expected.yml`: the `harness` that the task has by default; for
each harness what `check` finds, or why the task cannot be read for it; and the verdict on each submission. Of those
with a submission called `ranked`, one run in mode ranked is made, too.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml

from hpc_board.catalog import single_file
from hpc_board.catalog.folders import read_task
from hpc_board.catalog.sources import tasks_without_faults
from hpc_board.model.result import Verdict
from hpc_board.model.task import ISOLATED, OWN, Mode, Task

FOLDER = Path(__file__).with_name("fixtures") / "tasks"
KINDS = (ISOLATED, OWN)

_EXPECTED = "expected.yml"
_TASK_FILE = "task.yml"
_SHARED = "eval.py"


@dataclass(frozen=True)
class Attempt:
    """A submission under one harness, and its verdict; `needs` is a program without which there is none."""

    fixture: str
    file: Path
    kind: str
    verdict: Verdict
    mode: Mode = Mode.TEST
    gpu: str = "CPU"
    needs: str = ""

    @property
    def task_name(self) -> str:
        """The name of the fixture's task on a board that has all of them for both harnesses."""
        return f"{self.fixture}-{self.kind}"


@dataclass(frozen=True)
class Fixture:
    """One fixture; `checks` has for each harness the codes of the findings, or the text of a fault."""

    name: str
    harness: str
    checks: Mapping[str, tuple[str, ...] | str]
    attempts: tuple[Attempt, ...]
    source: Path

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The fixture in `folder`."""
        told = yaml.safe_load((folder / _EXPECTED).read_text())
        checks = {kind: found if isinstance(found, str) else tuple(found) for kind, found in told["check"].items()}
        attempts = [
            Attempt(
                folder.name,
                folder / "submissions" / entry["submission"],
                kind,
                Verdict(entry[kind]),
                Mode(entry.get("mode", Mode.TEST)),
                entry.get("gpu", "CPU"),
                entry.get("needs", ""),
            )
            for entry in told["judged"]
            for kind in KINDS
            if kind in entry
        ]
        attempts += [
            Attempt(each.fixture, each.file, each.kind, Verdict.PASS, Mode.RANKED, each.gpu, each.needs)
            for each in attempts
            if each.file.name == told.get("ranked")
        ]
        return cls(folder.name, told["harness"], checks, tuple(attempts), folder / told.get("source", ""))

    @property
    def task(self) -> Task:
        """The task as it stands."""
        (task,) = tasks_without_faults(self.source)
        return task

    def under(self, kind: str, parent: Path) -> Path:
        """The folder of a copy of the task in `parent` which asks for this harness, and has a name of its own.

        Where it is the default one, the copy doesn't ask for any if the task doesn't.
        """
        folder = parent / f"{self.name}-{kind}"
        if self.source.is_file():
            folder.mkdir(parents=True)
            single_file.lay_out(self.source, folder)
        else:
            shutil.copytree(self.source, folder)
            shutil.copy(FOLDER / _SHARED, parent)
        document: dict[str, Any] = yaml.safe_load((folder / _TASK_FILE).read_text())
        document["name"] = folder.name
        if kind != self.harness:
            document["hpc_board"] = {**document.get("hpc_board", {}), "harness": kind}
        (folder / _TASK_FILE).write_text(yaml.safe_dump(document, sort_keys=False))
        return folder

    def task_under(self, kind: str, parent: Path) -> Task:
        """The task for this harness.

        Raises:
            DocumentError: it cannot be read so.
        """
        return read_task(self.under(kind, parent), parent)


FIXTURES = tuple(Fixture.read(path.parent) for path in sorted(FOLDER.glob(f"*/{_EXPECTED}")))
