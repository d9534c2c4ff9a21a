"""The user's home folder and login name, which an account in a container or a service may lack."""

from collections.abc import Mapping
from pathlib import Path

from hpc_board.errors import InputError


def home(environ: Mapping[str, str]) -> Path:
    """Return the home folder by $HOME, else by this machine's account database.

    Raises:
        InputError: neither says.
    """
    try:
        return Path(environ.get("HOME") or Path.home())
    except RuntimeError as error:
        raise InputError(
            "this account has no home folder: HOME is not set, and the machine has no entry for its user.",
            hint="Set HOME to a folder that this account may write.",
        ) from error


def login_name() -> str:
    """Return the user's name by the environment, else by this machine's account database.

    Raises:
        InputError: neither says.
    """
    try:
        import getpass

        return getpass.getuser()
    except (KeyError, OSError) as error:
        raise InputError(
            "this account has no name to log in with: USER is not set, and the machine has no entry for its user.",
            hint="Give `user` under the cluster's `ssh` in the settings.",
        ) from error
