"""The identity of code: what may change in a file without making another entry of it."""

import pytest

from hpc_board.domain.code_tokens import tokens_sha256
from hpc_board.model.task import Language

PY = b"""import torch
# tuned
def kernel(x):
    y = x + 1  # one more
    return y
"""
CU = b"""#define N 4 // four
__global__ void add(float *x) { x[0] -= 1'000.5e-3f; /* and
   more */ auto s = R"x(// text)x"; char c = '"'; }
"""


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        (Language.PY, PY, PY.replace(b"# tuned\n", b"\n\n").replace(b"  # one more", b"")),
        (Language.PY, PY, PY.replace(b"    ", b"  ").replace(b"x + 1", b"x+1").rstrip()),
        (Language.PY, PY, PY.replace(b"\n", b"\r\n")),
        (Language.CU, CU, CU.replace(b" // four", b"").replace(b"/* and\n   more */", b"").replace(b" -= ", b"-=")),
        (Language.CU, CU, CU.replace(b"{ ", b"{\n\n").replace(b"\n", b"\r\n")),
        (Language.CU, b"/* never closed", b"// other"),
    ],
)
def test_comments_and_blanks_are_no_other_code(language: Language, one: bytes, other: bytes) -> None:
    assert one != other
    assert tokens_sha256(one, language) == tokens_sha256(other, language)


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        (Language.PY, PY, PY.replace(b"+ 1", b"+ 2")),
        (Language.PY, b"a;" * 60_000, b"a; " * 60_000),
        (Language.PY, b"if a:\n  b\n  c\n", b"if a:\n  b\nc\n"),
        (Language.PY, b"s = '# x'\n", b"s = '# y'\n"),
        (Language.PY, b"(\n", b"((\n"),
        (Language.PY, b"x = '\xff'", b"x = '\xfe'"),
        (Language.PY, b"# coding: hex\nx = 1\n", b"# coding: hex\nx = 2\n"),
        (Language.CU, CU, CU.replace(b"// text", b"//  text")),
        (Language.CU, b"#define F(x) x\n", b"#define F (x) x\n"),
        (Language.CU, b"#define F a\nb\n", b"#define F a b\n"),
        (Language.CU, b"a - -b;", b"a --b;"),
        (Language.HIP, b'"\\"//a"', b'"\\"//b"'),
    ],
)
def test_other_tokens_are_other_code(language: Language, one: bytes, other: bytes) -> None:
    assert tokens_sha256(one, language) != tokens_sha256(other, language)


@pytest.mark.parametrize("part", [b'R"(', b"/*", b'"', b"'", b"\\\n", b"1'"])
def test_hostile_code_is_split_in_linear_time(part: bytes) -> None:
    tokens_sha256(part * 300_000, Language.CU)
