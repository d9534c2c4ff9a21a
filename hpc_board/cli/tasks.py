"""`list`, `gpus`, `task` and `template`: tasks, GPUs, templates, and checks of tasks in development."""

import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hpc_board.cli.exits import NO_VERDICT, NOT_PASSED, Group, exit_code_of_trial
from hpc_board.cli.global_options import is_quiet
from hpc_board.cli.options import (
    PATH_OR_NAME,
    JsonCommand,
    Number,
    Open,
    command,
    examples,
    force_option,
    format_option,
    json_option,
    mode_option,
    python_option,
    task_names,
    template_names,
)
from hpc_board.cli.output import print_blocks, print_done, print_file, print_json, refresh, remark
from hpc_board.domain.catalog import require_texts
from hpc_board.domain.imported import Basis
from hpc_board.errors import DocumentError, InputError
from hpc_board.files import user_errors, write_file, write_new_folder
from hpc_board.model.gpu import Device, Gpu
from hpc_board.model.names import NAME, NAME_WORDS, suggestion
from hpc_board.model.task import Language, Task
from hpc_board.model.text import one_line
from hpc_board.report.tasks import gpus_table, task_report, tasks_table

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from hpc_board.board import Board
    from hpc_board.domain.imported import Imported
    from hpc_board.domain.moderation import GpuLimit, Limits


device_option = click.option(
    "--device", type=click.Choice(["cpu", "cuda", "hip"]), default="cpu", show_default=True, help="Device of the judge."
)


@command("hpc-board list", "hpc-board list --json", name="list")
def list_(open_: Open, as_json: bool) -> None:
    """List the tasks with their deadlines and GPUs."""
    board = open_()
    catalog = board.tasks.catalog()
    tasks = catalog.tasks
    gpus = {each.name: board.gpus.allowed(each) for each in tasks}
    for fault in catalog.faults:
        remark(f"Skipped: {fault}")
    if catalog.replaced:
        remark(f"User boards replace the settings' tasks {', '.join(catalog.replaced)}.")
    for each in tasks:
        if each.warnings:
            more = f" {len(each.warnings) - 1} more:" if len(each.warnings) > 1 else " More:"
            remark(f"{each.name}: task.yml, {each.warnings[0]}{more} hpc-board task check {each.name}")
    unreadable = bool(catalog.faults) and not tasks
    if as_json:
        from hpc_board.report.views.tasks import TaskView

        boards = {each.name: each for each in board.leaderboards.list()}
        print_json([TaskView.of(each, gpus[each.name], boards.get(each.name)) for each in tasks])
    elif not unreadable:
        print_blocks(tasks_table(tasks, gpus, datetime.now(UTC)))
    if unreadable:
        raise InputError("no task can be read.", hint="Correct the faults above, or `tasks` in the settings.")


@command("hpc-board gpus", "hpc-board gpus --json")
def gpus(open_: Open, as_json: bool) -> None:
    """List the GPUs: partition, free GPUs, waiting jobs.

    The remark names the users who hold a GPU by `hpc-board hold`. The exit code is 3 if no scheduler answers.
    """
    board = open_()
    if board.runners.live():
        refresh(board)
    statuses, runners = board.gpus.statuses(), board.runners.live()
    if as_json:
        from hpc_board.report.views.usage import GpuView

        print_json([GpuView.of(status, runners, datetime.now(UTC)) for status in statuses])
    else:
        print_blocks(gpus_table(statuses, datetime.now(UTC), runners, board.user))
    if statuses and all(status.problem for status in statuses):
        raise click.exceptions.Exit(NO_VERDICT)


