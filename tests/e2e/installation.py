"""An installation of the product whose bundled tasks end their measurements soon."""

import shutil
from pathlib import Path

from tests.unit.recorded import REPOSITORY

_OWN_SECTION = "hpc_board: {"
_LIMITS = "workers: 1, rows: 1, row_calls: 5, burst_calls: 5, measure_seconds: 0"


def install(folder: Path) -> Path:
    """Copy the product into `folder`, the value of PYTHONPATH for it.

    Its bundled tasks measure in one process and make few calls. Otherwise each ranked run takes several seconds, and up
    to a minute more on a machine that is not quiet.
    """
    shutil.copytree(REPOSITORY / "hpc_board", folder / "hpc_board")
    for name in ("job_templates", "task_starter"):
        (folder / name).symlink_to(REPOSITORY / name)
    shutil.copytree(REPOSITORY / "tasks", folder / "tasks")
    for file in folder.glob("tasks/*/task.yml"):
        text = file.read_text(encoding="utf-8")
        assert text.count(_OWN_SECTION) == 1
        file.write_text(text.replace(_OWN_SECTION, f"{_OWN_SECTION}limits: {{{_LIMITS}}}, "), encoding="utf-8")
    return folder
