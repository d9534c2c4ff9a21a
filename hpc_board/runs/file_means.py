"""The means that a file in Python names: its imports, its kernels of Triton, and the libraries that it loads."""

import ast
import platform
import re
from collections.abc import Iterator

from hpc_board.catalog.contract import SIGNATURE_CHARACTERS_MAX, parsed
from hpc_board.domain.draft import Source
from hpc_board.errors import InputError
from hpc_board.model.means import GLOBAL, KINDS, own_code
from hpc_board.model.task import Language, Task
from hpc_board.model.text import one_line

_JIT = ("jit", "kernel")
"""The decorators of kernels in Triton, Gluon and Helion."""

_IMPORTERS = ("__import__", "import_module")


def check_means(source: Source, task: Task, language: Language) -> None:
    """Require that a file does not break its task's rule on means by the names in it.

    A name that is computed passes here: the judge sees the kernels and libraries themselves.

    Raises:
        InputError: the file names forbidden means, lacks required ones, or cannot be checked: it is too long or is not
            Python of this version.
    """
    file, hint = one_line(source.file_name), f"`hpc-board task {task.name}` shows the rule on means."
    of_python = [name for name in task.means.require if KINDS[name].modules]
    if language.compiled and of_python:
        raise InputError(f"{file}: {task.name} requires {of_python[0]}, which needs Python.", hint=hint)
    if language.compiled:
        return
    if len(source.text) > SIGNATURE_CHARACTERS_MAX:
        raise InputError(
            f"{file} has {len(source.text):,} characters, more than the {SIGNATURE_CHARACTERS_MAX:,} in which the rule "
            f"on means of {task.name} can be checked.",
            hint=hint,
        )
    try:
        tree = parsed(source.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        place = f"{file}, line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else file
        problem = one_line(getattr(error, "msg", "") or str(error) or type(error).__name__)
        raise InputError(
            f"{place}: not Python {platform.python_version()}, so the rule on means of {task.name} cannot be checked: "
            f"{problem}.",
            hint=f"Correct the line, or write it for this version; {hint}",
        ) from error
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
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [each.name for each in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            yield from ((node.lineno, *each) for module in modules for each in _imported(module))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield from ((node.lineno, name, f'names "{one_line(node.value, 80)}"') for name in _libraries(node.value))
            if GLOBAL in node.value:
                yield node.lineno, own_code(node.value), f"has code with {GLOBAL}"
        elif isinstance(node, ast.Call):
            arguments = [*node.args, *(each.value for each in node.keywords)]
            texts = [each.value for each in arguments if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            if _name_of(node.func) in _IMPORTERS:
                yield from ((node.lineno, *each) for text in texts for each in _imported(text))
            elif _name_of(node.func) == "find_library":
                for text in texts:
                    words = f'loads "{one_line(text, 80)}"'
                    yield from ((node.lineno, name, words) for name in _libraries(f"-l{text}"))


def _imported(module: str) -> Iterator[tuple[str, str]]:
    """Yield the means that a module of Python belongs to, and words about its import."""
    top = module.partition(".")[0]
    yield from ((name, f"imports {top}") for name, kind in KINDS.items() if top in kind.modules)


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