class _ShownByDefault(Group):
    """A group that takes an unknown command as the argument of `show`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        completing = ctx.resilient_parsing and not args
        if not completing and (not args or args[0] not in (*self.commands, *self.get_help_option_names(ctx))):
            args = ["show", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        names = task_names(ctx, click.Argument(["name"]), incomplete)
        return [*super().shell_complete(ctx, incomplete), *map(CompletionItem, names)]


@click.group(
    cls=_ShownByDefault,
    subcommand_metavar="TASK | COMMAND ...",
    epilog=examples(
        "hpc-board task vectoradd_py",
        "hpc-board task vectoradd_py --file reference.py",
        "hpc-board task start vectoradd_py",
        "hpc-board task new my_task",
        "hpc-board task check ./my_task",
    ),
)
def task() -> None:
    """Show a task, start to work on it, or develop a new one.

    `task TASK` is short for `task show TASK`. A task with the name of a
    command, such as "check", needs the long form.
    """


@command(
    "hpc-board task vectoradd_py",
    "hpc-board task vectoradd_py --file reference.py",
    "hpc-board task vectoradd_py --json",
    name="show",
)
@click.argument("name", metavar="TASK", shell_complete=task_names)
@click.option("--file", "file_name", metavar="F", help="Print only this file of the task.")
def show_task(open_: Open, name: str, file_name: str | None, as_json: bool) -> None:
    """Show a task: description, rules, cases, files.

    --file prints any file that participants may read, including the reference.
    """
    from hpc_board.report.boards import created_report
    from hpc_board.report.moderation import limits_facts

    board = open_()
    found = board.tasks.get(name)
    allowed, created = board.gpus.allowed(found), board.leaderboards.get(name)
    if file_name is not None:
        text = found.text(file_name)
        if text is None:
            names = [file.name for file in found.files if file.text is not None]
            raise InputError(
                f"task {found.name} has no text file {file_name}.{suggestion(file_name, names)}",
                hint=f"Its files: {', '.join(names)}.",
            )
        require_texts(found)
        print_file(text)
    elif as_json:
        from hpc_board.report.views.tasks import WholeTaskView

        print_json(WholeTaskView.with_limits(found, allowed, created, *_limits(board, found.name)))
    else:
        print_blocks(
            *task_report(found, [gpu.name for gpu in allowed], datetime.now(UTC)),
            *limits_facts(*_limits(board, found.name)),
            *(created_report(created) if created else ()),
        )


def _limits(board: "Board", name: str) -> "tuple[tuple[Limits, ...], GpuLimit | None]":
    """Return the limits on submissions to a task, and that on GPU time."""
    of_gpus = board.moderation.gpu_limit()
    return board.leaderboards.limits(name), of_gpus and of_gpus[1]


@command(
    "hpc-board task check ./my_task",
    "hpc-board task check my_task.zip",
    "hpc-board task check vectoradd_py --cases 4",
    "hpc-board task check ./my_task --device cuda --json",
)
@click.argument("source", type=PATH_OR_NAME, shell_complete=task_names)
@device_option
@click.option("--cases", type=Number(10_000), metavar="N", help="Maximum number of cases; default: 20.")
@click.option("--seconds", type=Number(86_400), metavar="S", help="Start no new step after S seconds; default: 300.")
@python_option
@format_option
def check(
    open_: Open,
    *,
    source: str,
    device: str,
    cases: int | None,
    seconds: int | None,
    python: str | None,
    format_name: str | None,
    as_json: bool,
) -> None:
    """Test a task's judge with correct and bogus answers, and its templates.

    SOURCE is a task folder, a zip, a reference file, a competition with its
    folder of problems, or the name of an existing task. The judge runs on
    this machine. The exit code is 1 if submissions could cheat or none could
    pass, 2 if SOURCE is unreadable or has faults, 3 if this machine does not
    meet the judge's requirements.
    """
    from hpc_board.report.checks import check_report, checks_report
    from hpc_board.task_check import lint

    bounds = lint.Bounds(Device(device), python or sys.executable, cases or lint.CASES_MAX, seconds or lint.SECONDS)
    results = []
    for found in _source(open_, source, format_name):
        remark(
            f"Testing the judge of {found.name} on this machine's {_kind(device)}, for {bounds.seconds} s; a step "
            f"that hangs is ended after {lint.seconds_at_most(found, bounds)} s at the latest."
        )
        with _progress() as say:
            results.append(lint.check(found, bounds, say))
        if not as_json:
            checked = results[-1]
            if len(results) > 1:
                click.echo()
            print_blocks(
                *check_report(checked.task, checked.functions, checked.lint, checked.submissions, checked.findings)
            )
    if len(results) > 1 and not as_json:
        click.echo()
        print_blocks(*checks_report([(each.task, each.lint, each.findings) for each in results]))
    if as_json:
        from hpc_board.report.views.tasks import TaskCheckView

        objects = [
            TaskCheckView.of(each.task, each.functions, each.lint, each.submissions, each.findings, passed=each.passed)
            for each in results
        ]
        print_json(objects[0] if len(objects) == 1 else objects)
    if not all(checked.passed for checked in results):
        raise click.exceptions.Exit(NOT_PASSED)


@command(
    "hpc-board task test ./my_task --submission kernel.py",
    "hpc-board task test my_task.zip --submission kernel.cpp --mode ranked",
    "hpc-board task test ./my_task --submission kernel.cu --device cuda --json",
)
@click.argument("source", type=PATH_OR_NAME, shell_complete=task_names)
@click.option(
    "--submission", "file", metavar="FILE", required=True, type=click.Path(path_type=Path), help="File to judge."
)
@mode_option()
@device_option
@python_option
@format_option
def test(
    open_: Open,
    *,
    source: str,
    file: Path,
    mode: str | None,
    device: str,
    python: str | None,
    format_name: str | None,
    as_json: bool,
) -> None:
    """Judge a submission on this machine.

    SOURCE is one task, as for `task check`; it needs no board. The judge runs
    as in a job, and nothing is stored. The header of FILE and the GPUs and
    deadline of the task are ignored. The exit code is 1 if FILE did not pass
    or the task failed, 2 if one is unreadable or they do not match, 3 if this
    machine does not meet the judge's requirements.
    """
    from hpc_board.report.runs import trial_report
    from hpc_board.runs import drafts
    from hpc_board.task_check.local_job import try_out

    submission, asked = drafts.read_source(file), drafts.mode_called(mode)
    found = _source(open_, source, format_name)
    if len(found) > 1:
        raise InputError(
            f"{source} has {len(found)} tasks: {', '.join(each.name for each in found)}.", hint="Give one of them."
        )
    remark(f"Judging {submission.file_name} for {found[0].name} in mode {asked}, on this machine's {_kind(device)}.")
    trial = try_out(submission, found[0], asked, device=Device(device), python=python or sys.executable)
    if as_json:
        from hpc_board.report.views.runs import TrialView

        print_json(TrialView.of(trial.run, trial.result, found[0].version))
    else:
        print_blocks(*trial_report(trial.run, trial.result))
    raise click.exceptions.Exit(exit_code_of_trial(trial.run))


@contextmanager
def _progress() -> Iterator[Callable[[str], object]]:
    """Yield a function that shows the present step on a terminal, until the block ends."""
    if is_quiet() or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status("") as status:
        yield lambda text: status.update(Text(text, overflow="ellipsis", no_wrap=True))


def _kind(device: str) -> str:
    """Return the name of a device's kind, as in reports."""
    return "CPU" if device == "cpu" else "GPU"


