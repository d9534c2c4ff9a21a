"""Another account of this machine, whose jobs may want to harm the account of the service."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from hpc_board.errors import SchedulerError
from hpc_board.transport.sudo import FOLDER_MODE, SudoHost, rules
from tests.accounts import command_as, needs_accounts
from tests.conftest import short_folder
from tests.sudo import command_with_rules, skip_without_sudo
from tests.waiting import awaited

SERVICE, JOBS = "games", "sys"


@pytest.fixture(autouse=True)
def needs_sudo() -> None:
    skip_without_sudo()


def by_service(program: str, *words: str | Path) -> str:
    """The output of a Python program of the service's account, which is in the group of the jobs' account."""
    command = [sys.executable, "-c", program, *map(str, words)]
    command = command_as(pwd.getpwnam(SERVICE).pw_uid, 0o077, [pwd.getpwnam(JOBS).pw_gid], command)
    command = command_with_rules(rules(SERVICE, JOBS), command)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_tokens_of_this_account_stay_with_it() -> None:
    environ = {
        "PATH": "/usr/bin:/bin",
        "SLURM_JWT": "a token",
        "KRB5CCNAME": "a ticket",
        "SLURM_CONF": "/etc/slurm.conf",
    }
    told = SudoHost("root", environ).run(["env"], timeout_seconds=30).stdout
    assert "SLURM_CONF=/etc/slurm.conf" in told
    assert "a token" not in told
    assert "a ticket" not in told


def test_an_account_for_which_sudo_runs_nothing_is_told() -> None:
    with pytest.raises(SchedulerError, match="sudo does not run commands as no-such-account: unknown user"):
        SudoHost("no-such-account").run(["true"], timeout_seconds=30)


STOPPED = """
import sys, time
from hpc_board.transport import CommandStopped
from hpc_board.transport.sudo import SudoHost

script = f"echo $$ > {sys.argv[2]}/pid; echo 'no room, sleeping and retrying' >&2; exec sleep 600"
began = time.monotonic()
try:
    SudoHost(sys.argv[1]).run(["sh", "-c", script], timeout_seconds=600, until=["sleeping and retrying"])
except CommandStopped:
    print(time.monotonic() - began)
"""


@needs_accounts
def test_a_command_of_an_account_that_takes_no_signals_is_stopped_at_once() -> None:
    with short_folder() as folder:
        folder.chmod(0o777)
        assert float(by_service(STOPPED, JOBS, folder)) < 30
        status = Path(f"/proc/{(folder / 'pid').read_text().strip()}/status")
        awaited(lambda: not status.exists() or "State:\tZ" in status.read_text())


HOSTILE = """
import os, sys
from pathlib import Path
from hpc_board.model.files import NotRegularFileError
from hpc_board.transport.sudo import SharedFiles, SudoHost

account, folder = sys.argv[1], Path(sys.argv[2])
files, job = SharedFiles(account, folder / "cache"), folder / "runs" / "1"
files.ensure(folder / "harness" / "a.pyz", b"harness")
files.write_folder(job, {"job.sh": b"script", "task/reference.py": b"x = 1"})
(folder / "secret").write_bytes(b"secret")
link = f"ln -s {folder}/secret link; ln {folder}/secret hard; ln -s {folder} profile; mkfifo pipe"
forge = "echo x > ../2; mkdir ../3; mv ../1 ../4; echo x > ../../harness/a.pyz; rm ../../harness/a.pyz"
replace = "echo x > job.sh; mv job.sh other; rm -f job.sh; echo x > task/reference.py; rm -rf task; chmod 700 ."
own = "umask 077; mkdir -p own/deep; echo x > own/deep/file; echo {} > result.json; chmod 640 result.json"
own += "; mkdir -m 700 shut; echo x > shut/file; chmod 0 shut"
SudoHost(account).run(["sh", "-c", f"{link}; {forge}; {replace}; {own}"], timeout_seconds=60, cwd=str(job))
assert (job / "job.sh").read_bytes() == b"script"
assert (job / "task" / "reference.py").read_bytes() == b"x = 1"
assert (folder / "harness" / "a.pyz").read_bytes() == b"harness"
assert {path.name for path in folder.iterdir()} == {"cache", "harness", "runs", "secret"}
assert [entry.name for entry in files.entries(folder / "runs")] == ["1"]
assert files.read(job / "result.json", 10) == b"{}\\n"
assert files.read(job / "result.json", 1, start=1)[:1] == b"}"
assert {entry.name for entry in files.entries(job)} >= {"link", "pipe", "profile", "own"}
for name in ("link", "pipe", "job.sh", "hard"):
    try:
        print(files.read(job / name, 10))
    except (NotRegularFileError, FileNotFoundError):
        pass
