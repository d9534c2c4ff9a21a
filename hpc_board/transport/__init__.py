"""Where commands run and files live: this host now, a login node over SSH behind the same protocol."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Completed:
    """A command that ended: its exit status and what it printed, both bounded and decoded with replacement.

    `truncated` says that it printed more than was kept.
    """

    returncode: int
    stdout: str
    stderr: str
    truncated: bool = False


class CommandTimeout(Exception):
    """The command did not end in its time; whether it did its work is unknown."""


class CommandMissing(Exception):
    """There is no such program on the host."""


class Host(Protocol):
    """A machine on which commands run."""

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_seconds: float,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: str = "",
    ) -> Completed:
        """Run `argv` without a shell, with the scrubbed environment plus `env`, and wait for its end.

        Raises:
            CommandTimeout: it did not end within `timeout_seconds` and was killed.
            CommandMissing: the program is not there.
        """
