"""A pair of plain Python functions in one file: `reference` and `inputs`, with sizes that are data.

Sizes come from `cases` or `sizes` of the file, or from a benchmark of Triton's or PyTorch's that states them.
"""

import ast
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from hpc_board.catalog.contract import Signature, defined, signature
from hpc_board.catalog.imports.constants import Constants
from hpc_board.catalog.imports.folder import (
    BENCHMARK_SEED,
    RULES,
    SEEDS,
    SOURCE,
    capped,
    document,
    refused,
    spread,
    starter_files,
    task_name,
    tree_of,
)
from hpc_board.domain.imported import Basis, Imported, Part
from hpc_board.domain.task_rules import FILE_BYTES_MAX, case_value
from hpc_board.errors import Fault
from hpc_board.files import read_text

NAME = "pair"

REFERENCES = ("reference", "ref")
INPUTS = ("inputs", "get_inputs")

_CASES = ("cases", "sizes", "CASES", "SIZES")
_CASES_MAX = 200
_BENCHMARKS_MAX = 6


def recognised(names: set[str]) -> bool:
    """Return whether a file that defines these names is such a pair."""
    return not names.isdisjoint(REFERENCES) and not names.isdisjoint(INPUTS)


def of_file(path: Path, size_max: int | None = None) -> Imported:
    """Return the task of the pair in the file at `path`; larger sizes become `size_max`.

    Raises:
        InputError: the file cannot be read.
        DocumentError: it lacks a part of such a pair.
    """
    text = read_text(path, FILE_BYTES_MAX)
    tree = tree_of(text, path)
    names = defined(tree)
    reference = next((each for each in REFERENCES if each in names), None)
    inputs = next((each for each in INPUTS if each in names), None)
    sizes = _sizes(tree)
    if reference is None or inputs is None:
        lacking = [(REFERENCES, "the right answer", reference), (INPUTS, "the arguments of a call", inputs)]
        faults = [Fault(each[0], f"is not defined: it returns {of}") for each, of, found in lacking if found is None]
        if sizes is not None:
            faults.append(Fault(sizes[0], f"states {len(sizes[1])} sizes, but no function makes inputs of a size"))
        raise refused(path, faults)
    taken = signature(text, inputs)
    seeded = taken is not None and "seed" in taken.names
    where, cases = sizes or ("none", [{}])
    cases = [{key: capped(value, size_max) for key, value in each.items()} for each in cases]
    place = where if sizes else next((name for name in _CASES if name in Constants(tree).values), _CASES[0])
    if faults := list(_case_faults(inputs, taken, place, cases)):
        raise refused(path, faults)
    chosen = spread(cases, _BENCHMARKS_MAX)
    parts = (
        Part(reference, Basis.TAKEN, "the right answer, in float64 where it can compute in it"),
        Part(inputs, Basis.TAKEN, "the arguments of a call" + (", with a secret seed" if seeded else "")),
        *_about_seed(inputs, seeded=seeded),
        *_about_cases(where, cases, chosen),
        Part("tolerance", Basis.GUESSED, "the errors of the reference and of inputs 1 ulp off, by its terms"),
        Part("submission", Basis.TAKEN, f"{reference}(...) with the same arguments, or custom_kernel(data)"),
    )
    head = (ast.get_docstring(tree) or path.stem.replace("_", " ")).strip()
    words = f"Write `{reference}(...)` with the arguments and the result of the function in the template."
    description = f"{head}\n\n{words}\n\n{RULES}"
    facts = {"inputs": inputs, "reference": reference, "seeded": seeded}
    files = {
        **starter_files("pair_reference.py", "any_reference_tolerance.py", "pair_adapter.py"),
        SOURCE: text,
        "import.json": json.dumps(facts, indent=2) + "\n",
    }
    document_text = document(
        files,
        description,
        [{**case, "seed": seed} for case, seed in zip(chosen, itertools.cycle(SEEDS))],
        [{**case, "seed": BENCHMARK_SEED} for case in chosen],
        templates={"Python": SOURCE},
        adapter="adapter.py",
    )
    return Imported(task_name(path.stem), path, NAME, {"task.yml": document_text, **files}, parts)


