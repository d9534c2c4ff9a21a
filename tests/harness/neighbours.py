"""Processes that do nothing but use a processor."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_SPIN = "import os; parent = os.getppid()\nwhile os.getppid() == parent: sum(range(10**6))"
"""It looks for its parent now and then, so that it outlives none that is killed."""


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Have `count` processes use a processor each, wherever the system puts them."""
    with ExitStack() as held:
        for _ in range(count):
            # In a session of its own, so that the terminal's interrupt reaches only this process, which ends all.
            neighbour = subprocess.Popen([sys.executable, "-S", "-c", _SPIN], start_new_session=True)
            held.callback(neighbour.wait)
            held.callback(neighbour.kill)
        yield
