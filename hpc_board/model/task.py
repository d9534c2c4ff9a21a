"""Tasks: the function to implement, its cases, and the score from its times."""

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from hpc_board.model.value import Value, made

CaseValue = int | float | bool | str | tuple[Any, ...]
"""A value of a test or benchmark case under one key."""

SUBMISSION = "@SUBMISSION@"
"""The `source` of the one file of a task that the participant writes."""

ENTRY = "custom_kernel"
"""The function that a submission defines, in any language."""

PREPARE_ENTRY = "prepare"
"""The function of a submission in Python that gets the fixed inputs of a task before its calls."""

REFERENCE_ENTRY = "ref_kernel"
"""The function of a task's `reference.py` that returns the right answer."""


ISOLATED = "isolated"
"""The `harness` of a task that the judge of hpc-board evaluates."""

OWN = "task"
"""The `harness` of a task that brings an eval of its own, which runs with KernelBot's protocol."""


class Mode(str, Enum):
    """The purpose of a run."""

    TEST = "test"
    BENCHMARK = "benchmark"
    PROFILE = "profile"
    SANITIZE = "sanitize"
    RANKED = "ranked"

    __str__ = str.__str__


class Ranking(str, Enum):
    """The rule for a score from the benchmark cases: the last one, the arithmetic or the geometric mean."""

    LAST = "last"
    MEAN = "mean"
    GEOM = "geom"

    __str__ = str.__str__


class Language(str, Enum):
    """The language of a submission, by KernelBot's name if it has one."""

    PY = "py"
    CPP = "cpp"
    CU = "cu"
    HIP = "hip"

    __str__ = str.__str__

    @property
    def compiled(self) -> bool:
        """Return whether a submission becomes a shared library before it runs."""
        return self is not Language.PY

    @property
    def extensions(self) -> tuple[str, ...]:
        """Return the file name extensions of submissions in this language; the first is the usual one."""
        return _EXTENSIONS[self]


_EXTENSIONS = {
    Language.PY: (".py",),
    Language.CPP: (".cpp",),
    Language.CU: (".cu", ".cuh"),
    Language.HIP: (".hip",),
}


def language_of(file_name: str) -> Language | None:
    """Return the language of a submission with this name, None if its extension is unknown."""
    ending = PurePosixPath(file_name).suffix
    return next((language for language in Language if ending in language.extensions), None)


class Template(str, Enum):
    """The name of a template: a language of submissions, or a library or a domain-specific language within one."""

    PYTHON = "Python"
    TORCH_COMPILE = "torch.compile"
    TRITON = "Triton"
    GLUON = "Gluon"
    HELION = "Helion"
    CUTE_DSL = "CuteDSL"
    TILELANG = "TileLang"
    CUTILE = "cuTile"
    NUMBA = "Numba"
    CUPY = "CuPy"
    JAX = "JAX"
    LOAD_INLINE = "load_inline"
    CPP = "C++"
    CUDA = "CUDA"
    CUBLAS = "cuBLAS"
    CUTLASS = "CUTLASS"
    THUNDERKITTENS = "ThunderKittens"
    HIP = "HIP"

    __str__ = str.__str__

    @property
    def language(self) -> Language:
        """Return the language of the submissions that begin with it."""
        return COMPILED.get(self, Language.PY)

    @classmethod
    def of(cls, language: Language) -> "Template":
        """Return the template of a language without a library."""
        return next(each for each in (cls.PYTHON, cls.CPP, cls.CUDA, cls.HIP) if each.language is language)


ON_GPUS = (
    Template.TRITON,
    Template.GLUON,
    Template.HELION,
    Template.CUTE_DSL,
    Template.TILELANG,
    Template.CUTILE,
    Template.NUMBA,
    Template.CUPY,
    Template.LOAD_INLINE,
)
"""The templates whose programs run only on GPUs, though their language runs on CPUs too."""

ON_CUDA = (Template.CUTE_DSL, Template.CUTILE, Template.NUMBA)
"""Those whose programs run only on NVIDIA's GPUs."""

COMPILED: Mapping[str, Language] = {
    Template.CPP: Language.CPP,
    Template.CUDA: Language.CU,
    Template.CUBLAS: Language.CU,
    Template.CUTLASS: Language.CU,
    Template.THUNDERKITTENS: Language.CU,
    Template.HIP: Language.HIP,
}
"""The compiled languages by the names of their templates; all other templates are in Python."""


class TaskFile(Value):
    """One file of a task; `text` is None for the participant's file."""

    name: str
    text: str | None


class Timeouts(Value):
    """Time limits of each mode on the node, in seconds."""

    test_seconds: int = 180
    benchmark_seconds: int = 180
    ranked_seconds: int = 180


class Milestone(Value):
    """A submission of the task's author, shown on each board beside the ranks, except on those of `exclude_gpus`.

    `file_name` and `text` are its file, `description` is its text for readers.
    """

    name: str
    file_name: str
    text: str
    description: str = ""
    exclude_gpus: tuple[str, ...] = ()

    def shown_on(self, gpu: str) -> bool:
        """Return whether the milestone belongs on the board of `gpu`."""
        return gpu.casefold() not in {name.casefold() for name in self.exclude_gpus}


class MeansRule(Value):
    """The means that a submission must use, and those that it must not use."""

    require: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()

    def words(self) -> str:
        """Return the rule in words; "" without one."""
        parts = (("requires", self.require), ("forbids", self.forbid))
        return "; ".join(f"{verb} {', '.join(names)}" for verb, names in parts if names)


