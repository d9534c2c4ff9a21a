"""The identity of a file's code: a hash of its tokens, without comments, blanks and the names of local variables."""

import builtins
import hashlib
import re
import tokenize
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from io import BytesIO
from itertools import pairwise
from keyword import kwlist

from hpc_board.model.task import Language

_PYTHON_BYTES_MAX = 100_000
_LEFT_OUT = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER})
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


_C_TYPES = frozenset(b"auto bool char double float half int long short signed size_t unsigned".split())
_C_QUALIFIERS = frozenset(b"* & const restrict volatile __restrict__".split())
_NAME = re.compile(rb"[A-Za-z_]\w*")


def tokens_sha256(code: bytes, language: Language) -> str:
    """Return the hash of the tokens of a file, with numbers in the place of the names of local variables.

    It is that of the file itself if Python cannot split it, which then cannot run either, or if it is a file in Python
    so long that this takes seconds.
    """
    tokens = [code]
    if language is not Language.PY:
        tokens = list(_c_tokens(code))
        tokens = _numbered(tokens, _c_variables(tokens))
    elif len(code) <= _PYTHON_BYTES_MAX:
        with suppress(tokenize.TokenError, SyntaxError, ValueError):
            tokens = _python_tokens(code)
    return hashlib.sha256(b"\0".join(tokens)).hexdigest()


def _numbered(tokens: Sequence[bytes], names: Collection[bytes]) -> list[bytes]:
    """Return the tokens with the place of its first use in the place of each of these names, but for attributes."""
    numbers: dict[bytes, bytes] = {}
    found = []
    for before, token in zip((b"", *tokens), tokens, strict=False):
        is_variable = token in names and before != b"."
        found.append(numbers.setdefault(token, b"\x03%d" % len(numbers)) if is_variable else token)
    return found


def _python_tokens(code: bytes) -> list[bytes]:
    found = [token for token in tokenize.tokenize(BytesIO(code).readline) if token.type not in _LEFT_OUT]
    tokens = [_LAYOUT.get(token.type) or token.string.encode(errors="surrogatepass") for token in found]
    return _numbered(tokens, _python_variables(tokens))


def _python_variables(tokens: Sequence[bytes]) -> set[bytes]:
    """Return the parameters and variables of functions whose names mean nothing outside of these.

    They are found without a parser, whose recursion a hostile file could exhaust, so some are missed. A name that is
    also a builtin, an import, a keyword of a call, a word of a string, or bound outside of functions keeps its meaning.
    """
    inside, outside = set[bytes](), {name.encode() for name in (*kwlist, *dir(builtins))} | _words_of_strings(tokens)
    statement: list[bytes] = []
    functions: list[bool] = []
    depth, is_function = 0, False
    for token, behind in zip(tokens, (*tokens[1:], b"\n"), strict=True):
        depth += (token in b"([{") - (token in b")]}") if len(token) == 1 else 0
        if depth and behind == b"=":
            outside.add(token)
        if depth or token not in (b"\n", b";", b"\x01", b"\x02"):
            statement.append(token)
            continue
        if statement:
            words = (statement[1:] if statement[0] == b"async" else ()) or statement
            is_function = words[0] == b"def"
            if words[0] in (b"from", b"import") and b"*" in words:
                return set()
            (inside if any(functions) else outside).update(_python_targets(words))
            inside.update(_python_parameters(words) if is_function else ())
            if words[0] in (b"class", b"def", b"from", b"global", b"import", b"nonlocal"):
                outside.update(words if words[0] not in (b"class", b"def") else words[1:2])
        statement = []
        if token == b"\x01":
            functions.append(is_function)
        elif token == b"\x02" and functions:
            functions.pop()
    return {name for name in inside - outside if _NAME.fullmatch(name)}


def _words_of_strings(tokens: Sequence[bytes]) -> set[bytes]:
    return {word for token in tokens if b'"' in token or b"'" in token for word in _NAME.findall(token)}


def _python_targets(statement: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the names to which a statement assigns values: before its first `=`, and of its loops."""
    end = 0
    while _NAME.fullmatch(b"".join(statement[end : end + 1])):
        end += 1
        if statement[end : end + 1] != [b","]:
            break
        end += 1
    if statement[end : end + 1] in ([b"="], [b":"]):
        yield from statement[:end:2]
    of_loop = False
    for token in statement:
        of_loop = token == b"for" or (of_loop and token != b"in")
        if of_loop:
            yield token


def _python_parameters(definition: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the names in the parentheses of a function that follow a parenthesis, a comma or a star."""
    depth = 0
    for before, token in pairwise(definition):
        depth += (token in (b"(", b"[", b"{")) - (token in (b")", b"]", b"}"))
        if depth == 0 and token == b")":
            return
        if depth == 1 and before in (b"(", b",", b"*", b"**"):
            yield token


def _c_variables(tokens: Sequence[bytes]) -> set[bytes]:
    """Return the variables of a type of the language whose names are neither members, called, nor in a directive."""
    declared, outside = set[bytes](), _words_of_strings(tokens)
    is_typed = in_directive = False
    for before, token, behind in zip((b"", *tokens), tokens, (*tokens[1:], b""), strict=False):
        in_directive = token == b"#" or (in_directive and token != b"\n")
        if in_directive or behind == b"(" or before in (b".", b">", b":"):
            outside.add(token)
        if token in _C_TYPES:
            is_typed = True
        elif token not in _C_QUALIFIERS:
            if is_typed and _NAME.fullmatch(token):
                declared.add(token)
            is_typed = False
    return declared - outside


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
