"""`python -m hpc_board` is `hpc-board`."""

import gc
import os
import signal
import sys

_GARBAGE_AFTER = 100_000
"""The number of new objects after which the garbage collector looks at them; the app has its first list before."""


def main() -> None:
    """Run `hpc-board` with this process's arguments, and exit; an interrupt while its parts are loaded is silent.

    SIGHUP means to `serve` that its settings have changed. One that arrives while its parts are loaded waits until they
    are.
    """
    if "serve" in sys.argv[1:]:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    # A command's imports and values live until its end: to look for garbage among them takes a tenth of its time.
    gc.set_threshold(_GARBAGE_AFTER, 10, 10)
    # A shell has a program in the background ignore interrupts, which stays so.
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, _leave)
    from hpc_board.cli.main import main as run

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run()
    finally:
        # Python looks for garbage once more when it ends, for a sixth of a command's time. Frozen objects stay out of
        # that search. Files are closed by then, and the system takes the memory.
        gc.freeze()


def _leave(_number: int, _frame: object) -> None:
    os._exit(130)  # nothing has been begun that would have to be ended


if __name__ == "__main__":
    main()
