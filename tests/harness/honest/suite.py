"""The honest kernels: the task of each, its style, and why a machine may have to leave it out."""

import ast
import importlib.metadata
import importlib.util
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hpc_board import bundled
from hpc_board.catalog.folders import read_task
from hpc_board.domain.submission import directives
from hpc_board.model.task import Task
from tests.harness.honest.tasks import TASKS

KERNELS = Path(__file__).parent / "kernels"

_MODULES = {"cffi_with_cc": ("cffi",)}
_PROGRAMS = {"cffi_with_cc": ("cc",), "load_inline": ("c++", "ninja")}
_TORCH = {"load_inline": (2, 8)}
"""The release of PyTorch from which on a kernel runs: `no_implicit_headers` is that new."""


@dataclass(frozen=True)
class Honest:
    """One kernel, which computes what its task asks for."""

    path: Path

    @property
    def name(self) -> str:
        """The name of its file without the ending."""
        return self.path.stem

    @cached_property
    def source(self) -> str:
        """The submission's text."""
        return self.path.read_text(encoding="utf-8")

    @property
    def style(self) -> str:
        """The sentence that says how the kernel computes."""
        return ast.get_docstring(ast.parse(self.source)) or ""

    @property
    def task_name(self) -> str:
        """The task that the kernel's first line names."""
        return directives(self.source).leaderboard or ""

    @property
    def is_bundled(self) -> bool:
        """Return whether the kernel's task is one that comes with the board."""
        return self.task_name not in TASKS

    @cached_property
    def task(self) -> Task:
        """The bundled task or the own one."""
        return read_task(bundled.folder("tasks") / self.task_name) if self.is_bundled else TASKS[self.task_name]

    def reason_to_leave_out(self) -> str:
        """Return what this machine lacks for the kernel; empty where it has all."""
        modules = (*_MODULES.get(self.name, ()), *(("torch", "numpy") if self.is_bundled else ()))
        missing = [name for name in modules if importlib.util.find_spec(name) is None]
        missing += [name for name in _PROGRAMS.get(self.name, ()) if shutil.which(name) is None]
        if not missing and self.name in _TORCH and _torch_release() < _TORCH[self.name]:
            missing = [f"PyTorch {'.'.join(map(str, _TORCH[self.name]))}"]
        return f"{self.name} needs {' and '.join(missing)}" if missing else ""


def _torch_release() -> tuple[int, int]:
    major, minor, *_ = importlib.metadata.version("torch").split(".")
    return int(major), int(minor)


HONEST = tuple(Honest(path) for path in sorted(KERNELS.glob("*.py")))
