"""A command that is run for its answer, where a failure is an answer too."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

import msgspec

from hpc_board.errors import SchedulerError
from hpc_board.model.text import one_line
from hpc_board.transport import CommandMissing, CommandTimeout, Host

PATIENCE_SECONDS = 30.0
"""The time-out of a command."""


class Attempt(msgspec.Struct, frozen=True):
    """A command that was tried: its output, and the words in which it failed, or would have to be told that it did.

    `timed_out` says that it gave no answer in its time, `is_silent` that it failed without a word, and `unreached` why
    the host cannot be reached.
    """

    succeeded: bool
    stdout: str
    failure: str
    timed_out: bool = False
    unreached: SchedulerError | None = None
    is_silent: bool = False


def attempt(host: Host, argv: Sequence[str]) -> Attempt:
    """Run `argv` on `host`; a host that cannot be reached and a command that is missing are failures like others."""
    try:
        done = host.run(argv, timeout_seconds=PATIENCE_SECONDS)
    except CommandMissing as error:
        return Attempt(False, "", one_line(str(error), 300))
    except CommandTimeout:
        return Attempt(False, "", f"no answer within {PATIENCE_SECONDS:g} s", timed_out=True)
    except SchedulerError as error:
        return Attempt(False, "", one_line(error.message, 300), unreached=error)
    name = re.escape(PurePosixPath(argv[0]).name)
    lines = (re.sub(rf"^{name}: (?:error: |fatal: )?", "", line) for line in done.stderr.splitlines() if line)
    words = one_line("; ".join(lines), 300)
    failure = words or f"it exited with status {done.returncode}"
    return Attempt(done.returncode == 0, done.stdout, failure, is_silent=not words and done.returncode != 0)
