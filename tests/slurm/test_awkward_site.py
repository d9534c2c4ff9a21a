"""A real Slurm as an awkward site has it, from `admin init` to ranked runs.

Jobs get 1,000 MB by default and a user may have three of them, /etc/profile alone defines `module`, the files of jobs
appear on the login node 20 seconds late, and a prolog fails once.
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
from tests.waiting import awaited

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
    prolog = tmp_path / "prolog"
    prolog.write_text(f"#!/bin/sh\n! rm {tmp_path}/fail 2>/dev/null\n")
    prolog.chmod(0o755)
    setup = (
        f"mount --bind {tmp_path}/profile /etc/profile\n"
        # The modules of this host are not the site's.
        "for own in /etc/profile.d /usr/share/lmod; do [ ! -d $own ] || mount -t tmpfs none $own; done\n"
        f"mount -t overlay overlay -o lowerdir={seen},upperdir={upper},workdir={work} {seen}"
    )
    configuration = {
        "SelectTypeParameters": "CR_Core_Memory",
        "DefMemPerCPU": "1000",
        "AccountingStorageEnforce": "limits",
        "Prolog": str(prolog),
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
    cpu |= {"python": sys.executable, "modules": ["cuda/12"], "retries": 1}
    site.settings.write_text(yaml.safe_dump(settings))
    code, found = checked(site, "CPU")
    assert code == 0, found
    assert line(found["CPU"], "modules")["message"] == "cuda/12 loaded; `module` comes from /etc/profile"
    assert line(found["CPU"], "files")["level"] == "ok"
    kernels = [site.kernel(f"{RIGHT}# {number}\n", f"kernel{number}.py") for number in range(4)]
    (site.folder / "fail").touch()
    repair = threading.Thread(target=resume_once, args=(site, "cpu-1"))
    repair.start()
    done = site.run("submit", *kernels, "--gpu", "CPU", "--mode", "ranked", "--wait", timeout_seconds=400)
    repair.join()
    assert done.returncode == 0, done.stderr
    runs = site.json("runs")
    assert [(run["state"], run["verdict"]) for run in runs] == [("finished", "pass")] * 4
    assert not (site.folder / "fail").exists()
    told = [site.json("run", str(run["id"])) for run in runs]
    assert sorted(run["retries"] for run in told) == [0, 0, 0, 1]
    for words in (
        "retry 1 of 1 after node_fail on cpu-1: the node's prolog failed",
        "a limit on the submitted jobs of its account, user or QOS is reached",
    ):
        assert any(words in reason for reason in reasons_of(site))


def reasons_of(site: BoardFiles) -> list[str]:
    """Return the reasons in the histories of all runs."""
    told = [site.json("run", str(run["id"])) for run in site.json("runs")]
    return [status["reason"] for run in told for status in run["history"]]


def resume_once(site: BoardFiles, node: str) -> None:
    """Have an administrator resume the node after its prolog has failed, and after the board has seen the reason."""
    environ = {**os.environ, **site.environ}
    ask = ["sinfo", "--noheader", "--Node", f"--nodes={node}", "--format=%T"]
    awaited(lambda: "drained" in subprocess.run(ask, env=environ, check=True, capture_output=True, text=True).stdout)
    awaited(lambda: any("prolog failed" in reason for reason in reasons_of(site)))
    subprocess.run(["scontrol", "update", f"NodeName={node}", "State=resume"], env=environ, check=True)
