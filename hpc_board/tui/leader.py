"""The best run of a board, for another run to be seen beside it."""

from dataclasses import dataclass

from hpc_board.model.result import Case


@dataclass(frozen=True)
class Best:
    """Whose the best run of a board is, and its cases."""

    run: int
    user: str
    cases: tuple[Case, ...] = ()
