"""Tasks of one file, from before there was a `task.yml`: the folder that such a reference makes.

In Python it defines `generate_input()`, `ref_kernel(data)` and `check_implementation(output, expected)`, and our judge
asks these. In C++ and CUDA it defines `generate_input()`, `reference(data)` and `check_implementation(output,
expected)`, beside which the submission's `submission(data)` is compiled; `eval.cpp` calls them.
"""

import ast
import json
from pathlib import Path

from hpc_board.catalog.contract import CHECK, GENERATOR, defined, parsed, signature
from hpc_board.domain.task_rules import FILE_BYTES_MAX
from hpc_board.errors import DocumentError, Fault
from hpc_board.files import read_text
from hpc_board.model.task import REFERENCE_ENTRY
from hpc_board.model.text import one_line, printable

ENDINGS = (".py", ".cu", ".cuh", ".cpp")
"""The extensions of a reference file."""

_FUNCTIONS = (GENERATOR, REFERENCE_ENTRY, CHECK)
_INPUTS = ("data", "inputs", "input")
_WHOLE = "reference_code.py"
_ADAPTER = '''\
"""Adapts reference_code.py, a task in one file, to the judge; its cases have no arguments."""

import reference_code


def {generator}():
    """The inputs of a call."""
    return reference_code.{generator}()


def {reference}(data):
    """The correct answer."""
    return reference_code.{reference}(data)


def {check}(data, output):
    """The file's own check of an answer; a failed assertion means that it is wrong."""
    try:
        return reference_code.{check}({arguments})
    except AssertionError as error:
        return False, str(error) or "an assertion of the check failed"
'''
_DOCUMENT = """\
files:
{files}
lang: {lang}
description: {description}
{config}tests: [{{}}]
benchmarks: [{{}}]
"""
_HINT = "A task with cases is a folder with a task.yml: `hpc-board task new NAME` writes one to start from."


def lay_out(path: Path, folder: Path) -> None:
    """Write the task that the reference at `path` makes into the empty `folder`.

    Raises:
        InputError: the file cannot be read.
        DocumentError: it lacks a part of such a reference, or is one of a task with cases.
    """
    text = read_text(path, FILE_BYTES_MAX)
    contents = _of_python(path, text) if path.suffix == ".py" else _of_compiled(path.suffix, text)
    for name, content in contents.items():
        (folder / name).write_text(content, encoding="utf-8")


def _of_python(path: Path, text: str) -> dict[str, str]:
    try:
        tree = parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        fault = Fault("", one_line(f"invalid Python: {error}", 500), getattr(error, "lineno", None) or 0)
        raise DocumentError(one_line(str(path), 300), [fault], hint="Correct this line.") from error
    names = defined(tree)
    faults = [Fault(name, "is not defined") for name in _FUNCTIONS if not names & {name, "*"}]
    generator, check = signature(text, GENERATOR), signature(text, CHECK)
    if generator is not None and generator.required:
        wanted = ", ".join(generator.required)
        faults.append(Fault(GENERATOR, f"needs {wanted}, but a single file has no cases to provide them"))
    if faults:
        raise DocumentError(one_line(str(path), 300), faults, hint=_HINT)
    takes_inputs = check is not None and check.names[:1] and check.names[0] in _INPUTS
    adapter = _ADAPTER.format(
        generator=GENERATOR,
        reference=REFERENCE_ENTRY,
        check=CHECK,
        arguments="data, output" if takes_inputs else f"output, {REFERENCE_ENTRY}(data)",
    )
    files = {"train.py": "@SUBMISSION@", "reference.py": "reference.py", _WHOLE: _WHOLE}
    description = ast.get_docstring(tree) or (
        f"Write `custom_kernel(data)`. For its argument and its result, see the task's file {_WHOLE}."
    )
    return {"task.yml": _document(files, "py", description), "reference.py": adapter, _WHOLE: text}


def _of_compiled(ending: str, text: str) -> dict[str, str]:
    on_cpu = ending == ".cpp"
    reference, submission, program = (
        ("reference.hpp", "train.cpp", "eval.cpp") if on_cpu else ("reference.cuh", "train.cuh", "eval.cu")
    )
    files = {program: program, reference: reference, submission: "@SUBMISSION@"}
    description = f"Define `submission(data)`. For its argument and its result, see the task's file {reference}."
    config = (
        f"config: {{sources: [{program}]}}\nhpc_board: {{harness: task, languages: [{'cpp' if on_cpu else 'cu'}]}}\n"
    )
    main = Path(__file__).with_name("eval.cpp").read_text(encoding="utf-8")
    for name, own in (("reference.cuh", reference), ("train.cuh", submission)):
        main = main.replace(f'"{name}"', f'"{own}"')
    return {"task.yml": _document(files, "cu", description, config), program: main, reference: text}


def _document(files: dict[str, str], lang: str, description: str, config: str = "") -> str:
    # JSON is YAML, too.
    entries = "\n".join(f"  - {json.dumps({'name': name, 'source': source})}" for name, source in files.items())
    return _DOCUMENT.format(files=entries, lang=lang, description=_quoted(description), config=config)


def _quoted(text: str) -> str:
    return json.dumps(printable(text), ensure_ascii=False)
