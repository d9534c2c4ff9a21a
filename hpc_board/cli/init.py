"""`admin init`: the folder of a board, and settings that name it."""

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
@click.option("--group", metavar="NAME", help="A Unix group whose members share the board; else it is yours alone.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("hpc-board.yaml"),
    show_default=True,
    metavar="FILE",
    help="Where the settings are written.",
)
@click.option("--force", is_flag=True, help="Overwrite the settings if they are there.")
def init(folder: Path | None, group: str | None, output: Path, *, force: bool) -> None:
    """Make the FOLDER of a board, and settings that name it.

    FOLDER is hpc-board in your home folder if it is not given; compute nodes
    have to see it. The settings have what `admin detect` finds out about Slurm,
    or this machine by itself where there is none. Nothing is sent.
    """
    from hpc_board.cli.output import remark
    from hpc_board.files import new_file
    from hpc_board.store.sharing import create_board_folder

    board = _expanded(folder or Path("~/hpc-board")).absolute()
    if not str(board).isprintable():
        raise InputError("The name of the board's folder has characters that cannot be printed.")
    detected = _settings(board)
    with new_file(output, force=force) as file:
        made = create_board_folder(board, group)
        file.write(detected.text.encode())
    whose = f"shared by the group {group}" if group else "yours alone"
    remark(f"{board} {'is made' if made else 'was there already'}, and {whose}.")
    remark(f"The settings are in {output}, with {', '.join(detected.gpus) or 'no GPU'}.")
    remark(f"Read its comments, and then: hpc-board --config {output} admin check")


def _expanded(folder: Path) -> Path:
    try:
        return folder.expanduser()
    except RuntimeError:
        raise InputError(
            f'there is no home folder for "{one_line(str(folder), 200)}".', hint="Give the whole path of the folder."
        ) from None


def _settings(board: Path) -> "Detected":
    from hpc_board.admin.detect import detected_settings
    from hpc_board.cli.output import remark
    from hpc_board.model.gpu import Device
    from hpc_board.settings import machine_gpu_names
    from hpc_board.transport.this_host import ThisHost

    gpus = [*((name, Device.CUDA) for name in machine_gpu_names()), ("CPU", Device.CPU)]
    return detected_settings(ThisHost(), str(board), gpus, remark)