def _source(open_: Open, source: str, format_name: str | None) -> tuple[Task, ...]:
    """Return the tasks in the folder or file `source`, or the known task of that name."""
    from hpc_board.catalog.sources import names_a_path, tasks_without_faults

    if format_name is not None or names_a_path(source):
        return tasks_without_faults(Path(source), format_name)
    found = open_().tasks.get(source)
    require_texts(found)
    return (found,)


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "hpc-board task new my_task",
        "hpc-board task new my_task --language py --language cpp --language cu",
        "hpc-board task new tasks/my_task && hpc-board task check tasks/my_task",
    ),
)
@click.argument("folder", metavar="NAME", type=click.Path(path_type=Path))
@click.option(
    "--language",
    "languages",
    type=click.Choice(["py", "cpp", "cu", "hip"]),
    multiple=True,
    default=["py"],
    show_default=True,
    help="Language of submissions; may be repeated.",
)
@json_option
def new(folder: Path, languages: tuple[str, ...], as_json: bool) -> None:
    """Create the folder of a new task.

    The task is complete and passes `task check`: cases, a reference, helpers
    for comparisons, a template for each language, and notes on the choice of
    data and tolerances. NAME may be a path. Existing files are not changed.
    """
    from hpc_board.catalog import new_task
    from hpc_board.report.views.tasks import NewTaskView

    if not re.fullmatch(NAME, folder.name):
        raise InputError(f'"{folder.name}" is not a valid task name.', hint=f"Give {NAME_WORDS}.")
    files = new_task.files([Language(each) for each in dict.fromkeys(languages)])
    write_new_folder(folder, files)
    text = (
        f"New task written to {folder}; read {folder / new_task.NOTES} first.\n"
        f"`hpc-board task check {folder}` tests its judge."
    )
    print_done(NewTaskView(folder=str(folder), files=sorted(files)), text, as_json=as_json)


