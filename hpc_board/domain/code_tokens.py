"""The identity of a file's code: a hash of its tokens, without comments, blank lines and blanks."""

import hashlib
import re
import tokenize
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from itertools import islice

from hpc_board.model.task import Language

_PYTHON_BYTES_MAX = 100_000
_TOKENS_MAX = 50_000
# The first two lines may name the encoding.
_PYTHON_PARTS = re.compile(rb"((?:[^\n]*\n){0,2})(.*)", re.DOTALL)
_COMMENT_LINES = re.compile(rb"^[ \t\f]*(?:\#[^\r\n]*)?\r?\n", re.MULTILINE)
_LEFT_OUT = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER})
_NO_TOKENS = (tokenize.TokenError, SyntaxError, ValueError, LookupError)
_LAYOUT = {tokenize.NEWLINE: b"\n", tokenize.INDENT: b"\x01", tokenize.DEDENT: b"\x02"}

# A file is hostile: no alternative reads the rest of it twice, also where a comment or a string has no end.
_C_TOKEN = re.compile(
    rb"""
    (?P<blank> //(?:\\\r?\n|[^\n])* | /\*(?:.*?\*/|.*) | \\\r?\n | [ \t\r\f\v]+ )
  | (?P<newline> \n )
  | (?:u8|[uUL])?R"(?P<end>[^ ()\\\s]{0,16})\((?:.*?\)(?P=end)"|.*)
  | "(?:\\.|[^"\\\n])*"? | '(?:\\.|[^'\\\n])*'?
  | \.?[0-9](?:'?[A-Za-z0-9_.]|(?<=[eEpP])[-+])* | \w+ | \+\+ | -- | .
    """,
    re.VERBOSE | re.DOTALL,
)


def tokens_sha256(code: bytes, language: Language) -> str:
    """Return the hash of the tokens of a file.

    It is that of the file itself if Python cannot split it, which then cannot run either, or if it is a file in Python
    so long that this takes seconds.
    """
    tokens = [code]
    if language is not Language.PY:
        tokens = list(_c_tokens(code))
    elif len(code) <= _PYTHON_BYTES_MAX:
        with suppress(*_NO_TOKENS):
            tokens = list(_python_tokens(code))
    return hashlib.sha256(b"\0".join(tokens)).hexdigest()


def first_tokens(code: bytes, language: Language) -> list[bytes]:
    """Return the first tokens of a file, up to a place that Python cannot split; comments before them do not count."""
    found = _c_tokens(code)
    if language is Language.PY and (parts := _PYTHON_PARTS.match(code)):
        # A file of comments alone takes tokenize seconds.
        found = _python_tokens(parts[1] + _COMMENT_LINES.sub(b"", parts[2]))
    tokens: list[bytes] = []
    with suppress(*_NO_TOKENS):
        tokens.extend(islice(found, _TOKENS_MAX))
    return tokens


def _python_tokens(code: bytes) -> Iterator[bytes]:
    for token in tokenize.tokenize(BytesIO(code).readline):
        if token.type not in _LEFT_OUT:
            yield _LAYOUT.get(token.type) or token.string.encode(errors="surrogatepass")


def _c_tokens(code: bytes) -> Iterator[bytes]:
    """Yield the tokens of C++, CUDA or HIP; a line of the preprocessor keeps its end and its blanks."""
    begins_line, in_directive, is_apart = True, False, False
    for token in _C_TOKEN.finditer(code):
        if token["newline"]:
            if in_directive:
                yield b"\n"
            begins_line, in_directive, is_apart = True, False, False
        elif token["blank"]:
            is_apart = in_directive
        else:
            if is_apart:
                yield b" "
            in_directive = in_directive or (begins_line and token[0] == b"#")
            begins_line = is_apart = False
            yield token[0]
