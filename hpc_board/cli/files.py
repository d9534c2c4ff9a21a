"""Files that a command writes for its user."""

import os
from pathlib import Path
from tempfile import NamedTemporaryFile

from hpc_board.errors import InputError


def write_file(path: Path, data: bytes, *, force: bool) -> None:
    """Write a file whole or not at all; one that is there is replaced only by `force`.

    Raises:
        InputError: the file is there, or cannot be written.
    """
    try:
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            draft = Path(file.name)
            try:
                file.write(data)
                file.flush()
                # A temporary file is its owner's alone; this one becomes an ordinary file.
                draft.chmod(0o666 & ~_umask())
                if force:
                    draft.replace(path)
                else:
                    path.hardlink_to(draft)
            finally:
                draft.unlink(missing_ok=True)
    except FileExistsError as error:
        raise InputError(f"{path} is there already", hint="Give another name, or --force to overwrite it.") from error
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}", hint="Give another file or folder with -o."
        ) from error


def _umask() -> int:
    """The mask that this process gives to new files; reading it means setting it for a moment."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
