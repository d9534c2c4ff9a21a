"""Where the files that ship with hpc-board lie: batch-script templates, tasks, and what a new task starts from."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The folder `job_templates`, `tasks` or `task_starter`: in the package when installed, else beside it."""
    installed = _PACKAGE / "bundled" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
