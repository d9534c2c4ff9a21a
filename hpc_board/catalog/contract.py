"""A task's functions and their arguments, read from the text of its reference without running it."""

import ast
import threading
from collections.abc import Iterator, Mapping
from functools import lru_cache

import msgspec

from hpc_board.model.names import suggestion
from hpc_board.model.task import CaseValue
from hpc_board.model.text import one_line

GENERATOR = "generate_input"
"""The function of a task's `reference.py` that makes the inputs of a case."""

CHECK = "check_implementation"
"""The function of a task's `reference.py` that checks an output."""

NEEDED = (GENERATOR, CHECK)
"""The functions without which our judge cannot judge a task."""

SIGNATURE_CHARACTERS_MAX = 100_000
"""The size above which a file is not parsed just for its functions, which each command may do with each task.

Deep expressions take 500 bytes of memory and 10 us for each of their characters.
"""

_ARGUMENTS_MAX = 100
_parsing = threading.Lock()


class Signature(msgspec.Struct, frozen=True):
    """The arguments that a function takes by name, and those among them that have no default.

    `open_ended` says that it takes any other name too.
    """

    names: tuple[str, ...]
    required: tuple[str, ...]
    open_ended: bool = False


def parsed(text: str) -> ast.Module:
    """Parse the text of a Python file.

    Python 3.11 counts the depth of a tree for all threads together, and raises SystemError if two of them count at
    once. A lock serializes our threads; after an error by another library's thread the text is parsed again.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: it is not Python, or more than can be read.
    """
    with _parsing:
        try:
            return ast.parse(text)
        except SystemError:
            return ast.parse(text)


def defined(tree: ast.Module) -> set[str]:
    """Return the names that a Python file binds at its top; "*" among them says that it may bind any other."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        found.update(_names(node))
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)
    return found


def missing(text: str) -> tuple[str, ...]:
    """Return the functions of `NEEDED` that the `reference.py` with this text does not define.

    Empty, too, if the text is not Python or too large: the judge will tell.
    """
    tree = _small_tree(text)
    names = {"*"} if tree is None else defined(tree)
    return () if "*" in names else tuple(name for name in NEEDED if name not in names)


@lru_cache(maxsize=64)
def signature(text: str, name: str) -> Signature | None:
    """Return the signature of the function `name` that the Python file `text` defines.

    None if the text is not Python or too large, or defines the function by other means than one plain `def` at the top.
    """
    tree = _small_tree(text)
    if tree is None:
        return None
    # A name that is in the text once needs one look at the top; Python folds other letters into ASCII's.
    nodes = list(tree.body if text.isascii() and text.count(name) == 1 else ast.walk(tree))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == name]
    rebound = any(isinstance(node, ast.Name) and node.id == name for node in nodes if _stores(node))
    if len(functions) != 1 or functions[0] not in tree.body or functions[0].decorator_list or rebound:
        return None
    given = functions[0].args
    if given.posonlyargs:
        return None  # it cannot be called with a case's names: the judge will tell
    positional = [each.arg for each in given.args]
    keyword_only = [each.arg for each in given.kwonlyargs]
    if len(positional) + len(keyword_only) > _ARGUMENTS_MAX:
        return None
    required = positional[: len(positional) - len(given.defaults)]
    required += [each for each, default in zip(keyword_only, given.kw_defaults, strict=True) if default is None]
    return Signature(tuple(positional + keyword_only), tuple(required), given.kwarg is not None)


def case_faults(
    generator: Signature, case: Mapping[str, CaseValue], supplied: tuple[str, ...] = ()
) -> Iterator[tuple[str, str]]:
    """Yield the faults of a case's arguments, each with its key ("" for the whole case).

    `supplied` are the arguments that the evaluation adds to those of the case.
    """
    for key in case:
        if key not in generator.names and not generator.open_ended:
            takes = one_line(", ".join(generator.names)) or "no arguments"
            yield key, f"is not an argument of {GENERATOR}, which takes {takes}.{suggestion(key, generator.names)}"
    for name in generator.required:
        if name not in case and name not in supplied:
            yield "", f"lacks {one_line(name, 80)}, which {GENERATOR} requires"
    seed = case.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int):
        yield "seed", "expected a whole number, from which other seeds are derived"


@lru_cache(maxsize=1)
def _small_tree(text: str) -> ast.Module | None:
    """Return the parsed text; None if it is not Python or too large. One is kept, as a reference has two uses."""
    try:
        return None if len(text) > SIGNATURE_CHARACTERS_MAX else parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name for alias in node.names)
    elif isinstance(node, ast.Name) and _stores(node):
        yield node.id


def _stores(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store)
