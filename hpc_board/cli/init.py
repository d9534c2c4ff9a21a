"""`admin init`: a new board's folder and settings file, for one account or for a service."""

import os
import re
from pathlib import Path

import click

from hpc_board.accounts import home
from hpc_board.admin.detect import settings_of_this_machine
from hpc_board.cli.options import JsonCommand, examples, json_option
from hpc_board.cli.output import print_json, remark
from hpc_board.errors import InputError
from hpc_board.files import new_file
from hpc_board.report.views import view_of
from hpc_board.report.views.setup import InitView, StepView, ThingView
from hpc_board.service.next_steps import numbers
from hpc_board.service.setup import become, set_up
from hpc_board.settings_file import FILE_MODE
from hpc_board.store.folder import create_board_folder

_FILE = Path("hpc-board.yaml")
_COMMENTED_KEY = re.compile(r"^ *# *[a-z_]+: ", re.MULTILINE)


@click.command(
    cls=JsonCommand,
    epilog=examples(
        "hpc-board admin init",
        "hpc-board admin init /srv/kernels/board --serve",
        "hpc-board admin init /srv/kernels/board --serve --user hpc-board",
        "hpc-board admin init ~/kernels --serve --from /shared/kernels",
    ),
)
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@click.option("--serve", is_flag=True, help="Set up a service through which other accounts use the board.")
@click.option(
    "--socket",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Unix socket of the service. Default: in FOLDER-service.",
)
@click.option(
    "--from",
    "former",
    metavar="BOARD",
    type=click.Path(path_type=Path),
    help="Folder of an existing board, such as a group's, or a backup to import.",
)
@click.option("--user", metavar="ACCOUNT", help="The service's account, if root runs this command.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Settings file to write. Default: hpc-board.yaml in the current folder, or in FOLDER-service.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing settings file of a personal board.")
@json_option
def init(
    folder: Path | None,
    output: Path | None,
    socket: Path | None,
    user: str | None,
    former: Path | None,
    *,
    serve: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Create the FOLDER of a board and its settings file.

    FOLDER defaults to ~/hpc-board and must be visible to compute nodes. The settings list the GPUs that `admin
    detect` finds, or, without Slurm, those of this machine. No job is sent.

    With --serve, it also writes settings for participants and a systemd unit to FOLDER-service, and prints the
    remaining steps. An existing board of this account and existing files are not changed. --from copies the
    database of another board, which must have no runs in flight.
    """
    if not serve and (socket or user or former):
        raise click.UsageError("--socket, --user and --from require --serve.")
    if serve and force:
        raise click.UsageError("--serve and --force are mutually exclusive: --serve never overwrites files.")
    view = _served(folder, output, socket, former, user) if serve else _personal(folder, output or _FILE, force=force)
    if as_json:
        print_json(view)
        return
    for each in view.remarks:
        remark(each)
    for thing in view.things:
        remark(f"{'Created' if thing.made else 'Kept'} {thing.what}: {thing.path}")
    if not serve or view.gpus:
        remark(f"Settings written to {view.settings}, with {', '.join(view.gpus) or 'no GPU'}.")
    if not serve:
        to_fill = _COMMENTED_KEY.search(Path(view.settings).read_text(encoding="utf-8"))
        first = "Fill in the commented-out keys (#). Then run" if to_fill else view.steps[0].what
        remark(f"{first}: {view.steps[0].lines[0]}")
        return
    for step in view.steps:
        click.echo(f"{step.number}. {step.what}")
        # A shell finds the end of a file's text only at the start of a line.
        for line in step.lines:
            click.echo(line)


def _served(
    folder: Path | None, output: Path | None, socket: Path | None, former: Path | None, user: str | None
) -> InitView:
    by_root = os.geteuid() == 0
    if by_root and user is None:
        raise InputError(
            "running as root; a service needs only the privileges of a regular account.",
            hint="Name its account with --user ACCOUNT. To create one: useradd --system --create-home hpc-board",
        )
    if user is not None:
        become(user)
    made = set_up(
        _board(folder),
        settings=_whole(output),
        socket=_whole(socket),
        former=_whole(former),
        by_root=by_root,
    )
    numbered = zip(numbers(made.steps), made.steps, strict=True)
    return view_of(InitView, made, steps=[view_of(StepView, step, number=number) for number, step in numbered])


def _personal(folder: Path | None, output: Path, *, force: bool) -> InitView:
    board = _board(folder)
    detected = settings_of_this_machine(board)
    with new_file(output, force=force, most=FILE_MODE) as file:
        made = create_board_folder(board)
        file.write(detected.text.encode())
    return InitView(
        settings=str(output),
        socket=None,
        gpus=list(detected.gpus),
        things=[ThingView(what="board", path=str(board), made=made)],
        steps=[StepView(number="1", what="Test the GPUs", lines=[f"hpc-board --config {output} admin check"])],
        remarks=[" ".join(filter(None, (each.message, each.hint))) for each in detected.diagnostics],
    )


def _whole(path: Path | None) -> Path | None:
    return None if path is None else _expanded(path)


def _board(folder: Path | None) -> Path:
    board = home(os.environ) / "hpc-board" if folder is None else _expanded(folder)
    if not str(board).isprintable():
        raise InputError("the path of the board's folder contains unprintable characters.")
    return board


def _expanded(path: Path) -> Path:
    """Return the absolute path: a shell expands no `~` that is quoted or follows a `=`."""
    return Path(os.path.expanduser(path)).absolute()  # noqa: PTH111 - leaves the `~` of an unknown user
