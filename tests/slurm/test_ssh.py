"""A cluster over SSH: the same runs, by a real OpenSSH server in front of a real Slurm."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from hpc_board.board import Board
from tests.conftest import short_folder
from tests.e2e.boards import HANGING, RIGHT, BoardFiles, board_files, slurm_jobs, without_libraries
from tests.slurm.lab import SlurmLab
from tests.slurm.sshd import USER, SlowLink, Sshd, skip_without_sshd
from tests.waiting import awaited

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def server(slurm_lab: SlurmLab) -> Iterator[Sshd]:
    skip_without_sshd()
    environment = slurm_lab.environment
    with (
        short_folder() as folder,
        Sshd(folder / "d", {"SLURM_CONF": environment["SLURM_CONF"], "SBATCH_PARTITION": "cpu"}) as running,
    ):
        # A login node's banners, and its path to Slurm's commands.
        (running.home / ".bashrc").write_text("echo 'Welcome to far'; echo 'Maintenance on Monday' >&2\n")
        (running.home / ".bash_profile").write_text(f"echo 'Last login: today'\nexport PATH={environment['PATH']}\n")
        yield running


@pytest.fixture
def board(server: Sshd, slurm_lab: SlurmLab, tmp_path: Path) -> Iterator[BoardFiles]:
    """A board whose cluster `lab` is behind the server; nothing but SSH tells its client where Slurm is."""
    yield far_board(server, tmp_path, server.port)
    slurm_lab.cancel_jobs()


def far_board(server: Sshd, folder: Path, port: int) -> BoardFiles:
    known = server.known_hosts_line.replace(str(server.port), str(port))
    home = server.client_home(folder / "client", known)
    files = board_files(folder / "b", slurm=True, environ={"HOME": str(home), "SLURM_CONF": "/nowhere"})
    settings = yaml.safe_load(files.settings.read_text())
    settings["clusters"]["lab"] |= {
        "ssh": {"host": "127.0.0.1", "user": USER, "port": port},
        "board_folder": str(folder / "far"),
    }
    files.settings.write_text(yaml.safe_dump(settings, sort_keys=False))
    return files


def folders(board: BoardFiles) -> list[Path]:
    return sorted((board.folder.parent / "far" / "runs").iterdir())


def jobs_of(board: BoardFiles, lab: SlurmLab) -> list[str]:
    """The jobs of this board that Slurm knows, each by its name."""
    ours = {"hb-" + path.name.partition("-hb-")[2] for path in folders(board)}
    return [name for _, name, _ in slurm_jobs(lab.environment) if name in ours]


def test_a_ranked_submission_is_judged_and_ranked_as_on_the_login_node(board: BoardFiles, slurm_lab: SlurmLab) -> None:
    near = board_files(
        board.folder.parent / "near", slurm=True, environ={"SLURM_CONF": slurm_lab.environment["SLURM_CONF"]}
    )
    results = []
    for files in (board, near):
        sent = files.json("submit", files.kernel(), "--gpu", "H100,A100", "--mode", "ranked", "--wait")
        for run in sent["runs"]:
            assert (run["state"], run["verdict"], run["rank"]) == ("finished", "pass", 1), run
        shown = files.json("show", "double", "--gpu", "H100")
        results.append(
            [
                [(run["gpu"], run["job"]["node"], run["job"]["partition"]) for run in sent["runs"]],
                [[(case["phase"], case["verdict"]) for case in run["cases"]] for run in sent["runs"]],
                [(row["rank"], row["run"], row["file_name"]) for row in shown["boards"][0]["rows"]],
            ]
        )
    assert results[0] == results[1]
    assert not (board.folder / "board" / "runs").exists()
    assert len(folders(board)) == 2
    assert all((path / "result.json").exists() for path in folders(board))
    log = board.run("run", "1", "--log")
    assert (log.returncode, "Welcome" in log.stdout) == (0, False)


def test_the_files_of_a_profile_come_from_the_login_node(board: BoardFiles) -> None:
    board.json("submit", board.kernel(), "--gpu", "H100", "--mode", "profile", "--wait")
    (job,) = folders(board)
    (job / "profile").mkdir(exist_ok=True)
    (job / "profile" / "case-1.ncu-rep").write_bytes(os.urandom(3_000_000))
    found = board.json("run", "1", "--files", board.folder / "home")
    brought = {Path(each["path"]).name: Path(each["path"]).read_bytes() for each in found["files"]}
    assert brought["case-1.ncu-rep"] == (job / "profile" / "case-1.ncu-rep").read_bytes()
    (log,) = job.glob("slurm-*.out")
    assert brought[log.name] == log.read_bytes()


def test_several_files_go_as_one_array(board: BoardFiles, slurm_lab: SlurmLab) -> None:
    files = [board.kernel(name=f"k{number}.py") for number in range(3)]
    sent = [run for each in board.json("submit", *files, "--gpu", "H100", "--wait") for run in each["runs"]]
    assert [run["verdict"] for run in sent] == ["pass"] * 3
    array = folders(board)[0].name
    assert [path.name for path in folders(board)] == [array, *(f"{array}.{index}" for index in range(3))]
    assert [(path / "result.json").exists() for path in folders(board)] == [False, True, True, True]
    (array_id,) = {run["job"]["id"].partition("_")[0] for run in sent}
    listed = {job_id for job_id, name, _ in slurm_jobs(slurm_lab.environment) if name == array}
    assert listed == {f"{array_id}_{index}" for index in range(3)}


def test_the_job_folders_of_ended_runs_are_pruned_on_the_login_node(board: BoardFiles, tmp_path: Path) -> None:
    files = [board.kernel(name=f"k{number}.py") for number in range(3)]
    board.json("submit", *files, "--gpu", "H100", "--wait")
    alone = board.json("submit", board.kernel(), "--gpu", "H100", "--wait")["runs"][0]["id"]
    going = board.json("submit", board.kernel(HANGING), "--gpu", "A100", "--mode", "test")["runs"][0]["id"]

    def is_running() -> bool:
        board.run("poll")
        return bool(board.json("run", str(going))["state"] == "running")

    awaited(is_running, seconds=120)
    log = board.run("run", str(alone), "--log").stdout
    (runs := folders(board)[0].parent).joinpath("999-hb-0123456789abcdef").mkdir()
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    (next(runs.glob(f"{alone}-*")) / "out").symlink_to(precious)
    stays = {path.name for path in folders(board) if path.name.startswith((f"{going}-", "999-"))}
    size = sum(
        path.lstat().st_size
        for path in runs.rglob("*")
        if path.parts[len(runs.parts)] not in stays and (path.is_symlink() or path.is_file())
    )

    asked = board.json("admin", "prune", "--older-than", "0h", "--dry-run")
    assert len(folders(board)) == 7
    told = board.json("admin", "prune", "--older-than", "0h")
    for printed in (asked, told):
        (lab,) = (each for each in printed["clusters"] if each["cluster"] == "lab")
        assert (lab["folders"], lab["bytes"], lab["problem"]) == (5, size, ""), lab
    assert {path.name for path in folders(board)} == stays
    assert (precious / "file").exists()
    assert board.run("run", str(alone), "--log").stdout == log
    assert board.json("run", str(alone))["verdict"] == "pass"
    assert board.run("cancel", str(going)).returncode == 0
    assert board.ended(going)["state"] == "cancelled"


def test_the_gpus_of_the_cluster_are_proven_and_nothing_is_left(board: BoardFiles, slurm_lab: SlurmLab) -> None:
    without_libraries(board)
    done = board.run("admin", "check", "H100", "CPU", "--json")
    found = {each["gpu"]: each for each in json.loads(done.stdout)}
    assert (done.returncode, [each["node"]["node"] for each in found.values()]) == (0, ["h100-1", "cpu-1"]), done.stderr
    for each in found.values():
        levels = {line["subject"]: line["level"] for line in each["lines"]}
        assert (each["proven"], levels["sbatch"], levels["files"], levels["clock"]) == (True, "ok", "ok", "ok")
    ids = {each["node"]["job_id"] for each in found.values()}
    assert {state for job, _, state in slurm_jobs(slurm_lab.environment) if job in ids} == {"COMPLETED"}
    assert [path.name for path in (board.folder.parent / "far").iterdir()] == ["cpu-peaks.json"]
    assert not (board.folder / "board" / "checks").exists()
    rehearsed = board.run("admin", "check", "H100", "--no-job")
    assert rehearsed.returncode == 0, rehearsed.stdout
    assert [path.name for path in (board.folder.parent / "far").iterdir()] == ["cpu-peaks.json"]


@pytest.mark.parametrize("accepted", [True, False], ids=["after Slurm took the job", "before Slurm saw it"])
def test_a_connection_lost_in_the_middle_of_submit_neither_loses_nor_doubles_the_job(
    board: BoardFiles, server: Sshd, slurm_lab: SlurmLab, accepted: bool
) -> None:
    sbatch = shutil.which("sbatch", path=slurm_lab.environment["PATH"])
    wrapper = server.home / "bin" / "sbatch"
    wrapper.parent.mkdir(exist_ok=True)
    reached = board.folder / "reached"
    hand_over = f'{sbatch} "$@"; ' if accepted else ""
    wrapper.write_text(f'#!/bin/sh\n[ -e {reached} ] && exec {sbatch} "$@"\n{hand_over}touch {reached}\nsleep 600\n')
    wrapper.chmod(0o755)
    profile = server.home / ".bash_profile"
    before = profile.read_text()
    profile.write_text(f"{before}export PATH={wrapper.parent}:$PATH\n")
    program, words = board.command()[:3], board.command("submit", board.kernel(), "--gpu", "H100", "--mode", "test")[3:]
    assert program[1:] == ["-m", "hpc_board"]
    try:
        client = subprocess.Popen(
            [*program[:2], "tests.slurm.impatient_client", *words, "--wait", "--json"],
            env={**os.environ, **board.environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        awaited(reached.exists)
        server.drop()
        out, errors = client.communicate(timeout=180)
    finally:
        profile.write_text(before)
    assert client.returncode == 0, errors
    (run,) = json.loads(out)["runs"]
    assert (run["state"], run["verdict"]) == ("finished", "pass")
    assert len(jobs_of(board, slurm_lab)) == 1
    evidence = [status.source for status in Board.open(board.settings).runs.whole(1).history]
    assert f"the connection to {USER}@127.0.0.1 was lost while sbatch ran" in evidence
    # A job that ends before the next look into the lists is known by its result.
    assert accepted or "found in the scheduler's lists" not in evidence


def test_a_connection_lost_in_the_middle_of_collect_loses_nothing(
    server: Sshd, slurm_lab: SlurmLab, tmp_path: Path
) -> None:
    with SlowLink(server.port, delay_seconds=0, piece_bytes=65_536) as link:
        board = far_board(server, tmp_path, link.port)
        client = subprocess.Popen(
            board.command("submit", board.kernel(RIGHT), "--gpu", "H100", "--mode", "ranked", "--wait", "--json"),
            env={**os.environ, **board.environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + 120
        awaited(lambda: [*(tmp_path / "far").glob("runs/*/progress.jsonl")], seconds=120)
        # Wherever the client is then: at the run's state, its progress or its result.
        while client.poll() is None and time.monotonic() < deadline:
            link.cut_after(4000)
            time.sleep(1.5)
        out, errors = client.communicate(timeout=120)
        assert link.cuts > 0
    slurm_lab.cancel_jobs()
    assert client.returncode == 0, errors
    (run,) = json.loads(out)["runs"]
    assert (run["state"], run["verdict"], run["rank"]) == ("finished", "pass", 1)
    assert len(jobs_of(board, slurm_lab)) == 1


def test_a_login_node_that_is_gone_is_told_and_the_run_goes_on_when_it_is_back(board: BoardFiles, server: Sshd) -> None:
    server.stop()
    try:
        sent = board.run("submit", board.kernel(), "--gpu", "H100", "--mode", "test")
        shown = board.run("gpus")
    finally:
        server.start()
    assert sent.returncode == 0
    assert f"{USER}@127.0.0.1 cannot be reached: Connection refused" in sent.stderr
    assert "cannot be reached" in shown.stdout + shown.stderr
    assert board.ended(1)["verdict"] == "pass"


def test_an_unknown_host_key_stops_the_run_until_a_person_has_added_it(board: BoardFiles, server: Sshd) -> None:
    known = Path(board.environ["HOME"]) / ".ssh" / "known_hosts"
    known.write_text("")
    sent = board.run("submit", board.kernel(), "--gpu", "H100", "--mode", "test")
    assert sent.returncode == 0
    assert f"the host key of [127.0.0.1]:{server.port} is not known" in sent.stderr
    assert (known.read_text(), (board.folder.parent / "far").exists()) == ("", False)
    known.write_text(server.known_hosts_line)
    assert board.ended(1)["verdict"] == "pass"


def test_a_folder_that_cannot_be_written_is_told_with_what_to_do_and_the_run_goes_on_when_it_can(
    board: BoardFiles,
) -> None:
    far = board.folder.parent / "far"
    far.write_text("in the way")
    sent = board.run("submit", board.kernel(), "--gpu", "H100", "--mode", "test")
    assert (sent.returncode, "confirmed" in sent.stderr) == (2, False)
    assert board.json("run", "1")["state"] == "created"
    for words in (" ".join(sent.stderr.split()), " ".join(board.run("run", "1").stdout.split())):
        assert f"{far}/harness/" in words
        assert "the harness cannot be written: Failure" in words
        assert "board_folder`" in words
    watched = board.run("watch", "1", "--timeout", "1")
    assert (watched.returncode, "cannot be written" in watched.stderr) == (4, True)
    assert f"{far}/.writable: the file cannot be written" in " ".join(board.run("gpus", "--json").stdout.split())
    far.unlink()
    assert board.ended(1)["verdict"] == "pass"


def test_a_server_without_sftp_ends_runs_and_is_told_by_gpus(slurm_lab: SlurmLab, tmp_path: Path) -> None:
    skip_without_sshd()
    lab = {name: slurm_lab.environment[name] for name in ("SLURM_CONF", "PATH")}
    with short_folder() as folder, Sshd(folder / "d", lab, sftp=False) as bare:
        board = far_board(bare, tmp_path, bare.port)
        sent = board.run("submit", board.kernel(), "--gpu", "H100", "--mode", "test")
        assert sent.returncode == 2
        assert "offers no SFTP" in sent.stderr
        assert board.json("run", "1")["state"] == "error"
        assert "offers no SFTP" in board.run("gpus").stdout


def test_two_boards_may_have_one_folder_on_the_cluster(board: BoardFiles, server: Sshd) -> None:
    other = far_board(server, board.folder.parent / "other", server.port)
    settings = yaml.safe_load(other.settings.read_text())
    settings["clusters"]["lab"]["board_folder"] = str(board.folder.parent / "far")
    other.settings.write_text(yaml.safe_dump(settings, sort_keys=False))
    uploaded = set()
    for files in (board, other):
        (run,) = files.json("submit", files.kernel(), "--gpu", "H100", "--mode", "test", "--wait")["runs"]
        assert (run["id"], run["verdict"]) == (1, "pass")
        (harness,) = (board.folder.parent / "far" / "harness").iterdir()
        uploaded.add((harness.name, harness.stat().st_ino, harness.stat().st_mtime_ns))
    assert len(folders(board)) == 2
    assert len(uploaded) == 1, "the second board uses the harness that the first one has uploaded"
    assert harness.parent.stat().st_mode & 0o777 == 0o700


def test_one_board_uses_a_cluster_here_and_one_over_ssh_at_once(board: BoardFiles, slurm_lab: SlurmLab) -> None:
    settings = yaml.safe_load(board.settings.read_text())
    settings["clusters"]["near"] = {"scheduler": "slurm", "poll_seconds": 1, "allow_root": True}
    settings["gpus"]["A100"]["cluster"] = "near"
    board.settings.write_text(yaml.safe_dump(settings, sort_keys=False))
    both = BoardFiles(
        board.folder, board.settings, {**board.environ, "SLURM_CONF": slurm_lab.environment["SLURM_CONF"]}
    )
    sent = both.json("submit", both.kernel(), "--gpu", "H100,A100", "--mode", "ranked", "--wait")
    assert [(run["gpu"], run["job"]["cluster"], run["verdict"]) for run in sent["runs"]] == [
        ("H100", "lab", "pass"),
        ("A100", "near", "pass"),
    ]
    assert len(folders(board)) == 1
    assert [path.name for path in (board.folder / "board" / "runs").iterdir()] == [str(sent["runs"][1]["id"])]


def test_reads_do_not_wait_for_a_controller_that_hangs_behind_a_login_node(
    board: BoardFiles, slurm_lab: SlurmLab
) -> None:
    (run,) = board.json("submit", board.kernel(HANGING), "--gpu", "H100")["runs"]
    (board.folder / "board" / "asked-lab").unlink(missing_ok=True)
    os.kill(slurm_lab.pid("slurmctld"), signal.SIGSTOP)
    try:
        shown = board.run("runs")
    finally:
        os.kill(slurm_lab.pid("slurmctld"), signal.SIGCONT)
    assert shown.returncode == 0
    assert "squeue did not answer within 2 s" in " ".join(shown.stderr.split())
    assert "queued" in shown.stdout or "running" in shown.stdout
    board.run("cancel", str(run["id"]))


def test_a_gpu_is_held_over_ssh_and_its_runs_are_cancelled_and_come_back(
    board: BoardFiles, slurm_lab: SlurmLab
) -> None:
    held = board.json("hold", "H100", "--wait")
    assert held["state"] == "running"
    first = board.json("submit", board.kernel(), "--gpu", "H100", "--wait")["runs"][0]
    assert (first["verdict"], first["runner"], first["job"]["id"]) == ("pass", 1, f"{held['job']['id']}.1")
    for number in (2, 3):
        hanging = board.json("submit", board.kernel(HANGING, "slow.py"), "--gpu", "H100")["runs"][0]["id"]
        awaited((next((board.folder.parent / "far" / "runs").glob(f"{hanging}-*")) / "progress.jsonl").exists)
        if number == 2:
            assert board.run("cancel", str(hanging)).returncode == 0
            assert board.ended(hanging)["state"] == "cancelled"
    # Behind the other one, which the judge gives up after a while.
    behind = [board.json("submit", board.kernel(), "--gpu", "H100")["runs"][0]["id"] for _ in range(2)]
    assert board.run("cancel", str(behind[0])).returncode == 0
    assert board.json("run", str(behind[0]))["state"] == "cancelled"
    assert board.run("release").returncode == 0
    ended = board.ended(behind[1])
    assert (ended["verdict"], ended["runner"]) == ("pass", None)
    awaited(lambda: board.run("poll").returncode == 0 and board.json("status")["runners"] == [])
    jobs = {job_id for job_id, name, _ in slurm_jobs(slurm_lab.environment) if name in {*jobs_of(board, slurm_lab)}}
    assert ended["job"]["id"] in jobs
