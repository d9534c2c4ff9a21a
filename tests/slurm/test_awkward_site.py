"""A real Slurm as an awkward site has it, from `admin init` to ranked runs.

Jobs get 1,000 MB by default and a user may have three of them, /etc/profile alone defines `module`, and the files of
jobs appear on the login node 20 seconds late.
"""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
import yaml

from tests.conftest import short_folder, skip_without_slurm
from tests.e2e.boards import RIGHT, BoardFiles, write_task
from tests.slurm.lab import SlurmLab
from tests.slurm.test_admin import checked, line

pytestmark = pytest.mark.slurm

LATE_SECONDS = 20.0
PROFILE = """PATH=/usr/bin:/bin
module() { if [ "$1" = load ]; then export LAB_MODULE=$2; fi; }
"""


class LateFiles:
    """Files of nodes, which are in `upper` at once and in the folder `seen` of the login node late."""

    def __init__(self, upper: Path, seen: Path) -> None:
        self._upper = upper
        self._seen = seen
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._copy_until_over, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _copy_until_over(self) -> None:
        copied: dict[Path, int] = {}
        while not self._over.wait(0.2):
            for path in [path for path in self._upper.rglob("*") if path.is_file()]:
                try:
                    status = path.stat()
                    target = self._seen / path.relative_to(self._upper)
                    if time.time() - status.st_ctime > LATE_SECONDS and copied.get(path) != status.st_ctime_ns:
                        draft = target.with_name(f".late.{target.name}")
                        shutil.copy2(path, draft)
                        draft.replace(target)
                        copied[path] = status.st_ctime_ns
                except OSError:
                    continue  # either side has removed it


@pytest.fixture
def site(tmp_path: Path) -> Iterator[BoardFiles]:
    skip_without_slurm(accounting=True)
    if os.geteuid() != 0:
        pytest.skip("mounts need root")
    seen, upper, work = (tmp_path / name for name in ("board", "upper", "work"))
    for folder in (seen, upper, work):
        folder.mkdir(mode=0o700)
    (tmp_path / "profile").write_text(PROFILE)
    setup = (
        f"mount --bind {tmp_path}/profile /etc/profile\n"
        f"mount -t overlay overlay -o lowerdir={seen},upperdir={upper},workdir={work} {seen}"
    )
    configuration = {
        "SelectTypeParameters": "CR_Core_Memory",
        "DefMemPerCPU": "1000",
        "AccountingStorageEnforce": "limits",
    }
    with (
        short_folder() as folder,
        SlurmLab(folder / "lab", configuration=configuration, accounting=True, setup=setup) as lab,
        LateFiles(upper, seen),
    ):
        for words in ("add account board", "add user root account=board", "modify user root set maxsubmitjobs=3"):
            subprocess.run(["sacctmgr", "-i", *words.split()], env=lab.environment, check=False, capture_output=True)
        environ = {"SLURM_CONF": lab.environment["SLURM_CONF"], "XDG_DATA_HOME": str(tmp_path)}
        yield BoardFiles(tmp_path, tmp_path / "hpc-board.yaml", environ)


def test_from_init_to_ranked_runs(site: BoardFiles) -> None:
    done = site.run("admin", "init", str(site.folder / "board"), "--output", site.settings)
    assert done.returncode == 0, done.stderr
    settings = yaml.safe_load(site.settings.read_text())
    cpu = settings["gpus"]["CPU"]
    # The default of two CPUs does.
    assert (cpu["cpus_per_task"], "memory" in cpu) == (2, False)
    write_task(site.folder / "tasks" / "double")
    (cluster,) = settings["clusters"].values()
    cluster |= {"allow_root": True, "poll_seconds": 1}
    settings |= {"tasks": [str(site.folder / "tasks")], "gpus": {"CPU": cpu}}
    cpu |= {"python": sys.executable, "modules": ["cuda/12"]}
    site.settings.write_text(yaml.safe_dump(settings))
    code, found = checked(site, "CPU")
    assert code == 0, found
    assert line(found["CPU"], "modules")["message"] == "cuda/12 loaded; `module` comes from /etc/profile"
    assert line(found["CPU"], "files")["level"] == "ok"
    kernels = [site.kernel(f"{RIGHT}# {number}\n", f"kernel{number}.py") for number in range(4)]
    done = site.run("submit", *kernels, "--gpu", "CPU", "--mode", "ranked", "--wait", timeout_seconds=300)
    assert done.returncode == 0, done.stderr
    assert "a limit on the submitted jobs of its account, user or QOS is reached" in " ".join(done.stderr.split())
    runs = site.json("runs")
    assert [(run["state"], run["verdict"]) for run in runs] == [("finished", "pass")] * 4
