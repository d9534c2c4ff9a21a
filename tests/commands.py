"""`hpc-board` for tests: a process of its own for each command, without the time of the imports."""

import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

_REPOSITORY = Path(__file__).parents[1]


class UnixAccount(NamedTuple):
    """A Unix account without an entry in any list of users, and its groups beside its own one."""

    uid: int
    groups: Sequence[int] = ()


def run_hpc_board(
    words: Sequence[str | Path],
    *,
    environ: Mapping[str, str],
    folder: Path | None = None,
    umask: int | None = None,
    account: UnixAccount | None = None,
    timeout_seconds: float = 120,
) -> "subprocess.CompletedProcess[str]":
    """Run `hpc-board` with these words to its end, as `subprocess.run` does, with an empty standard input.

    Raises:
        subprocess.TimeoutExpired: the command, which is killed, or another process still holds the output.
    """
    argv = ["hpc-board", *map(str, words)]
    asked = {
        "words": argv[1:],
        "environ": dict(environ),
        "folder": str(folder or Path.cwd()),
        "umask": _umask() if umask is None else umask,
        "account": None if account is None else {"uid": account.uid, "groups": list(account.groups)},
    }
    with ExitStack() as stack, Path(os.devnull).open("rb") as nothing:
        pipes = [os.pipe() for _ in range(3)]
        readable = [stack.enter_context(os.fdopen(reading, "rb", buffering=0)) for reading, _ in pipes]
        written = [writing for _, writing in pipes]
        try:
            socket.send_fds(_server(), [json.dumps(asked).encode()], [nothing.fileno(), *written])
        finally:
            for writing in written:
                os.close(writing)
        texts = [bytearray() for _ in readable]
        deadline = time.monotonic() + timeout_seconds
        with selectors.DefaultSelector() as waiting:
            for stream, text in zip(readable, texts, strict=True):
                waiting.register(stream, selectors.EVENT_READ, text)
            while waiting.get_map():
                ready = waiting.select(deadline - time.monotonic())
                if not ready and time.monotonic() >= deadline:
                    with suppress(ProcessLookupError, IndexError):
                        os.kill(int(texts[2].split()[0]), signal.SIGKILL)
                    raise subprocess.TimeoutExpired(argv, timeout_seconds, bytes(texts[0]), bytes(texts[1]))
                for key, _ in ready:
                    if more := os.read(key.fd, 1 << 16):
                        key.data.extend(more)
                    else:
                        waiting.unregister(key.fileobj)
    out, errors, (_, status) = texts[0], texts[1], texts[2].split()
    return subprocess.CompletedProcess(argv, int(status), _text(out), _text(errors))


def _text(data: bytes | bytearray) -> str:
    """Decode as `subprocess` does with `text=True`."""
    return data.decode().replace("\r\n", "\n").replace("\r", "\n")


def _umask() -> int:
    found = re.search(r"(?m)^Umask:\s*([0-7]+)", Path("/proc/self/status").read_text())
    assert found
    return int(found[1], 8)


@cache
def _server() -> socket.socket:
    """Start the server of this process's commands, which ends when this process does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        theirs.set_inheritable(True)
        os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "tests.command_server", str(theirs.fileno())],
            {**os.environ, "PYTHONPATH": str(_REPOSITORY)},
        )
    return ours


def printed_json(done: subprocess.CompletedProcess[str]) -> Any:
    """Return the output of a command with `--json`; it must have succeeded or evaluated something."""
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)
