"""The means that a file in Python names: its imports, its kernels of Triton, and the libraries that it loads."""

import ast
import re
from collections.abc import Iterator

from hpc_board.catalog.contract import SIGNATURE_CHARACTERS_MAX, parsed
from hpc_board.domain.draft import Source
from hpc_board.errors import InputError
from hpc_board.model.means import KINDS
from hpc_board.model.task import Language, Task
from hpc_board.model.text import one_line

_JIT = ("jit", "kernel")
"""The decorators of kernels in Triton, Gluon and Helion."""


def check_means(source: Source, task: Task, language: Language) -> None:
    """Require that a file does not break its task's rule on means by the names in it.

    A file that Python cannot read passes here: the judge will tell. So does a name that is computed: the judge sees the
    kernels and libraries themselves.

    Raises:
        InputError: the file names forbidden means, or lacks required ones.
    """
    file, hint = one_line(source.file_name), f"`hpc-board task {task.name}` shows the rule on means."
    of_python = [name for name in task.means.require if KINDS[name].modules]
    if language.compiled and of_python:
        raise InputError(f"{file}: {task.name} requires {of_python[0]}, which needs Python.", hint=hint)
    if language.compiled or len(source.text) > SIGNATURE_CHARACTERS_MAX:
        return
    try:
        tree = parsed(source.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    found = list(_named(tree))
    for line, name, words in found:
        if name in task.means.forbid:
            raise InputError(f"{file}, line {line} {words}, but {task.name} forbids {name}.", hint=hint)
    for name in of_python:
        if name not in {each for _, each, _ in found}:
            raise InputError(f"{file} does not import {name}, which {task.name} requires.", hint=hint)
    if "triton" in of_python and not any(map(_is_kernel, ast.walk(tree))):
        raise InputError(
            f"{file} has no function with the decorator @triton.jit, but {task.name} requires triton.", hint=hint
        )


def _named(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield the line of each known means in a file, its name, and words about its place."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [each.name for each in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            for module in modules:
                top = module.partition(".")[0]
                yield from (
                    (node.lineno, name, f"imports {top}") for name, kind in KINDS.items() if top in kind.modules
                )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ((node.lineno, name, f'names "{one_line(node.value, 80)}"') for name in _libraries(node.value))
        elif isinstance(node, ast.Call) and _name_of(node.func) == "find_library":
            for each in node.args:
                value = each.value if isinstance(each, ast.Constant) and isinstance(each.value, str) else ""
                words = f'loads "{one_line(value, 80)}"'
                yield from ((node.lineno, name, words) for name in _libraries(f"-l{value}"))


def _libraries(text: str) -> Iterator[str]:
    """Yield the means of a library that a text names: the path of its file, or the flag of a linker."""
    file = re.sub("^-l:?(?:lib)?", "lib", text).rpartition("/")[2]
    if not re.search(r"\s", text):
        yield from (name for name, kind in KINDS.items() if kind.library and re.match(kind.library, file))


def _is_kernel(node: ast.AST) -> bool:
    for each in getattr(node, "decorator_list", ()):
        called = each.func if isinstance(each, ast.Call) else each
        if _name_of(called) in _JIT:
            return True
    return False


def _name_of(function: ast.expr) -> str:
    """Return the last name of a function that is called or decorates."""
    return getattr(function, "attr", getattr(function, "id", ""))
