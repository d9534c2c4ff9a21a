"""The innermost loops of a compiled submission, and the compiler's remarks on their vectorization."""

from hpc_board.model.value import Value

LOOPS_MAX = 8
"""Largest number of loops in a result; those with the most arithmetic are kept."""

REMARKS_MAX = 20
TEXT_CHARACTERS_MAX = 300


class Loop(Value):
    """An innermost loop by its disassembly: the line of the source, and the number of its instructions by kind.

    Arithmetic is that of floating-point numbers, and of integers in vector registers; `vector_bits` is the width of the
    widest register. An instruction that computes with an operand in memory is a load, too.
    """

    line: int
    function: str
    instructions: int
    vector_arithmetic: int
    scalar_arithmetic: int
    loads: int
    stores: int
    vector_bits: int


class Remark(Value):
    """A compiler's remark on a line of the source, and whether it has vectorized the code there."""

    line: int
    is_vectorized: bool
    text: str
