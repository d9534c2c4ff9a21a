"""`python -m hpc_board` is `hpc-board`."""

import os
import signal
from types import FrameType


def main() -> None:
    """Run `hpc-board` with this process's arguments, and exit; an interrupt while its parts are loaded is silent."""
    # Who starts a program in the background has it ignore interrupts, which stays so.
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, _leave)
    from hpc_board.cli.main import main as run

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(130)  # nothing has been begun that would have to be ended


if __name__ == "__main__":
    main()
