"""Problems of KernelBench: a file with the class `Model`, and the functions `get_inputs` and `get_init_inputs`."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hpc_board.catalog.contract import defined
from hpc_board.catalog.imports.constants import Constants
from hpc_board.catalog.imports.folder import (
    BENCHMARK_SEED,
    RULES,
    SEEDS,
    SOURCE,
    capped,
    document,
    refused,
    starter_files,
    task_name,
    tree_of,
)
from hpc_board.domain.imported import Basis, Imported, Part
from hpc_board.domain.task_rules import ARGUMENTS_MAX, FILE_BYTES_MAX, case_value
from hpc_board.errors import Fault
from hpc_board.files import read_text
from hpc_board.model.text import one_line

NAME = "kernelbench"

_MODEL, _INPUTS, _INIT_INPUTS = "Model", "get_inputs", "get_init_inputs"
NEEDED = {_MODEL, _INPUTS, _INIT_INPUTS}
_VALUE_BYTES = 16 * 2**30
_USUAL_MODULES = {"torch", "math", "numpy", "typing", "itertools", "functools", "collections", "einops", "copy"}
_STARTER = "\n\nclass ModelNew(Model):\n    pass\n"


def recognised(names: set[str]) -> bool:
    """Return whether a file that defines these names is such a problem."""
    return names >= NEEDED


def of_file(path: Path, size_max: int | None = None) -> Imported:
    """Return the task of the problem in the file at `path`; larger sizes become `size_max`.

    Raises:
        InputError: the file cannot be read.
        DocumentError: it lacks a part of such a problem.
    """
    text = read_text(path, FILE_BYTES_MAX)
    tree = tree_of(text, path)
    names = defined(tree)
    if faults := [Fault(name, "is not defined") for name in sorted(NEEDED) if name not in names]:
        raise refused(path, faults)
    stated = _sizes(tree)
    sizes = {name: capped(value, size_max) for name, value in stated.items()}
    files = {
        **starter_files("kernelbench_reference.py", "any_reference_tolerance.py", "kernelbench_adapter.py"),
        SOURCE: text,
    }
    task = document(
        files,
        _description(tree, path),
        [{**sizes, "seed": seed} for seed in SEEDS],
        [{**sizes, "seed": BENCHMARK_SEED}],
        templates={"Python": "template.py"},
        adapter="adapter.py",
        prepare=["model"],
        limits={"value_bytes": _VALUE_BYTES},
    )
    parts = (
        Part(_MODEL, Basis.TAKEN, "the reference, in eval mode and without gradients; float64 gives the right answer"),
        Part(_INIT_INPUTS, Basis.TAKEN, "the arguments of the constructors; parameters and buffers go to ModelNew"),
        Part(_INPUTS, Basis.TAKEN, "the inputs of each call, with a secret seed"),
        *_about_sizes(stated, sizes),
        Part("tolerance", Basis.GUESSED, "the errors of Model in float32 and of inputs 1 ulp off, by its terms"),
        Part("ModelNew", Basis.TAKEN, "the submission, made by the same arguments and seed; or custom_kernel(data)"),
        *_about_modules(tree),
    )
    written = {"task.yml": task, **files, "template.py": text.rstrip() + "\n" + _STARTER}
    return Imported(task_name(path.stem), path, NAME, written, parts)


def _sizes(tree: ast.Module) -> dict[str, Any]:
    """Return the whole numbers, and the lists of such, that are assigned at the top: the arguments of a case."""
    found: dict[str, Any] = {}
    for name, value in Constants(tree).values.items():
        items = value if isinstance(value, (list, tuple)) and value else [value]
        if all(type(item) is int for item in items) and len(found) < ARGUMENTS_MAX - 1 and name != "seed":
            try:
                case_value(value)
            except ValueError:
                continue
            found[name] = value
    return found


def _about_sizes(stated: Mapping[str, Any], sizes: Mapping[str, Any]) -> Iterator[Part]:
    if not stated:
        yield Part("sizes", Basis.MISSING, "no whole number is assigned at the top of the file: every case is the same")
        return
    words = "; ".join(
        f"{name} {value}" + ("" if sizes[name] == capped(value, None) else f" -> {sizes[name]}")
        for name, value in ((name, capped(value, None)) for name, value in stated.items())
    )
    yield Part("sizes", Basis.TAKEN, f"keys of the cases, which replace them: {words}")


def _about_modules(tree: ast.Module) -> Iterator[Part]:
    """Yield a part for modules that a job's Python may lack."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    if others := sorted(names - _USUAL_MODULES):
        words = f"the judge's Python needs {one_line(', '.join(others), 200)}, and the judge has no network for weights"
        yield Part("modules", Basis.MISSING, words)


def _description(tree: ast.Module, path: Path) -> str:
    model = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == _MODEL)
    head = (ast.get_docstring(model) or path.stem.replace("_", " ")).strip()
    return (
        f"{head}\n\nWrite the class `ModelNew`, with the constructor and the `forward` of `{_MODEL}` in the template.\n"
        "It is made once, by the same arguments and under the same seed, and gets the parameters and\n"
        f"buffers of `{_MODEL}` whose names and shapes it has. Calls of `forward` are timed.\n\n{RULES}"
    )
