"""`admin init`: a new board's folder and settings file."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hpc_board.cli.options import examples
from hpc_board.errors import InputError
from hpc_board.model.text import one_line

if TYPE_CHECKING:
    from hpc_board.schedulers.settings_text import Detected


@click.command(
    epilog=examples(
        "hpc-board admin init",
        "hpc-board admin init /shared/kernels --group kernels -o /etc/hpc-board/config.yaml",
    )
)
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@click.option("--group", metavar="NAME", help="Unix group that shares the board; default: only you.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("hpc-board.yaml"),
    show_default=True,
    metavar="FILE",
    help="Settings file to write.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing settings file.")
def init(folder: Path | None, group: str | None, output: Path, *, force: bool) -> None:
    """Create the FOLDER of a board and its settings file.

    FOLDER defaults to ~/hpc-board; compute nodes must see it. The settings
    list the GPUs that `admin detect` finds, or, without Slurm, those of this
    machine. No job is sent.
    """
    from hpc_board.cli.output import remark
    from hpc_board.files import new_file
    from hpc_board.settings import FILE_MODE
    from hpc_board.store.sharing import create_board_folder

    board = _expanded(folder or Path("~/hpc-board")).absolute()
    if not str(board).isprintable():
        raise InputError("The path of the board's folder has unprintable characters.")
    detected = _settings(board)
    for each in detected.diagnostics:
        remark(" ".join(filter(None, (each.message, each.hint))))
    with new_file(output, force=force, most=FILE_MODE) as file:
        made = create_board_folder(board, group)
        file.write(detected.text.encode())
    shared = f"shared by the group {group}" if group else "private"
    remark(f"Board folder {board}: {'created' if made else 'exists already'}, {shared}.")
    remark(f"Settings written to {output}, with {', '.join(detected.gpus) or 'no GPU'}.")
    remark(f"Read its comments, then run: hpc-board --config {output} admin check")


def _expanded(folder: Path) -> Path:
    try:
        return folder.expanduser()
    except RuntimeError:
        raise InputError(
            f'no home folder for "{one_line(str(folder), 200)}".', hint="Give the absolute path of the folder."
        ) from None


def _settings(board: Path) -> "Detected":
    from hpc_board.admin.detect import detected_settings
    from hpc_board.model.gpu import Device
    from hpc_board.settings import machine_gpu_names
    from hpc_board.transport.this_host import ThisHost

    gpus = [*((name, Device.CUDA) for name in machine_gpu_names()), ("CPU", Device.CPU)]
    return detected_settings(ThisHost(), str(board), gpus)
