"""The whole path on a real Slurm, through the command line as a participant uses it."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.e2e.boards import RIGHT, BoardFiles, board_files
from tests.slurm.lab import SlurmLab

pytestmark = pytest.mark.slurm


@pytest.fixture
def board(tmp_path: Path, slurm_lab: SlurmLab) -> BoardFiles:
    return board_files(tmp_path, slurm=True, environ={"SLURM_CONF": slurm_lab.environment["SLURM_CONF"]})


def test_a_ranked_submission_to_two_gpus_is_judged_timed_and_ranked_on_both(board: BoardFiles) -> None:
    sent = board.json("submit", board.kernel(), "--gpu", "H100", "--gpu", "a100", "--mode", "ranked", "--wait")
    assert sent["task"] == "double"
    assert [run["gpu"] for run in sent["runs"]] == ["H100", "A100"]
    for run in sent["runs"]:
        assert (run["state"], run["verdict"], run["rank"]) == ("finished", "pass", 1)
        assert run["score_s"] > 0
        assert run["job"]["partition"] == run["gpu"].lower()
        assert run["job"]["id"].isdigit()
        assert run["job"]["node"] == f"{run['gpu'].lower()}-1"
        assert [case["phase"] for case in run["cases"]] == ["test", "test", "benchmark"]
    shown = board.json("show", "double", "--gpu", "H100")
    assert [(row["rank"], row["run"]) for row in shown["boards"][0]["rows"]] == [(1, sent["runs"][0]["id"])]
    provenance = board.json("run", str(sent["runs"][0]["id"]))["provenance"]
    assert provenance["emulated"] is True
    assert provenance["partition"] == "h100"


def test_a_run_tells_what_it_used_of_what_it_asked_for(board: BoardFiles) -> None:
    settings = yaml.safe_load(board.settings.read_text())
    settings["gpus"]["H100"] |= {"memory": "3G", "cpus_per_task": 2}
    board.settings.write_text(yaml.safe_dump(settings))
    body = "    held = bytearray(200 * 2**20)\n    return"
    (run,) = board.json("submit", board.kernel(RIGHT.replace("    return", body)), "--gpu", "H100", "--wait")["runs"]
    usage = board.json("run", str(run["id"]))["usage"]
    assert 200 * 2**20 < usage["memory_peak_bytes"] < 1200 * 2**20
    assert (usage["memory_asked_bytes"], usage["cpus_asked"]) == (3 * 2**30, 2)
    assert 0 < usage["cpu_seconds"] <= 2 * usage["elapsed_seconds"] + 1
    assert re.search(r"memory +at most \d+ MiB of 3\.0 GiB", board.run("run", str(run["id"])).stdout)


def test_a_submission_from_inside_a_batch_job_is_like_one_from_the_login_node(board: BoardFiles) -> None:
    command = board.command("submit", board.kernel(), "--gpu", "A100", "--mode", "ranked", "--wait", "--json")
    script = board.folder / "outer.sh"
    words = " ".join(f"'{word}'" for word in command)
    script.write_text(
        f"#!/bin/bash\n#SBATCH --partition=cpu --time=5\ncd '{Path.cwd()}'\n{words} > '{board.folder}/out.json'\n"
    )
    hostile = {
        "SBATCH_PARTITION": "cpu",
        "SLURM_CPU_BIND": "quiet,mask_cpu:0x1",
        "SQUEUE_FORMAT": "%A",
        "SBATCH_TIMELIMIT": "1",
    }
    done = subprocess.run(
        ["sbatch", "--wait", f"--output={board.folder}/outer.out", str(script)],
        env={**os.environ, **board.environ, **hostile},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr + (board.folder / "outer.out").read_text()
    (run,) = json.loads((board.folder / "out.json").read_text())["runs"]
    assert (run["verdict"], run["job"]["partition"]) == ("pass", "a100")


def test_the_script_that_is_shown_is_byte_for_byte_the_one_that_is_sent(board: BoardFiles) -> None:
    kernel = board.kernel()
    shown = {gpu: board.run("submit", kernel, "--gpu", gpu, "--dry-run").stdout for gpu in ("H100", "A100")}
    assert not (board.folder / "board" / "runs").exists()
    sent = board.json("submit", kernel, "--gpu", "H100,A100")
    for run in sent["runs"]:
        script = (board.folder / "board" / "runs" / str(run["id"]) / "job.sh").read_text()
        assert script == shown[run["gpu"]]
        assert f"#SBATCH --partition={run['gpu'].lower()}\n" in script
        assert _held_by_slurm(board, run["job"]["id"]) == script


def _held_by_slurm(board: BoardFiles, job_id: str) -> str:
    done = subprocess.run(
        ["scontrol", "write", "batch_script", job_id, "-"],
        env={**os.environ, **board.environ},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_a_gpu_that_the_node_lacks_ends_as_a_device_error_that_says_what_is_missing(board: BoardFiles) -> None:
    done = board.run("submit", board.kernel(), "--gpu", "H100-CUDA", "--mode", "test", "--wait", "--json")
    (run,) = json.loads(done.stdout)["runs"]
    assert done.returncode == 3
    assert (run["state"], run["verdict"]) == ("finished", "device_error")
    assert "no cuda device can be used on this node" in run["message"]


def test_each_refused_gpu_has_its_own_reason_and_hint_and_the_others_go_on(board: BoardFiles) -> None:
    settings = yaml.safe_load(board.settings.read_text())
    settings["gpus"]["H100"]["partition"] = "no-such"
    settings["gpus"]["A100"]["reservation"] = "no-such"
    board.settings.write_text(yaml.safe_dump(settings))
    done = board.run("submit", board.kernel(), "--gpu", "H100,A100,CPU")
    assert done.returncode == 3
    told = " ".join(done.stderr.split())
    h100, a100, cpu = sorted(board.json("runs"), key=lambda run: run["id"])
    assert (h100["state"], a100["state"]) == ("error", "error")
    for run, reason, hint in (
        (h100, "invalid partition specified: no-such", "Hint: Correct gpus.H100.partition in the settings"),
        (
            a100,
            "Requested reservation is invalid",
            "Hint: Correct --reservation, or gpus.A100.reservation in the settings",
        ),
    ):
        _, _, told = told.partition(f"Run {run['id']} on {run['gpu']} rejected: ")
        assert reason in told.partition("Run ")[0], done.stderr
        assert hint in told.partition("Run ")[0], done.stderr
    assert board.ended(cpu["id"])["verdict"] == "pass"
    done = board.run("submit", board.kernel(), "--gpu", "H100,A100")
    assert done.returncode == 2
    for words in ("specified: no-such", "reservation is invalid", "gpus.H100.partition", "gpus.A100.reservation"):
        assert words in " ".join(done.stderr.split())
