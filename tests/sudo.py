"""sudo for tests: root needs no rules, and other accounts have those of a test, in a mount namespace of their own.

python tests/sudo.py RULES COMMAND ...
"""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tests import namespaces


def command_with_rules(rules: str, command: Sequence[str]) -> list[str]:
    """The command by which root runs `command` where sudo has these rules beside the machine's own ones."""
    return [sys.executable, "-m", __name__, rules, *command]


def skip_without_sudo() -> None:
    import pytest

    if os.geteuid() != 0 or shutil.which("sudo") is None:
        pytest.skip("sudo is missing, or has no rules for this account")


if __name__ == "__main__":
    namespaces.enter()
    namespaces.hide(Path("/etc/sudoers.d"))
    (written := Path("/etc/sudoers.d/rules")).write_text(sys.argv[1])
    written.chmod(0o440)
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - its own list of arguments
