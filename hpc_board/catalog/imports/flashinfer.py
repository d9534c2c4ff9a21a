"""Definitions and workloads in the schema of FlashInfer Trace, and in that of SOL-ExecBench, which extends it.

A definition lies in `definition.json` with `workload.jsonl` beside it, or in the folder `definitions` of a trace set
with `workloads` beside that one.
"""

import base64
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import msgspec

from hpc_board.catalog.contract import defined
from hpc_board.catalog.imports.folder import (
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
from hpc_board.domain.imported import AXIS_END, DEFINITION_FILE, Basis, Definition, Imported, Part
from hpc_board.domain.task_rules import ARGUMENTS_MAX, CASE_KEY, FILE_BYTES_MAX
from hpc_board.errors import Fault, InputError
from hpc_board.files import read_bytes, read_text
from hpc_board.model.text import one_line

NAME = "flashinfer"

_WORKLOADS = ("workload.jsonl", "workloads.jsonl")
_FOLDERS_MAX = 2000
_DEFINITIONS_DEPTH = 3
_WORKLOAD_BYTES_MAX = 16 * 2**20
_WORKLOADS_MAX = 10_000
_CASES_MAX = 12
_EMBEDDED_BYTES_MAX = 700_000
_EMBEDDED_MAX = 8
_HEADER_BYTES_MAX = 2**20
_TENSOR_FILE_BYTES_MAX = 64 * 2**20
_REASONS_MAX = 3

_STORED_AS = {
    "float64": ("F64", 8),
    "float32": ("F32", 4),
    "float16": ("F16", 2),
    "bfloat16": ("BF16", 2),
    "float8_e4m3fn": ("F8_E4M3", 1),
    "float8_e5m2": ("F8_E5M2", 1),
    "int64": ("I64", 8),
    "int32": ("I32", 4),
    "int16": ("I16", 2),
    "int8": ("I8", 1),
    "bool": ("BOOL", 1),
}
"""The types of tensors by their names in a definition: the name in a safetensors file, and the bytes of an element."""

_SAMPLED = "sampling"
_IN_PYTHON = ("python", "triton", "tilelang")
"""The languages of solutions that are files in Python."""


class _Input(msgspec.Struct, frozen=True):
    type: Literal["random", "scalar", "safetensors", "custom"] = "random"
    value: int | float | bool = 0
    path: str = ""
    tensor_key: str = ""


class _Tolerance(msgspec.Struct, frozen=True):
    max_atol: float = 1e-2
    max_rtol: float = 1e-2
    required_matched_ratio: float = 1.0


class _Workload(msgspec.Struct, frozen=True):
    axes: dict[str, int]
    inputs: dict[str, _Input] = {}
    tolerance: _Tolerance | None = None


class _Trace(msgspec.Struct, frozen=True):
    workload: _Workload
    definition: str | None = None


class _SourceFile(msgspec.Struct, frozen=True):
    path: str
    content: str


class _Spec(msgspec.Struct, frozen=True):
    language: str
    entry_point: str
    destination_passing_style: bool = True


class _Solution(msgspec.Struct, frozen=True):
    name: str
    definition: str
    spec: _Spec
    sources: list[_SourceFile]


def problems(source: Path) -> list[Path]:
    """Return the definitions in a file or a folder."""
    if source.is_file():
        return [source] if source.suffix == ".json" and _is_definition(source) else []
    if found := _within(source, [source / DEFINITION_FILE]):
        return found
    definitions = source / "definitions"
    if definitions.is_dir():
        depths = ("*/" * depth for depth in range(_DEFINITIONS_DEPTH))
        named = [path for depth in depths for path in sorted(definitions.glob(f"{depth}*.json"))]
        return [path for path in _within(source, named[:_FOLDERS_MAX]) if _is_definition(path)]
    return _within(source, [each / DEFINITION_FILE for each in sorted(source.iterdir())[:_FOLDERS_MAX]])


def _within(root: Path, paths: Iterable[Path]) -> list[Path]:
    """Return the files among these that lie in `root`: a link of a checkout may lead to any file of its reader."""
    whole = root.resolve()
    return [path for path in paths if path.is_file() and path.resolve().is_relative_to(whole)]


def of_file(path: Path, size_max: int | None = None) -> Imported:
    """Return the task of the definition at `path`, with its workloads as cases; larger variable axes become `size_max`.

    Raises:
        InputError: a file cannot be read.
        DocumentError: it is not a definition, or cannot be judged.
    """
    text = read_text(path, FILE_BYTES_MAX)
    definition = _decoded(text, path)
    if faults := list(_faults(definition)):
        raise refused(path, faults)
    if "run" not in defined(tree_of(definition.reference, path)):
        raise refused(path, [Fault("reference", "does not define run(...)")])
    # A whole problem, with its workloads beside it, may lie anywhere.
    above = () if any((path.parent / name).is_file() for name in _WORKLOADS) else path.parents[:_DEFINITIONS_DEPTH]
    root = next((each.parent for each in above if each.name == "definitions"), path.parent)
    where, workloads, parts = _workloads(path, root, definition)
    embedded = _Embedded(root)
    cases, reasons = _cases(definition, workloads, embedded, size_max)
    if not cases:
        faults = [Fault(where, each) for each in [*(part.became for part in parts), *reasons][:_REASONS_MAX]]
        missing = f"is missing: put {_WORKLOADS[0]} beside it, or a trace set's folder workloads"
        raise refused(path, faults or [Fault("workloads", missing)])
    chosen = spread(cases, _CASES_MAX)
    tolerance, about = _tolerance(definition, workloads)
    files = {
        **starter_files("flashinfer_reference.py", "flashinfer_definition.py", "flashinfer_adapter.py"),
        DEFINITION_FILE: text,
        SOURCE: definition.reference,
        "import.json": json.dumps(tolerance, indent=2) + "\n",
        **embedded.files,
    }
    solutions, about_solutions = _solutions(root, definition)
    tests = [{**case, "seed": SEEDS[index % 2]} for index, case in enumerate(chosen)]
    names, outputs = ", ".join(definition.inputs), ", ".join(definition.outputs)
    words = _description(definition, names, outputs)
    task = document(files, words, tests, tests, templates={"Python": SOURCE}, adapter="adapter.py")
    parts += [
        Part("reference", Basis.TAKEN, "the right answer, in the precision that it computes in"),
        Part(where, Basis.TAKEN, f"{len(chosen)} of {len(workloads)} workloads, each a test and a benchmark"),
        *(Part(where, Basis.MISSING, reason) for reason in dict.fromkeys(reasons[:_REASONS_MAX])),
        *about,
        *_about_inputs(definition, workloads),
        Part(
            "solution",
            Basis.TAKEN,
            f"run({names}), which returns {outputs}, or run({names}, {outputs}), which writes them (destination "
            "passing; the time of their allocation counts), or custom_kernel(data)",
        ),
    ]
    parts += about_solutions
    if definition.constraints:
        parts.append(Part("constraints", Basis.MISSING, "are not checked: the workloads are taken to meet them"))
    return Imported(task_name(definition.name), path, NAME, {"task.yml": task, **files, **solutions}, tuple(parts))


def _is_definition(path: Path) -> bool:
    try:
        found = msgspec.json.decode(read_bytes(path, FILE_BYTES_MAX))
    except (InputError, msgspec.DecodeError, RecursionError):
        return False
    return isinstance(found, dict) and {"name", "axes", "inputs", "outputs", "reference"} <= set(found)


def _decoded(text: str, path: Path) -> Definition:
    try:
        return msgspec.json.decode(text.encode(), type=Definition)
    except (msgspec.DecodeError, RecursionError) as error:
        raise refused(path, [Fault("", one_line(str(error), 300))]) from error


def _faults(definition: Definition) -> Iterator[Fault]:
    """Yield the reasons why a definition cannot be judged."""
    named = (("axes", definition.axes), ("inputs", definition.inputs), ("outputs", definition.outputs))
    for key, names in named:
        for name in names:
            if not re.fullmatch(CASE_KEY, name) or name == "seed":
                yield Fault(key, f'"{one_line(name, 80)}" is not the name of an argument')
    if not definition.outputs:
        yield Fault("outputs", "has no tensor")
    if double := sorted(set(definition.inputs) & {*definition.outputs, *definition.axes}):
        yield Fault("inputs", f"{', '.join(double)} is the name of an output or an axis, too")
    for name, tensor in {**definition.inputs, **definition.outputs}.items():
        if tensor.dtype not in _STORED_AS:
            yield Fault(name, f'the type "{one_line(tensor.dtype, 80)}" is not supported')
        unknown = [axis for axis in tensor.shape or [] if axis not in definition.axes]
        if unknown:
            yield Fault(name, f"unknown axis {one_line(', '.join(unknown), 200)}")
    if definition.op_type == _SAMPLED:
        yield Fault("op_type", "sampling is judged by the frequencies of many answers, which this judge does not count")
    entry = definition.custom_inputs_entrypoint
    if entry is not None and not re.fullmatch(CASE_KEY, entry):
        yield Fault("custom_inputs_entrypoint", f'"{one_line(entry, 80)}" is not the name of a function')


def _workloads(path: Path, root: Path, definition: Definition) -> tuple[str, list[_Workload], list[Part]]:
    """Return the place of a definition's workloads, those that can be read, and the account of the others."""
    beside = [path.parent / name for name in _WORKLOADS]
    name = f"{definition.name}.jsonl" if "/" not in definition.name else ""
    folder = root / "workloads"
    found = [*beside, *(sorted(folder.rglob(name))[:1] if name and folder.is_dir() else [])]
    file = next(iter(_within(root, found)), None)
    if file is None:
        fixed = all(axis.type != "var" for axis in definition.axes.values())
        return "workloads", [_Workload({})] if fixed else [], []
    workloads, wrong = [], []
    for number, line in enumerate(read_bytes(file, _WORKLOAD_BYTES_MAX).splitlines()[:_WORKLOADS_MAX], start=1):
        if line.strip():
            try:
                workloads.append(_workload(line, definition.name))
            except (msgspec.DecodeError, RecursionError, _NoCase) as error:
                wrong.append(f"line {number}: {one_line(str(error), 200)}")
    return file.name, workloads, [Part(file.name, Basis.MISSING, each) for each in wrong[:_REASONS_MAX]]


def _workload(line: bytes, definition: str) -> _Workload:
    """Return the workload of a line: a trace of this definition, or in SOL-ExecBench the workload itself."""
    if "workload" in msgspec.json.decode(line, type=dict[str, msgspec.Raw]):
        trace = msgspec.json.decode(line, type=_Trace)
        if trace.definition not in (None, definition):
            raise _NoCase(f"it is a workload of {one_line(trace.definition, 80)}, not of {definition}")
        return trace.workload
    return msgspec.json.decode(line, type=_Workload)


def _cases(
    definition: Definition, workloads: Sequence[_Workload], embedded: "_Embedded", size_max: int | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a case for each workload that can be judged, and the reasons for the others."""
    cases, reasons = dict[str, dict[str, Any]](), list[str]()
    variable = [name for name, axis in definition.axes.items() if axis.type == "var"]
    for number, workload in enumerate(workloads, start=1):
        try:
            case: dict[str, Any] = {}
            for name in variable:
                value = workload.axes.get(name)
                if value is None or not 0 <= value < AXIS_END:
                    raise _NoCase(f"the axis {name} has no value from 0 to {AXIS_END - 1:,}")
                case[name] = capped(value, size_max)
            for name, given in workload.inputs.items():
                if name in definition.inputs:
                    case |= _given(name, given, definition, case, embedded)
            for name, tensor in definition.inputs.items():
                if tensor.shape is None and name not in workload.inputs and not definition.custom_inputs_entrypoint:
                    raise _NoCase(f"it has no value of the scalar {name}")
            if len(case) >= ARGUMENTS_MAX:
                raise _NoCase(f"it has {len(case)} arguments (limit {ARGUMENTS_MAX - 1})")
        except _NoCase as error:
            reasons.append(f"workload {number} is left out: {error}")
            continue
        cases.setdefault(json.dumps(case), case)
    return list(cases.values()), reasons


def _solutions(root: Path, definition: Definition) -> tuple[dict[str, str], list[Part]]:
    """Return a file to submit for each solution in Python beside a trace set's definitions, and the account of all."""
    files, parts, unread = dict[str, str](), list[Part](), 0
    paths = sorted((root / "solutions").rglob("*.json"))
    for path in _within(root, paths[:_FOLDERS_MAX]):
        try:
            text = read_bytes(path, FILE_BYTES_MAX)
            solution = msgspec.json.decode(text, type=_Solution) if definition.name.encode() in text else None
        except (InputError, msgspec.DecodeError, RecursionError):
            unread += 1
            continue
        if solution is None or solution.definition != definition.name:
            continue
        name, language = f"solution {one_line(solution.name, 80)}", one_line(solution.spec.language, 80)
        if language not in _IN_PYTHON:
            parts.append(Part(name, Basis.MISSING, f"is in {language}, whose binding to Python is not built here"))
        elif len(solution.sources) != 1:
            parts.append(Part(name, Basis.MISSING, f"has {len(solution.sources)} files: a submission is one"))
        elif (file := f"solution_{task_name(solution.name)}.py") in files:
            parts.append(Part(name, Basis.MISSING, f"{file} is the file of another one"))
        else:
            files[file] = _submission(solution)
            parts.append(Part(name, Basis.TAKEN, f"{file}, to submit ({language})"))
    if unread:
        parts.append(Part("solutions", Basis.MISSING, f"files that cannot be read: {unread}"))
    if len(paths) > _FOLDERS_MAX:
        parts.append(Part("solutions", Basis.MISSING, f"files after the first {_FOLDERS_MAX:,} are not read"))
    return files, parts


def _submission(solution: _Solution) -> str:
    """Return a solution as the adapter takes it: the function `run`, and whether that writes the outputs."""
    style = f"destination_passing_style = {solution.spec.destination_passing_style}\n"
    entry = solution.spec.entry_point.rpartition("::")[2]
    alias = "" if entry == "run" else f"run = {entry}\n"
    head = f"#!POPCORN leaderboard {task_name(solution.definition)}\n"
    return f"{head}{solution.sources[0].content.rstrip()}\n\n\n{style}{alias}"


class _NoCase(Exception):
    """A workload that cannot be a case."""


def _given(
    name: str, given: _Input, definition: Definition, axes: Mapping[str, int], embedded: "_Embedded"
) -> dict[str, Any]:
    """Return the argument of a case for an input that a workload states."""
    if given.type == "scalar":
        if not math.isfinite(given.value):
            raise _NoCase(f"{name} is not a finite number")
        return {name: given.value}
    if given.type == "safetensors":
        tensor = definition.inputs[name]
        known = {**{axis: each.value for axis, each in definition.axes.items()}, **axes}
        return {name: embedded.file_of(given, tensor.dtype, [known[axis] for axis in tensor.shape or []])}
    if given.type == "custom" and definition.custom_inputs_entrypoint is None:
        raise _NoCase(f"{name} is custom, but the definition names no custom_inputs_entrypoint")
    return {}


class _Embedded:
    """Tensors of safetensors files below `root`, as text files of the task; only small ones fit."""

    def __init__(self, root: Path) -> None:
        self.files: dict[str, str] = {}
        self._root = root.resolve()
        self._known: dict[tuple[str, str], str] = {}

    def file_of(self, given: _Input, dtype: str, shape: list[int]) -> str:
        """Return the name of the task's file with a tensor.

        Raises:
            _NoCase: it cannot be read, has another form, or is too large.
        """
        place = (given.path, given.tensor_key)
        if place not in self._known:
            if len(self.files) == _EMBEDDED_MAX:
                raise _NoCase(f"a task holds {_EMBEDDED_MAX} stored tensors at most")
            name = f"reference_tensor_{len(self.files)}.txt"
            self.files[name] = base64.b64encode(self._bytes_of(given, dtype, shape)).decode()
            self._known[place] = name
        return self._known[place]

    def _bytes_of(self, given: _Input, dtype: str, shape: list[int]) -> bytes:
        shown, relative = one_line(given.path, 200), PurePosixPath(given.path)
        try:
            path = (self._root / relative).resolve()
            if not path.is_relative_to(self._root):
                raise _NoCase(f"{shown} is outside of {self._root}")
            data = read_bytes(path, _TENSOR_FILE_BYTES_MAX)
        except (OSError, RuntimeError, ValueError) as error:
            raise _NoCase(f"{shown} cannot be read: {error}") from error
        except InputError as error:
            raise _NoCase(error.message) from error
        size = int.from_bytes(data[:8], "little")
        try:
            if not 0 < size <= _HEADER_BYTES_MAX:
                raise ValueError("no header")
            head = msgspec.json.decode(data[8 : 8 + size], type=dict[str, Any])
            entry = head[given.tensor_key]
            begin, end = entry["data_offsets"]
            found = entry["dtype"], list(entry["shape"]), data[8 + size + begin : 8 + size + end]
        except (msgspec.DecodeError, RecursionError, KeyError, TypeError, ValueError) as error:
            raise _NoCase(f"{shown} has no readable tensor {one_line(given.tensor_key, 80)}") from error
        stored, item = _STORED_AS[dtype]
        if found[:2] != (stored, shape) or len(found[2]) != item * math.prod(shape):
            raise _NoCase(f"{one_line(given.tensor_key, 80)} in {shown} is not {dtype} of the shape {shape}")
        if len(found[2]) > _EMBEDDED_BYTES_MAX:
            raise _NoCase(f"{shown}: {len(found[2]):,} bytes do not fit into a task (limit {_EMBEDDED_BYTES_MAX:,})")
        return found[2]


def _tolerance(definition: Definition, workloads: Sequence[_Workload]) -> tuple[dict[str, Any], list[Part]]:
    """Return the tolerance of a task, and its account: the loosest that a workload states, else that of FlashInfer."""
    stated = [each.tolerance for each in workloads if each.tolerance is not None]
    if stated:
        loosest = _Tolerance(
            max(each.max_atol for each in stated),
            max(each.max_rtol for each in stated),
            min(each.required_matched_ratio for each in stated),
        )
        told = f"of SOL-ExecBench: |difference| <= {loosest.max_atol:g} + {loosest.max_rtol:g} |y|"
        basis = Basis.TAKEN if all(each == loosest for each in stated) else Basis.GUESSED
        told += "" if basis is Basis.TAKEN else ", the loosest of the workloads"
    else:
        loosest = _Tolerance(required_matched_ratio=0.95 if definition.op_type == "moe" else 1.0)
        told, basis = "of flashinfer-bench by default: |difference| <= 0.01, or <= 0.01 |y|", Basis.GUESSED
    if loosest.required_matched_ratio < 1:
        told += f", for {100 * loosest.required_matched_ratio:g} % of the elements"
    found = {
        "atol": loosest.max_atol,
        "rtol": loosest.max_rtol,
        "required_matched_ratio": loosest.required_matched_ratio,
        "added": bool(stated),
    }
    return found, [Part("tolerance", basis, f"{told} (import.json)")]


def _about_inputs(definition: Definition, workloads: Sequence[_Workload]) -> Iterator[Part]:
    kinds = {given.type for each in workloads for given in each.inputs.values()}
    if definition.custom_inputs_entrypoint is not None:
        yield Part("custom inputs", Basis.TAKEN, f"made by {definition.custom_inputs_entrypoint} of the reference")
    if "random" in kinds:
        yield Part("random inputs", Basis.TAKEN, "normal numbers, and integers of the same ranges, by secret seeds")
    if "safetensors" in kinds:
        yield Part("stored inputs", Basis.TAKEN, "the same in each call: a seed changes only the other inputs")


def _description(definition: Definition, names: str, outputs: str) -> str:
    forms = [
        f"- `{name}`: {tensor.dtype}" + ("" if tensor.shape is None else f" [{', '.join(tensor.shape)}]")
        for name, tensor in {**definition.inputs, **definition.outputs}.items()
    ]
    constants = [f"{name} = {axis.value}" for name, axis in definition.axes.items() if axis.type == "const"]
    head = (definition.description or definition.name).strip()
    lines = [head, "", f"Write `run({names})`, which returns {outputs}, or `run({names}, {outputs})`.", "", *forms]
    return "\n".join([*lines, "", *([f"Constant axes: {', '.join(constants)}."] if constants else [])]).strip() + "\n"
