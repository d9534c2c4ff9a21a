"""The parts that imports of all formats share: names, adapters, the task file, and faults."""

import ast
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from hpc_board import bundled
from hpc_board.catalog.contract import parsed
from hpc_board.errors import DocumentError, Fault
from hpc_board.model.task import SUBMISSION, CaseValue
from hpc_board.model.text import one_line, printable

SOURCE = "reference_source.py"
"""The source's own file in a task; a worker does not get it, as its name begins with "reference"."""

SEEDS = (4242, 5236)
"""The public seeds of test cases."""

BENCHMARK_SEED = 31232

RULES = (
    "Checked: each element, within the rounding errors of the function in its own precision.\n"
    "Ranked by: the geometric mean of the benchmarks' times.\n"
)
"""The last lines of a description, for a source that states no tolerance."""

T = TypeVar("T")

_NAME_MAX = 64
_HINT = "Correct the source, or write the task by hand: `hpc-board task new NAME` writes one to start from."


def task_name(text: str) -> str:
    """Return the valid name of a task that is nearest to `text`."""
    return re.sub(r"\A[^A-Za-z0-9]+", "", re.sub(r"[^A-Za-z0-9._+-]", "_", text))[:_NAME_MAX] or "task"


def tree_of(text: str, path: Path) -> ast.Module:
    """Return the parsed text of a Python file.

    Raises:
        DocumentError: it is not Python.
    """
    try:
        return parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        message = one_line(f"invalid Python: {error}", 500)
        raise refused(path, [Fault("", message, getattr(error, "lineno", None) or 0)]) from error


def refused(path: Path, faults: Sequence[Fault]) -> DocumentError:
    """Return the error of a source that cannot be imported."""
    return DocumentError(one_line(str(path), 300), faults, hint=_HINT)


def starter_files(*names: str) -> dict[str, str]:
    """Return the adapters of these names, and `utils.py` with the comparisons that they call."""
    folder = bundled.folder("task_starter")
    found = {name.partition("_")[2]: (folder / "imports" / name).read_text(encoding="utf-8") for name in names}
    return {**found, "utils.py": (folder / "utils.py").read_text(encoding="utf-8")}


def document(
    files: Iterable[str],
    description: str,
    tests: Sequence[Mapping[str, CaseValue]],
    benchmarks: Sequence[Mapping[str, CaseValue]],
    *,
    templates: Mapping[str, str],
    **own: Any,
) -> str:
    """Return the text of a `task.yml`; `own` are keys of its section `hpc_board`. JSON is YAML, too."""
    entries = [{"name": "submission.py", "source": SUBMISSION}, *({"name": name, "source": name} for name in files)]
    parts = {
        "files": _block(entries),
        "lang": " py",
        "description": f" {json.dumps(printable(description), ensure_ascii=False)}",
        "templates": f" {json.dumps(dict(templates))}",
        "tests": _block(tests),
        "benchmarks": _block(benchmarks),
        "ranking_by": " geom",
        "hpc_board": f" {json.dumps(own)}",
    }
    return "".join(f"{key}:{text}\n" for key, text in parts.items())


def capped(value: Any, size_max: int | None) -> Any:
    """Return a size, or sizes, of which none exceeds `size_max`."""
    if isinstance(value, (list, tuple)):
        return [capped(each, size_max) for each in value]
    return size_max if size_max is not None and type(value) is int and value > size_max else value


def spread(cases: Sequence[T], most: int) -> list[T]:
    """Return at most so many of the cases, the first and the last among them."""
    if len(cases) <= most:
        return list(cases)
    return [cases[index * (len(cases) - 1) // (most - 1)] for index in range(most)]


def _block(entries: Sequence[Mapping[str, Any]]) -> str:
    return "".join(
        f"\n  - {{{', '.join(f'{json.dumps(key)}: {_flow(each[key])}' for key in each)}}}" for each in entries
    )


def _flow(value: Any) -> str:
    """Return a value in JSON that YAML reads alike: it takes a number like 1e-06, without a point, for text."""
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("e", ".0e") if isinstance(value, float) and "." not in text else text
