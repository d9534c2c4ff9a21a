"""`eval-code`: the source of the programs that evaluate submissions."""

import ast
import io
import zipfile
from collections.abc import Mapping

import click

from hpc_board.catalog.contract import parsed
from hpc_board.cli.options import Open, command, task_names
from hpc_board.cli.output import print_blocks, print_file, print_json, remark
from hpc_board.domain.catalog import require_texts
from hpc_board.errors import InputError
from hpc_board.harness.bundle import harness_bytes
from hpc_board.model.eval_program import eval_program
from hpc_board.model.names import suggestion
from hpc_board.model.task import OWN, Task
from hpc_board.report.blocks import Block, Column, Heading, Paragraph, table
from hpc_board.report.views.tasks import EvalCodeView

_FOLDER = "hpc_board/harness/"
_DECIDING = (
    "judge/judge.py",
    "worker/worker.py",
    "measure/phases.py",
    "measure/row_benchmarks.py",
    "measure/bench.py",
    "measure/timing.py",
    "measure/consistency.py",
)
"""The files that decide on correctness and times, in reading order."""

_COMPILING = ("build/toolchain.py", "build/builder.py", "worker/compiled.py")
_LANGUAGES = ("py", "cpp", "cu", "hip")
_LISTED_MAX = 12
"""The most files that a hint names."""


@command(
    "hpc-board eval-code",
    "hpc-board eval-code --file judge.py",
    "hpc-board eval-code vectoradd --language cpp",
)
@click.argument("name", metavar="[TASK]", required=False, shell_complete=task_names)
@click.option("--language", metavar="L", type=click.Choice(_LANGUAGES), help="Only the programs for submissions in L.")
@click.option("--file", "file_name", metavar="F", help="Print this file of the judge or of the task's eval.")
def eval_code(open_: Open, name: str | None, language: str | None, file_name: str | None, as_json: bool) -> None:
    """Show the programs that evaluate submissions.

    Without TASK, and for tasks with `harness: isolated`, lists the files of
    the judge that runs in every job; --file prints one of them. For a task
    with its own eval program, prints that program.
    """
    task = None if name is None else open_().tasks.get(name)
    if task is not None and language is not None and language not in task.accepted:
        raise InputError(
            f"{task.name} does not accept submissions in {language}.", hint=f"It accepts {', '.join(task.accepted)}."
        )
    own = task if task is not None and task.harness == OWN else None
    if own is not None:
        require_texts(own)
    files = _judge_files() if own is None else _own_files(own)
    if file_name is not None:
        print_file(_file(files, file_name))
    elif as_json:
        about = {} if own else {name: _about(text) for name, text in files.items()}
        print_json(EvalCodeView.of(task.name if task else None, own.harness if own else None, files, about))
    elif own is not None:
        _print_own(own, files)
    else:
        print_blocks(*_judge_blocks(files, language))


def _file(files: Mapping[str, str], wanted: str) -> str:
    """Return the text of the file with the path, or the unique name, `wanted`."""
    found = [path for path in files if path == wanted or path.endswith(f"/{wanted}")]
    if len(found) != 1:
        names = {path.rpartition("/")[2] for path in files}
        raise InputError(
            f"unknown file {wanted}.{suggestion(wanted, names)}",
            hint=f"Files: {', '.join(files)}."
            if len(files) <= _LISTED_MAX
            else "`hpc-board eval-code` lists the files.",
        )
    return files[found[0]]


def _print_own(task: Task, files: Mapping[str, str]) -> None:
    first, *others = files
    print_file(files[first])
    more = f"; other files (--file): {', '.join(others)}" if others else ""
    remark(f"{first} is the task's own eval program and runs in the kernel's process{more}.")
    remark(f"`hpc-board task {task.name} --file F` prints the other files of the task.")


def _own_files(task: Task) -> dict[str, str]:
    """Return the files of a task's own eval that are run or compiled, without the submission."""
    program, _ = eval_program(task)
    names = [program.main] if program.main else list(program.sources)
    texts = {name: task.text(name) for name in names}
    return {name: text for name, text in texts.items() if text is not None}


def _judge_files() -> dict[str, str]:
    """Return the sources in the harness file, which every job runs."""
    with zipfile.ZipFile(io.BytesIO(harness_bytes())) as archive:
        names = sorted(
            name for name in archive.namelist() if name.startswith(_FOLDER) and not name.endswith("/__init__.py")
        )
        found = {name.removeprefix(_FOLDER): archive.read(name).decode() for name in names}
    first = [*_DECIDING, *_COMPILING]
    return {name: found[name] for name in (*first, *(each for each in found if each not in first))}


def _judge_blocks(files: Mapping[str, str], language: str | None) -> list[Block]:
    shown = _DECIDING if language == "py" else (*_DECIDING, *_COMPILING)
    return [
        Heading("The judge"),
        Paragraph(
            "A submission runs in its own process, the worker. A second process, the judge, imports the task's "
            "reference, generates the inputs from secret seeds and checks every output, including those of timed "
            "calls. A third process, the supervisor, owns the clock and the verdict. The task's own input generator "
            "and checks are in its reference.py, which a service does not publish; on a personal board, `hpc-board "
            "task TASK --file reference.py` prints it."
        ),
        table(
            shown,
            (Column("FILE"), str),
            (Column("LINES", right=True), lambda name: str(len(files[name].splitlines()))),
            (Column("PURPOSE", flexible=True), lambda name: _about(files[name])),
        ),
        Paragraph(
            f"These files decide the verdict; {len(files) - len(shown)} more files of the harness start and confine "
            "processes and report results. hpc-board eval-code --file judge.py prints one of them."
        ),
    ]


def _about(text: str) -> str:
    """Return the first paragraph of a Python module's docstring."""
    try:
        described = ast.get_docstring(parsed(text)) or ""
    except SyntaxError:
        return ""  # a header for compilers
    return described.split("\n\n", maxsplit=1)[0].replace("\n", " ")
