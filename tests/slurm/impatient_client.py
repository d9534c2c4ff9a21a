"""`hpc-board`, with seconds in the place of the minute and a half until a job that no scheduler knows is sent anew."""

from datetime import timedelta
from functools import partialmethod

from hpc_board.__main__ import main
from hpc_board.runs.reconciler import Reconciler

SETTLE = timedelta(seconds=3)

if __name__ == "__main__":
    setattr(Reconciler, "__init__", partialmethod(Reconciler.__init__, settle=SETTLE))  # noqa: B010 - mypy refuses the other
    main()