def _case_faults(
    inputs: str, taken: Signature | None, where: str, cases: Sequence[Mapping[str, Any]]
) -> Iterator[Fault]:
    """Yield the faults of cases that a function cannot take."""
    for index, case in enumerate(cases):
        place = f"{where}.{index}" if case else where
        for key, value in case.items():
            try:
                case_value(value)
            except ValueError as error:
                yield Fault(f"{place}.{key}", str(error))
        if taken is None:
            continue
        unknown = [key for key in case if key not in taken.names and not taken.open_ended]
        lacking = [name for name in taken.required if name not in case and name != "seed"]
        if unknown:
            yield Fault(place, f"has {', '.join(unknown)}, which {inputs} does not take")
        if lacking:
            example = f'[{{"{lacking[0]}": 1024}}]'
            yield Fault(place, f"{inputs} requires {', '.join(lacking)}: state a list of dicts, such as {example}")


def _about_seed(inputs: str, *, seeded: bool) -> Iterator[Part]:
    if not seeded:
        words = f"{inputs} takes no seed: it has to draw from the default generator of torch, numpy or random"
        yield Part("seed", Basis.GUESSED, words)


def _about_cases(where: str, cases: Sequence[object], chosen: Sequence[object]) -> Iterator[Part]:
    if where == "none":
        yield Part(
            "sizes", Basis.MISSING, "one test and one benchmark without arguments: state sizes in a list `cases`"
        )
        return
    yield Part(where, Basis.TAKEN, f"{len(chosen)} of {len(cases)} sizes, each a test and a benchmark")


def _sizes(tree: ast.Module) -> tuple[str, list[dict[str, Any]]] | None:
    """Return the name of the part with sizes and the arguments of each size; None if there is none."""
    constants = Constants(tree)
    for name in _CASES:
        stated = constants.values.get(name)
        if isinstance(stated, (list, tuple)) and 0 < len(stated) <= _CASES_MAX and all(map(_is_case, stated)):
            return name, [dict(each) for each in stated]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for call in calls:
        known = {each.arg: constants.of(each.value) for each in call.keywords if each.arg is not None}
        found = _BY_CALL.get(_called(call), lambda _: None)(known)
        if found and len(found) <= _CASES_MAX:
            return _called(call), found
    return None


def _is_case(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


def _called(call: ast.Call) -> str:
    """Return the last name of a called function."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _of_triton(known: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the sizes of `triton.testing.Benchmark`: each name gets its own of several values, or the same one."""
    names, values, fixed = known.get("x_names"), known.get("x_vals"), known.get("args") or {}
    if not _are_names(names) or not isinstance(values, (list, tuple)) or not isinstance(fixed, dict):
        return None
    rows = [each if isinstance(each, (list, tuple)) else [each] * len(names) for each in values]
    return [{**fixed, **dict(zip(names, row, strict=True))} for row in rows if len(row) == len(names)]


def _of_config_list(known: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the sizes of `config_list` of PyTorch's operator benchmarks."""
    names, rows = known.get("attr_names"), known.get("attrs")
    if not _are_names(names) or not isinstance(rows, (list, tuple)):
        return None
    return [
        dict(zip(names, row, strict=True)) for row in rows if isinstance(row, (list, tuple)) and len(row) == len(names)
    ]


def _of_cross_product(known: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the sizes of `cross_product_configs` of PyTorch's operator benchmarks."""
    lists = {name: value for name, value in known.items() if name != "tags"}
    if not lists or not all(isinstance(value, (list, tuple)) for value in lists.values()):
        return None
    rows = itertools.islice(itertools.product(*lists.values()), _CASES_MAX + 1)
    return [dict(zip(lists, row, strict=True)) for row in rows]


def _are_names(value: Any) -> TypeGuard[Sequence[str]]:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(each, str) for each in value)


_BY_CALL = {"Benchmark": _of_triton, "config_list": _of_config_list, "cross_product_configs": _of_cross_product}
"""The benchmark forms whose sizes are data, by the function that takes them."""
