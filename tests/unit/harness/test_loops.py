"""Remarks of g++ and listings of objdump, whose contents a submission influences."""

import pytest

from hpc_board.harness.profile.loops import loops_in, remarks_in
from hpc_board.model.loops import LOOPS_MAX, REMARKS_MAX, Loop, Remark

REMARKS = """\
submission.cpp:4:23: optimized: loop vectorized using 64 byte vectors
submission.cpp:4:23: optimized:  loop versioned for vectorization because of possible aliasing
submission.cpp:4:23: optimized: loop vectorized using 32 byte vectors
/usr/include/c++/12/bits/stl_algo.h:99:2: optimized: loop vectorized using 32 byte vectors
submission.cpp:4:23: missed: couldn't vectorize loop
submission.cpp:14:23: missed: couldn't vectorize loop
submission.cpp:15:24: missed: not vectorized: no vectype for stmt: _4 = *_3;
 scalar_type: const float
submission.cpp:15:24: missed: statement clobbers memory: _5 = sinf (_4);
"""

LISTING = """\
kernel.so:     file format elf64-x86-64

00000000000012f0 <dot(float const*, float const*, int)>:
dot(float const*, float const*, int):
/scratch/build-1/submission.cpp:9
    12f2:\ttest   %edx,%edx
    12f4:\tjle    1330 <dot(float const*, float const*, int)+0x40>
/scratch/build-1/submission.cpp:10 (discriminator 3)
    1320:\tvmovups (%rdi,%rcx,1),%zmm5
    1327:\tvmulps (%rsi,%rcx,1),%zmm5,%zmm1
    132a:\tvaddss %xmm1,%xmm0,%xmm0
    132c:\tvmovups %zmm1,(%rdx,%rcx,1)
    132d:\tvpaddd %zmm1,%zmm2,%zmm3
/usr/include/c++/12/bits/stl_algo.h:99
    132e:\tadd    $0x40,%rcx
    132f:\tlea    0x8(%rax),%rsi
    1330:\tcmp    0x8(%rsp),%rcx
    1332:\tjne    1320 <dot(float const*, float const*, int)+0x30>
    1340:\tjmp    12f2 <dot(float const*, float const*, int)+0x2>
    1345:\tret
    1346:\tjmp    12f4 <dot(float const*, float const*, int)+0x4>

0000000000001400 <other>:
/usr/include/c++/12/bits/stl_algo.h:100
    1400:\tvaddps %zmm1,%zmm2,%zmm3
    1404:\tjmp    1400 <other>
"""


def test_a_line_has_its_widest_vectors_or_the_reason_why_there_are_none() -> None:
    assert remarks_in(REMARKS, "submission.cpp") == [
        Remark(4, is_vectorized=True, text="vectorized with 64-byte vectors"),
        Remark(14, is_vectorized=False, text="not vectorized: no vectype for stmt: _4 = *_3 (line 15)"),
    ]


def test_the_innermost_loops_of_the_source_are_counted() -> None:
    assert loops_in(LISTING, "submission.cpp") == [
        Loop(
            line=10,
            function="dot(float const*, float const*, int)",
            instructions=9,
            vector_arithmetic=2,
            scalar_arithmetic=1,
            loads=3,
            stores=1,
            vector_bits=512,
        )
    ]


def test_remarks_and_loops_are_bounded() -> None:
    many = "".join(f"submission.cpp:{line}:1: optimized: loop vectorized using 16 byte vectors\n" for line in range(99))
    assert len(remarks_in(many, "submission.cpp")) == REMARKS_MAX
    loop = "{0:x} <f{0}>:\nsubmission.cpp:{0}\n    {0:x}:\tvaddps %xmm0,%xmm1,%xmm1\n    {1:x}:\tjmp    {0:x} <f>\n"
    several = "".join(loop.format(16 * each, 16 * each + 4) for each in range(1, 99))
    assert len(loops_in(several, "submission.cpp")) == LOOPS_MAX


@pytest.mark.parametrize("text", ["", "\0" * 99, "submission.cpp:1:1: missed: not vectorized: x", " 12:\tjmp 12"])
def test_other_texts_have_no_remark_and_no_loop(text: str) -> None:
    assert (remarks_in(text, "submission.cpp"), loops_in(text, "submission.cpp")) == ([], [])


@pytest.mark.parametrize("between", ["ret", "nop"])
def test_loops_that_overlap_are_counted_within_bounds(between: str) -> None:
    # Each of them whole takes minutes.
    count = 20_000
    body = [f" {4 * each:x}:\taddps  %xmm0,%xmm1" for each in range(count)] + [f" {4 * count:x}:\t{between}"]
    jumps = [f" {8 * count + 4 * each:x}:\tjne    {4 * each:x} <f>" for each in range(count)]
    found = loops_in("\n".join(["0 <f>:", "/x/k.cpp:3", *body, *jumps]), "k.cpp")
    assert len(found) == (0 if between == "ret" else 7)