try:
    print(files.entries(job / "profile"))
except NotADirectoryError:
    pass
assert files.bytes_in(job) > 0
files.remove_folder(job, alone=True)
assert not job.exists()
assert (folder / "secret").exists()
"""


@needs_accounts
def test_an_account_changes_no_file_of_the_service_and_has_none_read_that_is_not_its_own() -> None:
    service, jobs = pwd.getpwnam(SERVICE), pwd.getpwnam(JOBS)
    with short_folder() as folder:
        shared = folder / "jobs"
        shared.mkdir()
        os.chown(shared, service.pw_uid, jobs.pw_gid)
        shared.chmod(FOLDER_MODE)
        assert by_service(HOSTILE, JOBS, shared) == ""


UNREADABLE = """
import sys
from pathlib import Path
from hpc_board.errors import SchedulerError
from hpc_board.transport.sudo import SharedFiles

jobs = Path(sys.argv[2]) / "jobs"
try:
    SharedFiles(sys.argv[1], jobs / "cache").ensure(jobs / "harness" / "a.pyz", b"harness")
except SchedulerError as error:
    print(error.message)
"""


@needs_accounts
def test_a_folder_that_the_account_of_jobs_cannot_enter_is_told_before_a_job_is_sent() -> None:
    with short_folder() as folder:
        os.chown(folder, pwd.getpwnam(SERVICE).pw_uid, -1)
        assert f"sys cannot read {folder / 'jobs' / 'harness'}" in by_service(UNREADABLE, JOBS, folder)


QUEUED = """
import sys
from pathlib import Path
from hpc_board.model.runner import DONE, QUEUE, STATE, TAKEN, WITHDRAWN, End, State, decoded
from hpc_board.transport.sudo import SharedFiles, SudoHost
from tests.harness.runners import JOB_ID, RunnerFolder

account, shared = sys.argv[1], Path(sys.argv[2])
files, runs = SharedFiles(account, shared / "cache"), shared / "runs"
made = RunnerFolder(shared.parent / "made")
jobs = [made.add(), made.add()]
first, second = map(made.name_of, jobs)
(made.folder / WITHDRAWN).mkdir()
(made.folder / WITHDRAWN / "empty").touch()
(harness,) = (made.board / "harness").iterdir()
files.ensure(shared / "harness" / harness.name, harness.read_bytes())
for folder in (*jobs, made.folder):
    paths = [path for path in folder.rglob("*") if path.is_file()]
    files.write_folder(runs / folder.name, {str(path.relative_to(folder)): path.read_bytes() for path in paths})
runner = runs / made.folder.name

def judge() -> State:
    done = SudoHost(account).run(["bash", "job.sh"], timeout_seconds=240, env={"SLURM_JOB_ID": JOB_ID}, cwd=str(runner))
    assert done.returncode == 0, done.stderr
    return decoded(files.read(runner / QUEUE / STATE, 1000), State)

def names(folder: str) -> set[str]:
    return {entry.name for entry in files.entries(runner / folder)}

files.rename(runner / QUEUE / second, runner / WITHDRAWN / second)
assert judge().place == 1
assert decoded(files.read(runner / DONE / first, 1000), End) == End("ended", "exited with status 0")
assert [names(folder) for folder in (QUEUE, TAKEN, DONE, WITHDRAWN)] == [{STATE}, set(), {first}, {"empty", second}]
files.remove(runner / QUEUE / STATE)
SudoHost(account).run(["mv", f"{WITHDRAWN}/{second}", QUEUE], timeout_seconds=60, cwd=str(runner))
assert judge().place == 2
assert names(DONE) == {first, second}
SudoHost(account).run(["sh", "-c", "umask 027; echo > 3"], timeout_seconds=60, cwd=str(runner / QUEUE))
files.rename(runner / QUEUE / "3", runner / WITHDRAWN / "3")
files.remove(runner / WITHDRAWN / "3")
assert names(WITHDRAWN) == {"empty"}
files.remove_folder(runner)
assert not runner.exists()
"""


@pytest.mark.slow
@needs_accounts
def test_the_service_and_a_runner_of_the_other_account_move_the_entries_of_one_queue() -> None:
    service, jobs = pwd.getpwnam(SERVICE), pwd.getpwnam(JOBS)
    with short_folder() as folder:
        os.chown(folder, service.pw_uid, -1)
        folder.chmod(0o711)
        shared = folder / "jobs"
        shared.mkdir()
        os.chown(shared, service.pw_uid, jobs.pw_gid)
        shared.chmod(FOLDER_MODE)
        assert by_service(QUEUED, JOBS, shared) == ""
