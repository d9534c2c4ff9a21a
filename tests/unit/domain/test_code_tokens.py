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
LOOPS = b"""class Sum:
    def of(self, rows, *, scale=1):
        n_rows = len(rows)
        total, left = 0, [row for row in rows]
        for row in range(n_rows):
            total += left * row
        self.sum = total
        return total
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
        (Language.PY, PY, PY.replace(b"y = x", b"total = x").replace(b"return y", b"return total")),
        (Language.PY, LOOPS, LOOPS.replace(b"row", b"r").replace(b"left", b"l").replace(b"n_rows", b"count")),
        (Language.CU, CU, CU.replace(b" s =", b" text_ =").replace(b" c =", b" sign =")),
        (
            Language.CU,
            b"void f(const float *__restrict__ a) { a[0]; }",
            b"void f(const float *__restrict__ b) { b[0]; }",
        ),
        (
            Language.HIP,
            b"void f(int n) { for (int i = 0; i < n; i++) g(i); }",
            b"void f(int m) {for(int k=0;k<m;k++)g(k);}",
        ),
    ],
)
def test_comments_blanks_and_names_of_variables_are_no_other_code(language: Language, one: bytes, other: bytes) -> None:
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
        (Language.CU, CU, CU.replace(b"// text", b"//  text")),
        (Language.CU, b"#define F(x) x\n", b"#define F (x) x\n"),
        (Language.CU, b"#define F a\nb\n", b"#define F a b\n"),
        (Language.CU, b"a - -b;", b"a --b;"),
        (Language.HIP, b'"\\"//a"', b'"\\"//b"'),
        (Language.PY, LOOPS, LOOPS.replace(b"left * row", b"row * left")),
        (Language.PY, LOOPS, LOOPS.replace(b"n_rows", b"left")),
        # The name of a parameter, of a builtin, of an import and of a function have a meaning elsewhere.
        (Language.PY, b"def f(n):\n  return n\nf(n=1)\n", b"def f(m):\n  return m\nf(n=1)\n"),
        (Language.PY, b"def f(max):\n  return max\nmax(1)\n", b"def f(min):\n  return min\nmin(1)\n"),
        (Language.PY, b"from m import *\ndef f(a):\n  return a\na(1)", b"from m import *\ndef f(b):\n  return b\nb(1)"),
        (Language.PY, b"def a():\n  x = 1\ndef b():\n  x = 2\n", b"def b():\n  x = 1\ndef a():\n  x = 2\n"),
        (Language.PY, b"def f():\n  a = 1\n  b = 2\n  return f'{a}'", b"def f():\n  b = 1\n  a = 2\n  return f'{a}'"),
        (Language.CU, b'{ int a = 1, n; int b = 2; asm("%[a]"); }', b'{ int b = 1, n; int a = 2; asm("%[a]"); }'),
        (Language.CU, b"struct P { float x; float y; }; p.x = 1;", b"struct P { float x; float y; }; p.y = 1;"),
        (Language.CU, b"float f(float a) { return a; }", b"float g(float a) { return a; }"),
    ],
)
def test_other_tokens_are_other_code(language: Language, one: bytes, other: bytes) -> None:
    assert tokens_sha256(one, language) != tokens_sha256(other, language)


@pytest.mark.parametrize("part", [b'R"(', b"/*", b'"', b"'", b"\\\n", b"1'", b"int a", b"#"])
def test_hostile_code_is_split_in_linear_time(part: bytes) -> None:
    tokens_sha256(part * 300_000, Language.CU)


@pytest.mark.parametrize("part", [b"(", b"-", b"a=", b"for a in ", b"def f(a,", b"lambda a:", b"for ", b"async\n  "])
def test_hostile_python_is_split_in_linear_time(part: bytes) -> None:
    tokens_sha256(b"def f():\n  " + part * (90_000 // len(part)), Language.PY)
