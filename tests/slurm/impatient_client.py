"""`hpc-board`, with seconds in the place of the minute and a half until a job that no scheduler knows is sent anew."""

from datetime import timedelta

from hpc_board.__main__ import main
from hpc_board.runs import reconciler


class Impatient(reconciler.Reconciler, frozen=True, dict=True):
    """A reconciler that waits only for seconds."""

    lookup_delay: timedelta = timedelta(seconds=3)


if __name__ == "__main__":
    setattr(reconciler, "Reconciler", Impatient)  # noqa: B010 - mypy refuses the other
    main()
