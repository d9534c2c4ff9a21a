"""Tasks: what to implement, on which cases, and how a score comes from the times."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from pathlib import PurePosixPath
from typing import Any

CaseValue = int | float | bool | str | tuple[Any, ...]
"""What a test or benchmark case may hold under one key."""

SUBMISSION = "@SUBMISSION@"
"""The `source` of the one file of a task that the participant writes."""

ENTRY = "custom_kernel"
"""The function that a submission defines, in whatever language."""

REFERENCE_ENTRY = "ref_kernel"
"""The function of a task's `reference.py` that returns the right answer."""


ISOLATED = "isolated"
"""The `harness` of a task that the judge of hpc-board evaluates."""

OWN = "task"
"""The `harness` of a task that brings an eval of its own, which runs with KernelBot's protocol."""


class Mode(str, Enum):
    """What a run is for."""

    TEST = "test"
    BENCHMARK = "benchmark"
    PROFILE = "profile"
    RANKED = "ranked"

    __str__ = str.__str__


class Ranking(str, Enum):
    """How the score comes from the benchmark cases: the last one, the arithmetic or the geometric mean."""

    LAST = "last"
    MEAN = "mean"
    GEOM = "geom"

    __str__ = str.__str__


class Language(str, Enum):
    """What a submission is written in, by KernelBot's names where it has one."""

    PY = "py"
    CPP = "cpp"
    CU = "cu"
    HIP = "hip"

    __str__ = str.__str__

    @property
    def compiled(self) -> bool:
        """Whether a submission becomes a shared library before it runs."""
        return self is not Language.PY

    @property
    def extensions(self) -> tuple[str, ...]:
        """The endings of file names by which a submission is known to be in this language; the first is the usual."""
        return _EXTENSIONS[self]


_EXTENSIONS = {
    Language.PY: (".py",),
    Language.CPP: (".cpp",),
    Language.CU: (".cu", ".cuh"),
    Language.HIP: (".hip",),
}


def language_of(file_name: str) -> Language | None:
    """The language of a submission of this name, None where its ending says none."""
    ending = PurePosixPath(file_name).suffix
    return next((language for language in Language if ending in language.extensions), None)


@dataclass(frozen=True)
class TaskFile:
    """One file of a task; `text` is None for the one that the participant writes."""

    name: str
    text: str | None


@dataclass(frozen=True)
class Timeouts:
    """Seconds that each mode may take on the node."""

    test_seconds: int = 180
    benchmark_seconds: int = 180
    ranked_seconds: int = 180


@dataclass(frozen=True)
class Milestone:
    """A submission of the task's author, which stands on each board beside the ranks, but for those of `exclude_gpus`.

    `file_name` and `text` are its file, `description` says what it is to readers.
    """

    name: str
    file_name: str
    text: str
    description: str = ""
    exclude_gpus: tuple[str, ...] = ()

    def shown_on(self, gpu: str) -> bool:
        """Whether the milestone belongs on the board of `gpu`."""
        return gpu.casefold() not in {name.casefold() for name in self.exclude_gpus}


@dataclass(frozen=True)
class Task:
    """What to implement: the files, the cases and the rules.

    `gpus` is empty where every GPU of the settings is allowed. `files` has their names relative to the task's folder
    and never climbs out of it. `cases` are flat mappings from argument names of `generate_input` to values.
    `limits` are the task's own values for limits and timing numbers of the harness (seconds, counts). With
    `const_inputs` a call must leave its inputs alone, with `fresh_output` its output must not lie in their memory.
    `languages` are those of submissions where they are not `language` alone, `flags` what compilers are told beside
    their usual flags. `milestones` are shown on boards and change no result. `accepts` are the cheap answers that the
    task means to let pass, for whoever checks the task.
    """

    name: str
    language: Language
    description: str
    files: tuple[TaskFile, ...]
    tests: tuple[Mapping[str, CaseValue], ...] = ()
    benchmarks: tuple[Mapping[str, CaseValue], ...] = ()
    templates: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    timeouts: Timeouts = Timeouts()
    ranking_by: Ranking = Ranking.LAST
    seed: int | None = None
    multi_gpu: bool = False
    libraries: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    deadline: datetime | None = None
    harness: str = ISOLATED
    limits: Mapping[str, float] = field(default_factory=dict)
    const_inputs: bool = False
    fresh_output: bool = False
    accepts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    languages: tuple[Language, ...] = ()
    flags: tuple[str, ...] = ()
    milestones: tuple[Milestone, ...] = ()

    @property
    def accepted(self) -> tuple[Language, ...]:
        """The languages of submissions, the task's preferred one first."""
        return self.languages or (self.language,)

    @property
    def submission_name(self) -> str:
        """The name that the participant's file gets on the node, in the task's own language."""
        return next(file.name for file in self.files if file.text is None)

    @property
    def world_size(self) -> int:
        """The most ranks, each on a GPU of its own, that a case of a `multi_gpu` task has; 1 for any other task."""
        sizes = [case.get("world_size") for case in (*self.tests, *self.benchmarks)] if self.multi_gpu else []
        return max((size for size in sizes if isinstance(size, int)), default=1)

    def name_on_node(self, file_name: str) -> str:
        """The name that the participant's file `file_name` gets on the node, with the ending of its language."""
        own = PurePosixPath(self.submission_name)
        ending = PurePosixPath(file_name).suffix
        if language_of(file_name) in (None, language_of(own.name)):
            return str(own)
        return str(own.with_suffix(ending))

    def text(self, name: str) -> str | None:
        """The text of the task's file `name`, or None."""
        return next((file.text for file in self.files if file.name == name), None)

    @property
    def version(self) -> str:
        """The sha256 of all that affects a result; standings of different versions are kept apart."""
        facts: dict[str, Any] = {
            "benchmarks": [dict(case) for case in self.benchmarks],
            "config": dict(self.config),
            "files": sorted((file.name, file.text) for file in self.files),
            "const_inputs": self.const_inputs,
            "fresh_output": self.fresh_output,
            "harness": self.harness,
            "language": self.language,
            "limits": dict(self.limits),
            "ranking_by": self.ranking_by,
            "tests": [dict(case) for case in self.tests],
        }
        if self.flags:
            facts["flags"] = list(self.flags)
        if self.harness == OWN:
            facts.update(libraries=list(self.libraries), multi_gpu=self.multi_gpu, seed=self.seed)
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def case_text(case: Mapping[str, CaseValue]) -> str:
    """A case as KernelBot writes it: "size: 127; seed: 4242"."""
    return "; ".join(f"{key}: {value}" for key, value in case.items())
