"""GPU-kernel leaderboards on a Slurm cluster.

`from hpc_board import Board` is the interface for scripts and notebooks.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpc_board.errors import BoardError, WaitExpired
    from hpc_board.scripting import Board

__all__ = ["Board", "BoardError", "WaitExpired", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import the interface when it is first used: a command needs none of it."""
    if name == "Board":
        from hpc_board.scripting import Board

        return Board
    if name in ("BoardError", "WaitExpired"):
        from hpc_board import errors

        return getattr(errors, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