@click.command(
    name="import",
    cls=JsonCommand,
    epilog=examples(
        "hpc-board task import KernelBench/level1/1_Square_matrix_multiplication_.py --explain",
        "hpc-board task import KernelBench/level1 -o tasks --size-max 64",
        "hpc-board task import ./flashinfer-trace -o tasks",
    ),
)
@click.argument("source", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Parent of the new folders; default: the current folder.",
)
@format_option
@click.option("--size-max", type=Number(2**31), metavar="N", help="Replace larger sizes by N, to try a task on a CPU.")
@click.option("--explain", is_flag=True, help="Write nothing, and show what becomes of each part.")
@json_option
def import_(
    source: Path, output: Path | None, format_name: str | None, size_max: int | None, *, explain: bool, as_json: bool
) -> None:
    """Convert the problems of another benchmark to task folders.

    SOURCE is a file, a folder or a zip in the format of KernelBench, of
    FlashInfer Trace or SOL-ExecBench, or a Python file with the functions
    `reference` and `inputs`. None of its code is executed. Each problem becomes
    a folder with its own file, a task.yml and an adapter, for you to change.
    The exit code is 2 if some could not be read; the others are written.
    """
    from hpc_board.catalog.sources import read_imports
    from hpc_board.report.tasks import imports_report

    found = read_imports(source, format_name, size_max)
    faults = [each for each in found if isinstance(each, DocumentError)]
    tasks = [each for each in found if not isinstance(each, DocumentError)]
    if not tasks:
        raise faults[0]
    for fault in faults:
        remark(f"Skipped: {fault}")
    folders = [] if explain else [_written(each, output or Path()) for each in tasks]
    for each in tasks if folders else []:
        for part in each.parts:
            if part.basis is Basis.MISSING:
                remark(f"{one_line(each.name)}: {one_line(part.name)}: {one_line(part.became)}")
    if as_json:
        from hpc_board.report.views.tasks import ImportView

        print_json([ImportView.of(each, next(iter(folders[at : at + 1]), None)) for at, each in enumerate(tasks)])
    elif explain:
        print_blocks(*imports_report(tasks))
    for folder in folders:
        remark(f"Task written to {folder}. `hpc-board task check {shlex.quote(folder)}` tests its judge.")
    if faults:
        raise click.exceptions.Exit(InputError.exit_code)


