"""The best run of a board, for comparison with another run."""

import msgspec

from hpc_board.model.result import Case


class Best(msgspec.Struct, frozen=True):
    """The best run of a board: its user and cases."""

    run: int
    user: str
    cases: tuple[Case, ...] = ()
