"""The folders that ship with hpc-board: batch-script templates, tasks, and the files of a new task."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """Return the folder `job_templates`, `tasks` or `task_starter`: in the package when installed, else beside it."""
    installed = _PACKAGE / "bundled" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
