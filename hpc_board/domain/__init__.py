"""Frozen values and pure rules of the login side; none of them travels to a node."""

from hpc_board.deferred import load_msgspec

load_msgspec()