def _written(task: "Imported", parent: Path) -> str:
    """Write the folder of an imported task, and return its path."""
    with user_errors(parent):
        parent.mkdir(parents=True, exist_ok=True)
    write_new_folder(parent / task.name, task.files)
    return str(parent / task.name)


@command(
    "hpc-board template vectoradd_py > kernel.py",
    "hpc-board template vectoradd --language C++ -o kernel.cpp",
    "hpc-board template matmul --language cuBLAS -o kernel.cu",
    "hpc-board template vectoradd --header -o hpc_board.h",
)
@click.argument("name", metavar="TASK", shell_complete=task_names)
@click.option(
    "--language",
    metavar="L",
    shell_complete=template_names,
    help="A language, a library or a DSL, such as CUDA, Triton or cuBLAS; default: by FILE's extension.",
)
@click.option("--header", is_flag=True, help="Print hpc_board.h, which compiled submissions include.")
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE instead of stdout."
)
@force_option
def template(
    open_: Open, name: str, language: str | None, header: bool, output: Path | None, force: bool, as_json: bool
) -> None:
    """Print a submission template.

    Its header names the task and its GPUs for `submit`, and has the task's
    description and deadline.
    """
    from hpc_board.catalog.template import compiled_header

    board = open_()
    found = board.tasks.get(name)
    if header and language is not None:
        raise click.UsageError("--header and --language are mutually exclusive.")
    if as_json and output is not None:
        raise click.UsageError("--json and --output are mutually exclusive.")
    if header:
        text, written = compiled_header(), f"Header for compiled submissions written to {output}."
    else:
        text, written = _starter(found, language, board.gpus.allowed(found), output)
    if as_json:
        from hpc_board.report.views.tasks import TemplateView

        print_json(TemplateView(task=found.name, text=text))
        return
    if output is None:
        print_file(text)
        return
    write_file(output, text.encode(), force=force)
    remark(written)


def _starter(task: Task, language: str | None, allowed: Sequence[Gpu], output: Path | None) -> tuple[str, str]:
    """Return the text of a task's template, and the remark for the file `output` with it."""
    from hpc_board.catalog.template import fitting_gpus, no_gpu, starter, template_name

    chosen = template_name(task, language, output.name if output else "")
    gpus = fitting_gpus(chosen, allowed)
    if allowed and not gpus:
        next_step = no_gpu(task, chosen, allowed)
    else:
        gpu = f" --gpu {shlex.quote(gpus[0].name)}" if len(allowed) > 1 else ""
        next_step = f"Test it: hpc-board submit {output} --mode test{gpu} --wait"
    return starter(task, chosen, allowed), f"Template of {task.name} written to {output}. {next_step}"


@command(
    "hpc-board task start softmax_py",
    "hpc-board task start matmul ~/tuning --language C++",
)
@click.argument("name", metavar="TASK", shell_complete=task_names)
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option(
    "--language",
    metavar="L",
    shell_complete=template_names,
    help="A language, a library or a DSL, such as CUDA or Triton; default: the task's own.",
)
def start(open_: Open, name: str, folder: Path | None, language: str | None, as_json: bool) -> None:
    """Create a folder to work on a task in.

    It has the kernel to change, the reference, and AGENTS.md, which tells a coding agent the commands to test, rank,
    compare and profile. FOLDER defaults to TASK. An existing folder is not changed.
    """
    from hpc_board.catalog import workplace
    from hpc_board.report.views.tasks import NewTaskView

    board = open_()
    found = board.tasks.get(name)
    files = workplace.files(found, language, board.gpus.allowed(found))
    place = folder or Path(found.name)
    write_new_folder(place, files)
    text = f"{', '.join(files)} written to {place}; {place / workplace.GUIDE} has the commands."
    print_done(NewTaskView(folder=str(place), files=sorted(files)), text, as_json=as_json)


for each in (show_task, start, check, test, new, import_):
    task.add_command(each)
