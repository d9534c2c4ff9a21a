"""The best run of a board, for another run to be seen beside it."""

import msgspec

from hpc_board.model.result import Case


class Best(msgspec.Struct, frozen=True):
    """Whose the best run of a board is, and its cases."""

    run: int
    user: str
    cases: tuple[Case, ...] = ()
