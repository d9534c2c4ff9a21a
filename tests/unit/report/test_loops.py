"""The loops of a profiled C++ submission as words."""

from hpc_board.model.loops import Loop, Remark
from hpc_board.report.blocks import Paragraph
from hpc_board.report.kernels import loop_lines


def test_each_loop_and_each_remark_has_a_line() -> None:
    loops = Loop(9, "dot\x1b[2J", 36, 1, 16, 2, 0, 512), Loop(14, "copy", 4, 0, 0, 1, 1, 0)
    remark = Remark(14, is_vectorized=False, text="not vectorized: control flow in loop")
    (found,) = loop_lines(loops, (remark,), "k.cpp")
    assert isinstance(found, Paragraph)
    first, *others = found.text.splitlines()
    assert first.startswith("k.cpp:9: loop in dot")
    assert first.endswith(
        "36 instructions: 1 vector operation of 512 bits, 16 scalar operations, 2 loads, 0 stores",
    )
    assert "\x1b" not in first
    assert others == [
        "k.cpp:14: loop in copy, 4 instructions: 0 vector operations, 0 scalar operations, 1 load, 1 store",
        "k.cpp:14: not vectorized: control flow in loop",
    ]
    assert not list(loop_lines((), (), "k.cpp"))
