"""The loops of a profiled C++ submission."""

from hpc_board.model.loops import Loop, Remark
from hpc_board.report.kernels import loop_blocks
from hpc_board.report.plain import plain


def test_each_loop_has_a_row_and_each_remark_a_line() -> None:
    loops = Loop(9, "dot\x1b[2J", 36, 1, 16, 2, 0, 512), Loop(14, "copy", 4, 0, 0, 1, 1, 0)
    remark = Remark(14, is_vectorized=False, text="not vectorized: control flow in loop")
    title, _, first, second, _, last = plain([*loop_blocks(loops, (remark,), "k.cpp")], 100).splitlines()
    assert title == "Innermost loops of k.cpp"
    assert first.split()[2:] == ["36", "1", "512", "16", "2", "0"]
    assert "\x1b" not in first
    assert second.split() == ["14", "copy", "4", "0", "0", "1", "1"]
    assert last == "k.cpp:14: not vectorized: control flow in loop"
    assert not list(loop_blocks((), (), "k.cpp"))
