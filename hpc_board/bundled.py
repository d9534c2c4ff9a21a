"""Where the files that ship with hpc-board lie: batch-script templates and tasks."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The folder `job_templates` or `tasks`: inside the package when installed, beside it in a checkout."""
    installed = _PACKAGE / "bundled" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name