class Task(Value):
    """A task to implement: the files, the cases and the rules.

    `gpus` is empty if every GPU of the settings is allowed. `files` has their names relative to the task's folder and
    never climbs out of it. `cases` are flat mappings from argument names of `generate_input` to values. `limits` are
    the task's own values for limits and timing numbers of the harness (seconds, counts). With `const_inputs` a call
    must leave its inputs unchanged, with `fresh_output` its output must not share their memory. `languages` are the
    languages of submissions if `language` is not the only one, `flags` the compiler flags in addition to the usual
    ones. `hidden_tests` and `hidden_benchmarks` are further cases, which only ranked runs judge, after the others; a
    published task has empty ones in their place. `prepare` are the keys or the positions of those inputs that are the
    same for all calls of a case in a process, and that a submission may get before. `means` is the rule on the kernels
    and libraries that submissions use. `milestones` are shown on boards
    and change no result. `accepts` are the bogus answers that the task deliberately lets pass, for the task's lint.
    `start_here` marks the first task of a newcomer. `adapter` is the file that calls submissions in Python of another
    form. `published_version` is the version of a task whose files and milestones came without their texts; empty for a
    whole task.
    """

    name: str
    language: Language
    description: str
    files: tuple[TaskFile, ...]
    tests: tuple[Mapping[str, CaseValue], ...] = ()
    benchmarks: tuple[Mapping[str, CaseValue], ...] = ()
    templates: Mapping[str, str] = made(default_factory=dict)
    config: Mapping[str, Any] = made(default_factory=dict)
    timeouts: Timeouts = Timeouts()
    ranking_by: Ranking = Ranking.LAST
    seed: int | None = None
    multi_gpu: bool = False
    libraries: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    deadline: datetime | None = None
    harness: str = ISOLATED
    limits: Mapping[str, float] = made(default_factory=dict)
    const_inputs: bool = False
    fresh_output: bool = False
    accepts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    languages: tuple[Language, ...] = ()
    flags: tuple[str, ...] = ()
    milestones: tuple[Milestone, ...] = ()
    start_here: bool = False
    hidden_tests: tuple[Mapping[str, CaseValue], ...] = ()
    hidden_benchmarks: tuple[Mapping[str, CaseValue], ...] = ()
    adapter: str = ""
    prepare: tuple[str | int, ...] = ()
    means: MeansRule = MeansRule()
    published_version: str = ""

    @property
    def accepted(self) -> tuple[Language, ...]:
        """Return the languages of submissions, the task's preferred one first."""
        return self.languages or (self.language,)

    @property
    def submission_name(self) -> str:
        """Return the name of the participant's file on the node, in the task's own language."""
        return next(file.name for file in self.files if file.text is None)

    @property
    def world_size(self) -> int:
        """Return the maximum of ranks, one GPU each, in a case of a `multi_gpu` task; 1 for any other task."""
        sizes = [case.get("world_size") for case in (*self.tests, *self.benchmarks)] if self.multi_gpu else []
        return max((size for size in sizes if isinstance(size, int)), default=1)

    def name_on_node(self, file_name: str) -> str:
        """Return the name of the participant's file `file_name` on the node, with the extension of its language."""
        own = PurePosixPath(self.submission_name)
        ending = PurePosixPath(file_name).suffix
        if language_of(file_name) in (None, language_of(own.name)):
            return str(own)
        return str(own.with_suffix(ending))

    def case_texts(self, phase: str, *, ranked: bool) -> list[str]:
        """Return the texts by which results name the cases of a phase; only `ranked` runs judge hidden ones."""
        public, hidden = (
            (self.tests, self.hidden_tests) if phase == "test" else (self.benchmarks, self.hidden_benchmarks)
        )
        return [*map(case_text, public), *(hidden_case_text(number) for number in range(len(hidden) if ranked else 0))]

    def text(self, name: str) -> str | None:
        """Return the text of the task's file `name`, or None."""
        return next((file.text for file in self.files if file.name == name), None)

    @cached_property
    def version(self) -> str:
        """Return the sha256 of all that affects a result; standings of different versions are kept apart."""
        import hashlib
        import json

        if self.published_version:
            return self.published_version
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
        if self.adapter:
            facts["adapter"] = self.adapter
        if self.flags:
            facts["flags"] = list(self.flags)
        hidden = {"tests": self.hidden_tests, "benchmarks": self.hidden_benchmarks}
        if any(hidden.values()):
            facts["hidden"] = {phase: [dict(case) for case in cases] for phase, cases in hidden.items()}
        if self.prepare:
            facts["prepare"] = list(self.prepare)
        if self.means != MeansRule():
            facts["means"] = {"require": list(self.means.require), "forbid": list(self.means.forbid)}
        if self.harness == OWN:
            facts.update(libraries=list(self.libraries), multi_gpu=self.multi_gpu, seed=self.seed)
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def case_text(case: Mapping[str, CaseValue]) -> str:
    """Return a case as KernelBot writes it: "size: 127; seed: 4242"."""
    return "; ".join(f"{key}: {value}" for key, value in case.items())


HIDDEN = "hidden case "
"""Beginning of the text of a hidden case; that of another has a colon or is empty."""


def hidden_case_text(number: int) -> str:
    """Return the text that takes the place of a hidden case, whose number in its phase counts from 0."""
    return f"{HIDDEN}{number + 1}"


def case_of(values: Mapping[str, Any]) -> dict[str, CaseValue]:
    """Return a case with the values that JSON has of it: lists become tuples."""
    return {key: _frozen(value) for key, value in values.items()}


def _frozen(value: Any) -> CaseValue:
    frozen: CaseValue = tuple(map(_frozen, value)) if isinstance(value, list) else value
    return frozen
