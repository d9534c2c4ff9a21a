"""`hpc-board admin` on a real Slurm, through the command line as an admin uses it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import short_folder, skip_without_slurm
from tests.e2e.boards import BoardFiles, board_files, slurm_jobs, without_libraries
from tests.harness.evaluations import QUICK
from tests.slurm.lab import SlurmLab
from tests.waiting import awaited

pytestmark = pytest.mark.slurm

RECORDED = Path(__file__).parents[1] / "fixtures" / "slurm" / "sites" / "lab-22.05.yaml"
TASKS = Path(__file__).parents[2] / "tasks"


@pytest.fixture
def board(tmp_path: Path, slurm_lab: SlurmLab) -> BoardFiles:
    files = board_files(tmp_path, slurm=True, environ={"SLURM_CONF": slurm_lab.environment["SLURM_CONF"]})
    return without_libraries(files)


# detect


def test_the_settings_of_the_lab_are_found_whatever_its_release(board: BoardFiles) -> None:
    done = board.run("admin", "detect")
    assert done.returncode == 0, done.stderr
    release = re.compile(r"Slurm [0-9.]+")
    assert _rows(release.sub("Slurm X", done.stdout)) == _rows(release.sub("Slurm X", RECORDED.read_text()))


def _rows(text: str) -> list[str]:
    """The lines after the header, which is wrapped by the length of the release's number."""
    return text.partition("\nclusters:")[2].splitlines()


def test_the_settings_are_written_into_a_file_that_the_next_command_reads(board: BoardFiles) -> None:
    target = board.folder / "found.yaml"
    done = board.run("admin", "detect", "--cluster", "here", "-o", target)
    assert (done.returncode, done.stdout) == (0, "")
    assert f"Settings written to {target}, with H100, A100, CPU." in done.stderr
    found = BoardFiles(board.folder, target, {**board.environ, "XDG_DATA_HOME": str(board.folder)})
    gpus = {gpu["gpu"]: gpu for gpu in found.json("gpus")}
    assert {name: (gpu["cluster"], gpu["total"]) for name, gpu in gpus.items()} == {
        "H100": ("here", 2),
        "A100": ("here", 2),
        "CPU": ("here", 4),
    }
    again = board.run("admin", "detect", "-o", target)
    assert again.returncode == 2
    assert "already exists" in again.stderr
    assert board.run("admin", "detect", "-o", target, "--force").returncode == 0


# check


