"""The program of a task with its own eval: its start or compilation, as `config` in its `task.yml` defines it."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from hpc_board.model.names import suggestion
from hpc_board.model.task import Language, Task
from hpc_board.model.text import one_line
from hpc_board.model.value import Value, made

Faults = list[tuple[str, str]]
"""Faults in a task's program: keys of `task.yml`, with a message for each."""

RANKS_MAX = 64
"""A number of ranks above any node's number of GPUs."""

_MAIN = "eval.py"
_FIRST_GENERATION = "train"
_ITEMS_MAX = 100
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_LIBRARY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}", re.ASCII)
_FLAG = re.compile(r"-\S.{0,299}")
_FOLDER = re.compile(r"[^-].{0,299}")
_VALUE = re.compile(r".{0,300}")
_COMPILED = ("sources", "include_dirs", "compile_flags", "defines")


class EvalProgram(Value):
    """A task's own eval: `main` is run by Python, or else the `sources` are compiled to one program.

    Compilers are given the `include_dirs` (relative ones lie in the folder of the task's files), the `defines`, the
    `compile_flags`, and the `libraries` to link. One that `prints_score` is of KernelBot's first generation, where the
    submission is called `train`: it is started without arguments, and prints `score: SECONDS`.
    """

    main: str = ""
    sources: tuple[str, ...] = ()
    include_dirs: tuple[str, ...] = ()
    defines: Mapping[str, str] = made(default_factory=dict)
    compile_flags: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    prints_score: bool = False


def eval_program(task: Task) -> tuple[EvalProgram, Faults]:
    """Return the program of a task, and all faults in it."""
    of_python = task.language is Language.PY
    known = ("main",) if of_python else _COMPILED
    faults = [
        (f"config.{key}", f"is not known.{suggestion(key, known)} Known keys: {', '.join(known)}")
        for key in sorted(set(task.config) - set(known))
    ]
    names = {file.name for file in task.files}
    submissions = {file.name for file in task.files if file.text is None}
    if task.multi_gpu:
        faults += [
            (key, f"have an invalid world_size: expected a whole number from 1 to {RANKS_MAX}")
            for key, cases in (("tests", task.tests), ("benchmarks", task.benchmarks))
            if not all(_is_world_size(case.get("world_size", 1)) for case in cases)
        ]
    prints_score = any(PurePosixPath(name).stem == _FIRST_GENERATION for name in submissions)
    if prints_score and len(task.benchmarks) > 1:
        faults.append(("benchmarks", "must have one entry for an eval that prints one score"))
    faults += [
        ("libraries", f"invalid library name {name[:80]!r}: expected a name such as cublas")
        for name in task.libraries
        if not _LIBRARY.fullmatch(name)
    ]
    if of_python:
        main = str(task.config.get("main", _MAIN))
        if main not in names:
            faults.append(("config.main", _not_in_files(main, names)))
        elif main in submissions:
            faults.append(("config.main", "is the submission, which cannot judge itself"))
        return EvalProgram(main=main, libraries=task.libraries, prints_score=prints_score), faults
    program = EvalProgram(
        sources=_list(task, "sources", _VALUE, "the name of a file", faults),
        include_dirs=_list(task, "include_dirs", _FOLDER, "a folder", faults),
        defines=_defines(task, faults),
        compile_flags=_list(task, "compile_flags", _FLAG, "an option that begins with -", faults),
        libraries=task.libraries,
        prints_score=prints_score,
    )
    if not task.config.get("sources"):
        faults.append(("config.sources", "is missing: list the files to compile"))
    faults += [("config.sources", _not_in_files(each, names)) for each in program.sources if each not in names]
    faults += _source_faults(program, submissions)
    return program, faults


def _not_in_files(name: str, names: "set[str]") -> str:
    return f'"{one_line(name)}" is not in `files`.{suggestion(name, names)}'


def _is_world_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= RANKS_MAX


def _source_faults(program: EvalProgram, submissions: "set[str]") -> Iterator[tuple[str, str]]:
    if program.sources and submissions.issuperset(program.sources):
        yield "config.sources", "contains the submission only; add the program that judges it"
    for each in program.include_dirs:
        if ".." in PurePosixPath(each).parts:
            yield "config.include_dirs", f"{each[:80]!r} is outside the task's folder"


def _list(task: Task, key: str, pattern: "re.Pattern[str]", expected: str, faults: Faults) -> tuple[str, ...]:
    value: Any = task.config.get(key) or []
    if not isinstance(value, (list, tuple)) or len(value) > _ITEMS_MAX:
        faults.append((f"config.{key}", f"expected a list of at most {_ITEMS_MAX}, each {expected}"))
        return ()
    faults += [
        (f"config.{key}", f"expected {expected}, found {str(each)[:80]!r}")
        for each in value
        if not isinstance(each, str) or not pattern.fullmatch(each) or not each.isprintable()
    ]
    return tuple(map(str, value))


def _defines(task: Task, faults: Faults) -> dict[str, str]:
    value: Any = task.config.get("defines") or {}
    if not isinstance(value, dict) or len(value) > _ITEMS_MAX:
        faults.append(("config.defines", f"expected at most {_ITEMS_MAX} names with values"))
        return {}
    defines = {str(name): "" if text is None else str(text) for name, text in value.items()}
    faults += [
        ("config.defines", f"invalid macro {name[:80]!r}: expected an identifier with a value on one line")
        for name, text in defines.items()
        if not _IDENTIFIER.fullmatch(name) or not _VALUE.fullmatch(text) or not text.isprintable()
    ]
    return defines
