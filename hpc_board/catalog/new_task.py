"""The initial files of a new task, small and complete."""

import string
from collections.abc import Sequence

from hpc_board import bundled
from hpc_board.model.task import Language, Template

DOCUMENT = "task.yml"
NOTES = "NOTES.md"

_AS_THEY_ARE = ("task.py", "reference.py", "utils.py")
_IN_PYTHON = """\
  Python: write `custom_kernel(data)`; `data` is `x`, a vector of float32 with `size` elements on the device that the
  board runs on. Return `y`, a new vector of float32 of the same size on the same device. Leave `x` as it is.
"""
_COMPILED = """\
  Compiled: `in[0]` is `x`, a vector of float32 with `size` elements, `out[0]` is `y`; there are no params.
"""


def files(languages: Sequence[Language] = (Language.PY,)) -> dict[str, str]:
    """Return the files of a new task for submissions in `languages`, at least one, by their names in its folder."""
    folder = bundled.folder("task_starter")
    templates = {Template.of(language): f"template.{language}" for language in languages}
    first = languages[0]
    how = (_IN_PYTHON if Language.PY in languages else "") + (
        _COMPILED if any(language.compiled for language in languages) else ""
    )
    values = {
        "submission": f"submission.{first}",
        "lang": str(Language.CU if first is Language.CU else Language.PY),
        "how": how,
        "languages": ", ".join(languages),
        "templates": ", ".join(f"{title}: {name}" for title, name in templates.items()),
        "template": next(iter(templates.values())),
    }
    written = {
        DOCUMENT: _filled(f"{DOCUMENT}.template", values),
        NOTES: _filled(NOTES, values),
    }
    return written | {name: (folder / name).read_text("utf-8") for name in (*_AS_THEY_ARE, *templates.values())}


def _filled(name: str, values: dict[str, str]) -> str:
    return string.Template((bundled.folder("task_starter") / name).read_text(encoding="utf-8")).substitute(values)
