"""Runs a job in a process of its own that adopts all processes which the job leaves, counts them and ends them.

The process of the tests would adopt those of other tests too, such as the steps of their Slurm's jobs.

python tests/harness/adversarial/adopting.py SECONDS COMMAND ...       # prints [LEFT PROCESSES, PEAK BYTES]
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from hpc_board.harness.processes.tree import children_of

_PR_SET_CHILD_SUBREAPER = 36
_POLL_SECONDS = 0.02


def run(command: list[str], seconds: float) -> int:
    """Run a batch script by way of a command, and return the peak of the supervisor's resident memory."""
    shell = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + seconds
    supervisor, peak_bytes = None, 0
    while shell.poll() is None and time.monotonic() < deadline:
        if supervisor is None:
            supervisor = next(iter(children_of(shell.pid)), None)
        else:
            peak_bytes = max(peak_bytes, _peak_bytes(supervisor))
        time.sleep(_POLL_SECONDS)
    if shell.poll() is None:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
    return peak_bytes


def end_children() -> None:
    """End the processes that this one has adopted, and all that they start meanwhile."""
    while left := children_of(os.getpid()):
        for pid in left:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
        time.sleep(_POLL_SECONDS)


def _peak_bytes(pid: int) -> int:
    """Return the most resident memory that a process has had; 0 where it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmHWM:"))


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    peak_bytes = run(sys.argv[2:], float(sys.argv[1]))
    left = len(children_of(os.getpid()))
    end_children()
    sys.stdout.write(json.dumps([left, peak_bytes]))
