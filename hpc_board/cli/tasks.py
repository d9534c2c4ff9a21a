"""`list`, `gpus`, `task` and `template`: what there is to do, and on what."""

from datetime import UTC, datetime
from pathlib import Path

import click

from hpc_board.cli.options import Open, examples, force_option, json_option, task_names
from hpc_board.errors import InputError


@click.command("list", epilog=examples("hpc-board list", "hpc-board list --json"))
@json_option
@click.pass_obj
def list_(open_: Open, as_json: bool) -> None:
    """List the tasks with their deadlines and GPUs."""
    from hpc_board.cli.printing import print_blocks, print_json, remark
    from hpc_board.report import tasks_table

    board = open_()
    catalog = board.tasks()
    tasks = catalog.tasks
    gpus = {task.name: board.allowed_gpus(task) for task in tasks}
    for fault in catalog.faults:
        remark(f"Left out: {fault}")
    if as_json:
        from hpc_board.cli.json_output import task_object

        print_json([task_object(task, gpus[task.name]) for task in tasks])
    else:
        print_blocks(tasks_table(tasks, gpus, datetime.now(UTC)))


@click.command(epilog=examples("hpc-board gpus", "hpc-board gpus --json"))
@json_option
@click.pass_obj
def gpus(open_: Open, as_json: bool) -> None:
    """List the GPUs: partition, how many are free, jobs waiting."""
    from hpc_board.cli.printing import print_blocks, print_json
    from hpc_board.report import gpus_table

    statuses = open_().gpus()
    if as_json:
        from hpc_board.cli.json_output import gpu_object

        print_json([gpu_object(status) for status in statuses])
    else:
        print_blocks(gpus_table(statuses))


@click.command(
    epilog=examples(
        "hpc-board task vectoradd_py",
        "hpc-board task vectoradd_py --file reference.py",
        "hpc-board task vectoradd_py --json",
    )
)
@click.argument("name", shell_complete=task_names)
@click.option("--file", "file_name", metavar="F", help="Print this file of the task, and nothing else.")
@json_option
@click.pass_obj
def task(open_: Open, name: str, file_name: str | None, as_json: bool) -> None:
    """Show a task: description, rules, cases, files.

    Everything that a participant may read, the reference among it, can be printed with --file.
    """
    from hpc_board.cli.printing import print_blocks, print_json
    from hpc_board.model.names import suggestion
    from hpc_board.report import task_report

    board = open_()
    found = board.task(name)
    allowed = board.allowed_gpus(found)
    if file_name is not None:
        text = found.text(file_name)
        if text is None:
            names = [file.name for file in found.files if file.text is not None]
            raise InputError(
                f"task {found.name} has no file {file_name} to show.{suggestion(file_name, names)}",
                hint=f"Its files are: {', '.join(names)}.",
            )
        click.echo(text.encode(), nl=False)
    elif as_json:
        from hpc_board.cli.json_output import task_details

        print_json(task_details(found, allowed))
    else:
        print_blocks(*task_report(found, allowed, datetime.now(UTC)))


@click.command(
    epilog=examples(
        "hpc-board template vectoradd_py > kernel.py",
        "hpc-board template vectoradd --language C++ -o kernel.cpp",
        "hpc-board template vectoradd --header -o hpc_board.h",
    )
)
@click.argument("name", shell_complete=task_names)
@click.option("--language", metavar="L", help="Python, Triton, C++, CUDA, HIP, where the task has several.")
@click.option("--header", is_flag=True, help="Print hpc_board.h, which compiled submissions include.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE, not to stdout.")
@force_option
@click.pass_obj
def template(open_: Open, name: str, language: str | None, header: bool, output: Path | None, force: bool) -> None:
    """Print a file to start from.

    Its header has the task's name, so that `submit` knows where it belongs.
    """
    from hpc_board.cli.files import write_file
    from hpc_board.cli.printing import remark
    from hpc_board.cli.starter import compiled_header, starter

    found = open_().task(name)
    if header and language is not None:
        raise InputError("--header and --language exclude each other.", hint="Give one of them.")
    text = compiled_header() if header else starter(found, language)
    if output is None:
        click.echo(text.encode(), nl=False)
        return
    write_file(output, text.encode(), force=force)
    if header:
        remark(f"The header for compiled submissions is in {output}.")
    else:
        remark(f"A start for {found.name} is in {output}; `hpc-board submit {output} --mode test --wait` tries it.")
