"""The zygote: imports the modules of judge and workers once, and forks each process on the supervisor's request.

Importing PyTorch takes seconds, and a ranked run has half a dozen processes that need it. The zygote holds no secret
and never touches a GPU. A forked process becomes a child of the supervisor, which adopts orphans: an intermediate
process forks the new one and ends. Frames: `preload`, then `fork` (with the new process's channel, stdout and stderr)
-> `forked` with its id, or `unforked`.

The supervisor of a run at a runner is itself such a process: it has the modules, so its zygote is a fork of it.
"""

import gc
import importlib
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from hpc_board.harness.confine.sandbox import die_with_parent
from hpc_board.harness.wire.channel import Channel, Frame, inherited
from hpc_board.model.runner import modules_in

_ADOPTION_SECONDS = 10.0
_ADOPTION_POLL_SECONDS = 0.0005


def modules_of(folders: Sequence[Path], device: str) -> list[str]:
    """Return the slow modules (torch, numpy) that the Python files in `folders` seem to import."""
    paths = [path for each in folders for path in each.rglob("*.py")]
    return modules_in([path.read_text(encoding="utf-8", errors="replace") for path in paths], device)


def preload(modules: Sequence[str]) -> None:
    """Import `modules`; for a module that fails, the process that needs it reports the error itself."""
    for name in modules:
        with suppress(Exception):
            importlib.import_module(name)


def serve(channel: Channel, supervisor: int, roles: Mapping[str, Callable[[Channel], None]]) -> None:
    """Import the modules of the first frame, then fork a process per later frame, until the supervisor is gone.

    Each of those frames names one of the `roles`.
    """
    frame, _ = channel.receive()
    if frame["environment"] is not None:
        os.environ.clear()
        os.environ.update(frame["environment"])
    # An import makes objects that stay: to look for garbage among them takes a fifth of PyTorch's time.
    gc.disable()
    preload(frame["modules"])
    gc.freeze()
    gc.enable()
    for frame, fds in channel.requests():
        try:
            intermediate = os.fork()
        except OSError as error:
            channel.send({"type": "unforked", "message": str(error)})
        else:
            if intermediate == 0:
                _fork_once_more(channel, frame, fds, supervisor, roles)
            os.waitpid(intermediate, 0)


def _fork_once_more(
    channel: Channel,
    frame: Frame,
    fds: list[int],
    supervisor: int,
    roles: Mapping[str, Callable[[Channel], None]],
) -> NoReturn:
    try:
        child = os.fork()
    except OSError as error:
        channel.send({"type": "unforked", "message": str(error)})
        os._exit(1)
    if child:
        channel.send({"type": "forked", "pid": child})
        os._exit(0)
    status = 1
    try:
        own = _become(frame, fds, supervisor)
        roles[frame["role"]](own)
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - the last thing that this process can say
        traceback.print_exc()
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status & 0xFF)


def keep_only(connection: int, stdout: int, stderr: int) -> None:
    """Close all descriptors of this process but its `connection`, and print to `stdout` and `stderr`."""
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if descriptor not in (0, 1, 2, connection):
            with suppress(OSError):
                os.close(descriptor)


def _become(frame: Frame, fds: list[int], supervisor: int) -> Channel:
    """Make this process the supervisor's own child, which keeps nothing of the zygote except its memory."""
    os.setsid()
    connection, stdout, stderr = fds
    keep_only(connection, stdout, stderr)
    deadline = time.monotonic() + _ADOPTION_SECONDS
    while os.getppid() != supervisor and time.monotonic() < deadline:
        time.sleep(_ADOPTION_POLL_SECONDS)
    die_with_parent(supervisor)
    os.environ.update(frame["environment"])
    os.chdir(frame["cwd"])
    tempfile.tempdir = None
    sys.argv[1:] = [frame["role"]]
    return inherited(connection)
