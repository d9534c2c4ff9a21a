"""The way to a board: the service or the settings that a user's variables, files and options name."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hpc_board.errors import InputError

if TYPE_CHECKING:
    from hpc_board.board import Board
    from hpc_board.domain.service_address import SshAddress


def open_board(
    config: Path | None,
    environ: Mapping[str, str],
    *,
    warn: Callable[[str], object] = lambda _: None,
    tell: Callable[[str], object] = lambda _: None,
) -> "Board":
    """Open the board of the settings file `config`, of a service, or of the file at a default path.

    `tell` receives the names of the settings and of the board.

    Raises:
        InputError: the settings file is missing or has faults, or the name of the service has.
    """
    address = None if config else environ.get("HPC_BOARD_SERVICE")
    if address:
        from hpc_board.service.client import RemoteBoard

        tell(f"$HPC_BOARD_SERVICE: {address}")
        return RemoteBoard(_service(address), warn=warn, origin="$HPC_BOARD_SERVICE")
    from hpc_board.settings import open_settings

    settings = open_settings(config, environ)
    tell(f"settings: {settings.file or 'built in'}")
    tell(f"board: {settings.service or settings.board}")
    if settings.service is not None:
        from hpc_board.service.client import RemoteBoard

        return RemoteBoard(settings.service, warn=warn, origin=f"`service` in {settings.file}")
    from hpc_board.board import Board

    return Board(settings, warn=warn)


def _service(address: str) -> "Path | SshAddress":
    """Return the service that $HPC_BOARD_SERVICE names."""
    if address.startswith("/"):
        return Path(address)
    from hpc_board.domain.service_address import service_address
    from hpc_board.model.text import one_line

    try:
        return service_address(address)
    except ValueError as error:
        raise InputError(
            f'$HPC_BOARD_SERVICE: {error}, found "{one_line(address)}"', hint="Correct the variable."
        ) from error
