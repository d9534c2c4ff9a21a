"""Several real Slurm clusters on one board, by the slurm.conf of each, or by their names in a common accounting."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.conftest import short_folder
from tests.e2e.boards import HANGING, BoardFiles, board_files
from tests.slurm.lab import SlurmLab

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def west_lab(accounting_lab: SlurmLab) -> Iterator[SlurmLab]:
    with (
        short_folder() as folder,
        SlurmLab(folder / "lab", configuration={"ClusterName": "west"}, member_of=accounting_lab) as lab,
    ):
        yield lab


@pytest.fixture
def board(tmp_path: Path, accounting_lab: SlurmLab, west_lab: SlurmLab) -> BoardFiles:
    """A board of three entries on two clusters, in an environment that names neither."""
    files = board_files(tmp_path, slurm=True, environ={"SLURM_CONF": "/nowhere/slurm.conf"})
    settings = yaml.safe_load(files.settings.read_text())
    east, west = (str(lab.folder / "slurm.conf") for lab in (accounting_lab, west_lab))
    common = settings["clusters"]["lab"]
    settings["clusters"] = {
        "east": {**common, "slurm_conf": east},
        "west": {**common, "slurm_conf": west},
        "named": {**common, "slurm_conf": east, "slurm_cluster": "west"},
    }
    entry = settings["gpus"]["CPU"]
    settings["gpus"] = {name.upper(): {**entry, "cluster": name} for name in settings["clusters"]}
    files.settings.write_text(yaml.safe_dump(settings))
    return files


def jobs_of(lab: SlurmLab, states: str = "all") -> set[str]:
    return set(lab.run("squeue", "--noheader", f"--states={states}", "--format=%i").split())


def test_a_submission_runs_on_several_clusters(board: BoardFiles, accounting_lab: SlurmLab, west_lab: SlurmLab) -> None:
    before = jobs_of(west_lab)
    shown = board.run("submit", board.kernel(), "--gpu", "NAMED", "--dry-run").stderr
    conf = accounting_lab.folder / "slurm.conf"
    assert f"NAMED: env SLURM_CONF={conf} sbatch --clusters=west --parsable" in shown
    runs = board.json("submit", board.kernel(), "--gpu", "EAST,WEST,NAMED", "--wait")["runs"]
    assert [(run["gpu"], run["state"], run["verdict"]) for run in runs] == [
        (gpu, "finished", "pass") for gpu in ("EAST", "WEST", "NAMED")
    ], runs
    assert len(jobs_of(west_lab) - before) == 2
    free = {gpu["gpu"]: (gpu["total"], gpu["state"]) for gpu in board.json("gpus")}
    assert free == dict.fromkeys(("EAST", "WEST", "NAMED"), (4, "up"))
    done = board.run("admin", "check", "--json")
    assert done.returncode == 0, done.stdout
    doctor = {(each["subject"], each["level"]) for each in json.loads(board.run("admin", "doctor", "--json").stdout)}
    assert {(f"slurm {name}", "ok") for name in ("east", "west", "named")} <= doctor


def test_a_job_is_cancelled_on_its_own_cluster(board: BoardFiles, west_lab: SlurmLab) -> None:
    (run,) = board.json("submit", board.kernel(HANGING), "--gpu", "NAMED")["runs"]
    assert jobs_of(west_lab, "PENDING,RUNNING")
    done = board.run("cancel", str(run["id"]))
    assert done.returncode == 0, done.stderr
    assert board.ended(run["id"])["state"] == "cancelled"
    assert not jobs_of(west_lab, "PENDING,RUNNING")


def test_a_cluster_that_is_down_delays_no_other_one(board: BoardFiles, west_lab: SlurmLab) -> None:
    known = {each["gpu"]: each["asked_at"] for each in board.json("gpus")}
    with west_lab.stopped("slurmctld", patient=True):
        # The answer before counts for a second.
        while not (free := {each["gpu"]: each for each in board.json("gpus")})["WEST"]["problem"]:
            known = {name: each["asked_at"] for name, each in free.items()}
        assert (free["WEST"]["total"], free["WEST"]["asked_at"]) == (4, known["WEST"])
        assert free["WEST"]["problem"] == "sinfo did not answer within 2 s"
        assert (free["EAST"]["problem"], free["EAST"]["total"]) == ("", 4)
    with west_lab.stopped("slurmctld"):
        east, west = board.json("submit", board.kernel(), "--gpu", "EAST,WEST")["runs"]
        assert board.ended(east["id"])["verdict"] == "pass"
        assert board.json("run", str(west["id"]))["state"] in ("created", "submitting")
    assert board.ended(west["id"])["verdict"] == "pass"