def checked(board: BoardFiles, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code of `admin check --json`, and what it says of each GPU."""
    done = board.run("admin", "check", *words, "--json")
    assert "Traceback" not in done.stderr
    return done.returncode, {each["gpu"]: each for each in json.loads(done.stdout)}


def line(found: dict[str, Any], subject: str) -> dict[str, str]:
    only: dict[str, str]
    (only,) = (each for each in found["lines"] if each["subject"] == subject)
    return only


def changed(board: BoardFiles, gpu: str, **keys: Any) -> None:
    settings = yaml.safe_load(board.settings.read_text())
    settings["gpus"][gpu] |= keys
    board.settings.write_text(yaml.safe_dump(settings))


def test_the_gpus_of_the_lab_are_proven_and_nothing_is_left(board: BoardFiles) -> None:
    (board.folder / "scratch").mkdir()
    changed(board, "A100", env={"TMPDIR": str(board.folder / "scratch")}, minimum_isolation="S1")
    changed(board, "H100", exclusive=True)
    code, found = checked(board, "H100", "a100", "CPU")
    assert code == 0, found
    assert [each["node"]["node"] for each in found.values()] == ["h100-1", "a100-1", "cpu-1"]
    for each in found.values():
        assert each["proven"]
        assert line(each, "sbatch")["message"].startswith("Job ")
        assert line(each, "files")["level"] == line(each, "clock")["level"] == "ok"
        assert abs(each["node"]["greeted_at"] - time.time()) < 300
    assert [found[gpu]["node"]["visible"] for gpu in ("H100", "A100")] == ["0,1", "0"]
    assert found["A100"]["node"]["scratch"] == str(board.folder / "scratch")
    assert board.json("runs") == []
    assert not (board.folder / "board" / "checks").exists()
    jobs = {each["node"]["job_id"] for each in found.values()}
    assert {state for job, _, state in slurm_jobs(board.environ) if job in jobs} == {"COMPLETED"}


def _probes(board: BoardFiles) -> set[str]:
    """The ids of the probe jobs that the controller remembers; it forgets those of earlier tests meanwhile."""
    return {job for job, name, _ in slurm_jobs(board.environ) if name.startswith("hb-")}


def test_what_slurm_refuses_and_what_the_node_lacks_are_problems_of_their_entries(board: BoardFiles) -> None:
    changed(board, "H100", request={"style": "gres", "value": "gpu:a100:1"})
    changed(board, "A100", python="/no/such/python")
    changed(board, "CPU", partition="no-such")
    code, found = checked(board)
    assert code == 3
    refused = line(found["H100"], "sbatch")
    assert "Requested node configuration is not available" in refused["message"]
    assert "gpus.H100.request" in refused["advice"]
    assert "/no/such/python: No such file" in line(found["A100"], "job")["message"]
    assert "partition no-such does not exist" in line(found["CPU"], "partition")["message"]
    assert "the job sees no GPU" in line(found["H100-CUDA"], "gpu")["message"]
    assert not (board.folder / "board" / "checks").exists()


def each_node(board: BoardFiles, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code of `admin check --each-node --json`, and its object of each node."""
    done = board.run("admin", "check", "--each-node", *words, "--json")
    assert "Traceback" not in done.stderr
    return done.returncode, {each["node"]: each for each in json.loads(done.stdout)}


def test_each_node_of_a_gpu_is_tried_and_the_broken_and_the_wrong_ones_are_marked(board: BoardFiles) -> None:
    smi = board.folder / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(
        '#!/bin/sh\n[ "$SLURMD_NODENAME" = a100-1 ] && model="NVIDIA A100-SXM4-80GB" || model="NVIDIA H100 80GB HBM3"\n'
        'echo "$model, GPU-0, 570.1, Disabled, 81559, 345, 1980, 2619, Default"\n'
    )
    smi.chmod(0o755)
    own = board.folder / "own.sh.j2"
    shipped = (Path(__file__).parents[2] / "job_templates" / "job.sh.j2").read_text()
    own.write_text(
        shipped.replace("\nset -u\n", '\n[ "$SLURMD_NODENAME" != h100-1 ] || { echo no disk; exit 9; }\nset -u\n')
    )
    path = f"{smi.parent}:{os.environ['PATH']}"
    request = {"style": "none"}
    common = {"partition": "cpu,a100,h100", "device": "cuda", "env": {"PATH": path}}
    changed(board, "H100", **common, request=request, template=str(own))
    before = _probes(board)
    code, found = each_node(board, "H100")
    assert code == 3
    assert {name: (each["result"], each["device"], each["state"]) for name, each in found.items()} == {
        "a100-1": ("wrong", "NVIDIA A100-SXM4-80GB", "idle"),
        "cpu-1": ("ok", "NVIDIA H100 80GB HBM3", "idle"),
        "h100-1": ("broken", None, "idle"),
    }
    assert "it is NVIDIA A100-SXM4-80GB, but the name says H100" in found["a100-1"]["reason"]
    assert "no disk" in found["h100-1"]["reason"]
    for speed in (*found["a100-1"]["speeds"], *found["cpu-1"]["speeds"]):
        assert speed["rate"] > 0
        assert speed["of_median"] > 0
    assert [speed["name"] for speed in found["cpu-1"]["speeds"]] == ["sha256", "copy"]
    assert len(_probes(board) - before) == 3
    assert not (board.folder / "board" / "checks").exists()


def test_a_drained_node_is_listed_without_a_job(board: BoardFiles, slurm_lab: SlurmLab) -> None:
    changed(board, "CPU", partition="cpu,a100,h100", exclude="h100-[1]")
    slurm_lab.run("scontrol", "update", "nodename=a100-1", "state=drain", "reason=fan 3 is loud")
    before = _probes(board)
    try:
        code, found = each_node(board, "CPU")
        table = board.run("admin", "check", "--each-node", "CPU").stdout
    finally:
        slurm_lab.run("scontrol", "update", "nodename=a100-1", "state=resume")
    assert (code, set(found)) == (0, {"a100-1", "cpu-1"})
    down = found["a100-1"]
    assert (down["result"], down["state"], down["reason"], down["report"]) == ("down", "drained", "fan 3 is loud", None)
    assert found["cpu-1"]["result"] == "ok"
    assert len(_probes(board) - before) == 2
    assert re.search(r"^a100-1 +down +drained +fan 3 is loud$", table, re.MULTILINE), table
    assert "2 nodes: 1 ok, 1 down." in table
    changed(board, "CPU", partition="cpu", account="x", sbatch=["--licenses=none"])
    code, refused = each_node(board, "CPU")
    assert (code, [each["node"] for each in refused.values()]) == (3, [None])


def test_an_interrupted_check_leaves_no_job(board: BoardFiles, slurm_lab: SlurmLab) -> None:
    slurm_lab.run("sbatch", "--partition=cpu", "--exclusive", "--output=/dev/null", "--wrap=sleep 300")
    known = _probes(board)
    client = subprocess.Popen(
        board.command("admin", "check", "CPU"),
        env={**os.environ, **board.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        awaited(lambda: _probes(board) - known)
        client.send_signal(signal.SIGINT)
        _, errors = client.communicate(timeout=60)
        assert client.returncode == 130, errors
        (new,) = _probes(board) - known
        assert {state for job, _, state in slurm_jobs(board.environ) if job == new} == {"CANCELLED"}
        assert not (board.folder / "board" / "checks").exists()
        code, found = checked(board, "CPU", "--timeout", "2")
        assert code == 3
        assert line(found["CPU"], "job")["message"].startswith("no report within 2 s: waiting for ")
    finally:
        slurm_lab.cancel_jobs()


def test_a_silent_controller_is_a_problem_and_no_traceback(board: BoardFiles, slurm_lab: SlurmLab) -> None:
    with slurm_lab.stopped("slurmctld"):
        code, found = checked(board, "H100", "CPU")
    assert code == 3
    assert {each["lines"][0]["subject"] for each in found.values()} == {"cluster"}


# doctor


def examined(board: BoardFiles) -> tuple[int, list[tuple[str, str, str]]]:
    """The exit code of `admin doctor --json`, and level, subject and message of each line."""
    done = board.run("admin", "doctor", "--json")
    assert "Traceback" not in done.stderr
    return done.returncode, [(each["level"], each["subject"], each["message"]) for each in json.loads(done.stdout)]


def test_the_lab_is_healthy(board: BoardFiles) -> None:
    board.json("runs")
    code, lines = examined(board)
    assert code == 0, lines
    said = {subject: message for level, subject, message in lines if level == "ok"}
    assert said["settings"] == f"{board.settings} (from --config); 4 GPU entries"
    assert "0 runs in flight" in said["database"]
    assert "is Python 3." in said["gpu H100"]
    slurm = [message for _, subject, message in lines if subject == "slurm lab"]
    assert re.match(r"slurm(-wlm)? \d+\.\d+", slurm[0])
    assert re.fullmatch(r"the controller answers in \d+ ms", slurm[1])
    assert slurm[2].startswith("no accounting: ")
    assert slurm[3] == "MinJobAge is 300 s, and Slurm is polled every 1 s"


def test_a_cluster_with_accounting_that_forgets_jobs_is_healthy_too(tmp_path: Path, accounting_lab: SlurmLab) -> None:
    environ = {"SLURM_CONF": accounting_lab.environment["SLURM_CONF"]}
    code, lines = examined(board_files(tmp_path, slurm=True, environ=environ))
    assert code == 0, lines
    assert ("ok", "slurm lab", "sacct answers") in lines
    assert ("ok", "slurm lab", "MinJobAge is 2 s, and Slurm is polled every 1 s") in lines


def test_a_silent_controller_and_missing_commands_are_problems(board: BoardFiles, slurm_lab: SlurmLab) -> None:
    with slurm_lab.stopped("slurmctld"):
        code, lines = examined(board)
    assert code == 3
    assert [subject for level, subject, message in lines if "the controller does not answer" in message] == [
        "slurm lab"
    ]
    (board.folder / "bin").mkdir()
    bare = BoardFiles(board.folder, board.settings, {"PATH": str(board.folder / "bin")})
    code, lines = examined(bare)
    assert code == 3
    assert {level for level, subject, _ in lines if subject == "slurm lab"} == {"error", "warning"}


# A site whose default for memory does not do


@pytest.fixture
def tight_lab() -> Iterator[SlurmLab]:
    configuration = {
        "SelectTypeParameters": "CR_Core_Memory",
        "DefMemPerCPU": "300",
        "JobAcctGatherType": "jobacct_gather/linux",
        "JobAcctGatherFrequency": "task=1",
        "JobAcctGatherParams": "OverMemoryKill",
    }
    skip_without_slurm()
    with short_folder() as folder, SlurmLab(folder / "lab", configuration=configuration) as lab:
        yield lab


def with_few_calls(task: Path, parent: Path) -> Path:
    """Copy a bundled task into `parent`, with limits that make its measurement short; return `parent`."""
    folder = shutil.copytree(task, parent / task.name)
    shutil.copy(task.parent / "utils.py", parent)
    document = yaml.safe_load((folder / "task.yml").read_text())
    document["hpc_board"]["limits"] = QUICK
    (folder / "task.yml").write_text(yaml.safe_dump(document))
    return parent


def test_from_detect_to_a_ranked_run_where_the_default_memory_does_not_do(tight_lab: SlurmLab, tmp_path: Path) -> None:
    environ = {"SLURM_CONF": tight_lab.environment["SLURM_CONF"], "XDG_DATA_HOME": str(tmp_path)}
    board = BoardFiles(tmp_path, tmp_path / "hpc-board.yaml", environ)
    done = board.run("admin", "detect", "-o", board.settings)
    assert done.returncode == 0, done.stderr
    settings = yaml.safe_load(board.settings.read_text())
    cpu = settings["gpus"]["CPU"]
    assert (cpu["cpus_per_task"], cpu["memory"]) == (2, "2000M")
    settings |= {"board": str(tmp_path / "board"), "clusters": {"lab": {"scheduler": "slurm", "allow_root": True}}}
    cpu["python"] = sys.executable
    settings["gpus"] = {"CPU": cpu, "TIGHT": {**cpu, "device": "cpu", "cpus_per_task": 1}}
    del settings["gpus"]["TIGHT"]["memory"]
    settings["tasks"] = [str(with_few_calls(TASKS / "vectoradd_py", tmp_path / "tasks"))]
    board.settings.write_text(yaml.safe_dump(settings))
    _, found = checked(board, "--no-job")
    assert not {"cpus", "memory"} & {each["subject"] for each in found["CPU"]["lines"]}
    assert "the judge and the kernel's process share it" in line(found["TIGHT"], "cpus")["message"]
    assert "a job has 300 MiB (the default of cpu)" in line(found["TIGHT"], "memory")["message"]
    assert line(found["TIGHT"], "memory")["advice"].startswith("Set gpus.TIGHT.memory to 2000M or more")
    kernel = board.kernel((TASKS / "vectoradd_py" / "template.py").read_text())
    (run,) = board.json("submit", kernel, "--gpu", "CPU", "--mode", "ranked", "--wait")["runs"]
    assert (run["state"], run["verdict"], run["rank"]) == ("finished", "pass", 1), run
