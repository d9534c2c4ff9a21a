"""The harness file's command line, called by the batch script and by the supervisor itself."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpc_board.harness.wire.channel import Channel

_USAGE = """\
usage: harness.pyz supervise JOB.JSON          evaluate a submission, or probe the node, and write result.json;
                                               or evaluate the runs of a queue, one after another
       harness.pyz account JOB.JSON STATUS     write the result of a supervisor that could not
       harness.pyz lint JOB.JSON CASES SECONDS examine the task itself and write lint.json
       harness.pyz inputs JOB.JSON CASE        write the inputs of a test case
       harness.pyz try JOB.JSON CASES SECONDS  call the task's own submission with several seeds, likewise
"""


def main(argv: Sequence[str]) -> int:
    """Run the role that the arguments name and return the exit status."""
    harness = Path(argv[0]).resolve()
    role = argv[1] if len(argv) > 1 else ""
    if role in ("supervise", "account") and len(argv) >= 3:
        from hpc_board.harness.job_spec import asks_for

        if asks_for("inspect", Path(argv[2])):
            from hpc_board.harness.node_probe import inspect

            return inspect(Path(argv[2]), harness) if role == "supervise" else 1
        if asks_for("queue", Path(argv[2])):
            from hpc_board.harness.runner import account_queue, run_queue

            supervises = role == "supervise"
            return run_queue(Path(argv[2]), harness) if supervises else account_queue(Path(argv[2]), int(argv[3]))
    if role == "supervise" and len(argv) == 3:
        from hpc_board.harness.supervisor import supervise

        return supervise(Path(argv[2]), harness)
    if role == "account" and len(argv) == 4 and argv[3].isdigit():
        from hpc_board.harness.result_file import account

        return account(Path(argv[2]), int(argv[3]))
    if role in ("lint", "try") and len(argv) == 5 and argv[3].isdigit() and argv[4].isdigit():
        from hpc_board.harness.lint.linter import lint

        return lint(Path(argv[2]), harness, int(argv[3]), int(argv[4]), tries=role == "try")
    if role == "inputs" and len(argv) == 4 and argv[3].isdigit():
        from hpc_board.harness.lint.inputs import write_inputs

        return write_inputs(Path(argv[2]), harness, int(argv[3]))
    if role == "zygote" and len(argv) == 4:
        return zygote(int(argv[2]), int(argv[3]))
    if role == "program" and len(argv) == 3:
        from hpc_board.harness.processes.program import become_program

        become_program(int(argv[2]))
    if role == "worker" and len(argv) >= 3:
        return _worker(argv[2], argv[3:])
    stream = sys.stdout if role in ("-h", "--help") else sys.stderr
    stream.write(_USAGE)
    return 0 if stream is sys.stdout else 2


def _supervisor(channel: "Channel") -> None:
    from hpc_board.harness.supervisor import serve

    serve(channel)


def _worker(path: str, modules: Sequence[str]) -> int:
    """Serve as the worker of a profiler or a container, which has started this process."""
    import os
    import socket

    from hpc_board.harness.confine.sandbox import die_with_parent
    from hpc_board.harness.wire.channel import Channel
    from hpc_board.harness.worker import worker

    die_with_parent(os.getppid())
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(path)
    worker.serve(Channel(connection, takes_fds=True), modules)
    return 0


def zygote(descriptor: int, supervisor: int) -> int:
    """Serve as the zygote of a supervisor, or of a runner, until that is gone; `descriptor` is the channel to it."""
    from hpc_board.harness.confine.sandbox import die_with_parent, hide_memory
    from hpc_board.harness.judge import judge
    from hpc_board.harness.lint import prober
    from hpc_board.harness.processes.zygote import serve
    from hpc_board.harness.wire.channel import inherited
    from hpc_board.harness.worker import worker

    die_with_parent(supervisor)
    hide_memory()
    roles = {"judge": judge.serve, "prober": prober.serve, "worker": worker.serve, "supervisor": _supervisor}
    serve(inherited(descriptor), supervisor, roles)
    return 0
