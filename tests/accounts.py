"""Unix accounts for tests, without an entry in any list of users: root becomes one of them, and has no way back.

python tests/accounts.py UID UMASK GROUPS COMMAND ...
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests import namespaces


def command_as(uid: int, umask: int, groups: Sequence[int], command: Sequence[str]) -> list[str]:
    """The command by which root runs `command` as an account that has a group of its own and these."""
    return [sys.executable, "-m", __name__, str(uid), f"{umask:o}", ",".join(map(str, groups)), *command]


def enter(uid: int, groups: Sequence[int]) -> None:
    """Be this account from now on, with the way to this Python open."""
    namespaces.enter()
    _open_way(Path(sys.base_prefix))
    become(uid, groups)


def enter_with_shells(passwd: Path) -> None:
    """Have these users in the place of this machine's list, and let each reach this Python."""
    namespaces.enter()
    _open_way(Path(sys.base_prefix))
    namespaces.replace_file(Path("/etc/passwd"), passwd)


def become(uid: int, groups: Sequence[int]) -> None:
    """Be this account from now on."""
    os.setgroups(list(groups))
    os.setgid(uid)
    os.setuid(uid)


def _open_way(folder: Path) -> None:
    """Let every account reach `folder`, of which nothing else changes: Python may lie in root's own home."""
    closed = next((each for each in reversed(folder.parents) if not each.stat().st_mode & 0o001), None)
    if closed is not None:
        descriptor = namespaces.opened(folder)
        namespaces.hide(closed)
        namespaces.show(descriptor, folder, read_only=True)


def _main(uid: str, umask: str, groups: str, *command: str) -> None:
    enter(int(uid), [int(group) for group in groups.split(",") if group])
    os.umask(int(umask, 8))
    os.execvp(command[0], command)  # noqa: S606 - its own list of arguments


def _hindrance() -> str:
    import subprocess

    if os.geteuid() != 0:
        return "only root can become somebody else"
    command = command_as(61001, 0o022, [], [sys.executable, "-c", "import hpc_board"])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    return f"no other account can run {sys.executable}: {done.stderr.strip().rpartition(chr(10))[2]}"


if __name__ == "__main__":
    _main(*sys.argv[1:])
else:
    import pytest  # the part that becomes another account runs without it

    hindrance = _hindrance()
    needs_accounts = pytest.mark.skipif(bool(hindrance), reason=hindrance)
