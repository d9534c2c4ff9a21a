"""The parent of tests' commands: it has imported the product, on which a command spends most of its time.

python -m tests.command_server FD       # a socket for requests, see tests/commands.py

Each command is a process of its own, a fork with the arguments, environment, folder, umask, account and streams of the
request, and sends the harness file with byte code. The start of the program from nothing is for tests that start
`python -m hpc_board`, and for test_imports.py.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import socket
import sys
import threading
import time
import traceback
from typing import Any

import hpc_board
from hpc_board.__main__ import main as hpc_board_main
from tests import accounts
from tests.harness.harness_file import harness_file, send_with_byte_code

REQUEST_BYTES = 1 << 19
_PR_SET_DUMPABLE = 4
_LEFT_OUT = ("hpc_board.harness", "hpc_board.tui", "hpc_board.schedulers.slurm.pyslurm_helper")


def serve(requests: socket.socket) -> None:
    """Fork a command for each request, until the socket's other end is closed."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES, 4)
        if not message:
            return
        if os.fork() == 0:
            requests.close()
            _wait_for_command(json.loads(message), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _wait_for_command(asked: dict[str, Any], descriptors: list[int]) -> None:
    """Report the process id of the command and then its exit status; do not return."""
    *streams, answers = descriptors
    command = os.fork()
    if command == 0:
        os.close(answers)
        os._exit(_status_of(asked, streams))
    for stream in streams:
        os.close(stream)
    os.write(answers, f"{command}\n".encode())
    _, status = os.waitpid(command, 0)
    os.write(answers, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _status_of(asked: dict[str, Any], streams: list[int]) -> int:
    """Run the command in this process, and return its exit status."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    try:
        if (account := asked["account"]) is not None:
            accounts.enter(account["uid"], account["groups"])
            # As after `exec`: the process may look at itself.
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
        os.umask(asked["umask"])
        os.chdir(asked["folder"])
        os.environ.clear()
        os.environ.update(asked["environ"])
        time.tzset()
        sys.argv = ["hpc-board", *asked["words"]]
        hpc_board_main()
    except SystemExit as ended:
        return _finalized(ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1)
    except BaseException:  # noqa: BLE001 - as an interpreter does
        traceback.print_exc()
        return _finalized(1)
    return _finalized(0)


def _finalized(status: int) -> int:
    """Join threads, run exit functions and flush the streams, as an interpreter does at its end."""
    shutdown: Any = vars(threading)["_shutdown"]
    run_exit_functions: Any = vars(atexit)["_run_exitfuncs"]
    shutdown()
    run_exit_functions()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return 120
    return status


def _import_product() -> None:
    for module in pkgutil.walk_packages(hpc_board.__path__, "hpc_board."):
        if not module.name.startswith(_LEFT_OUT) and module.name != "hpc_board.__main__":
            importlib.import_module(module.name)


if __name__ == "__main__":
    _import_product()
    send_with_byte_code()
    harness_file()
    gc.collect()
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))
