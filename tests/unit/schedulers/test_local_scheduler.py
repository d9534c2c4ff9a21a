"""The embedded scheduler with real bash jobs, real spoolers and real kills."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hpc_board.domain.run import JobState, JobStatus
from hpc_board.errors import SchedulerError, StorageError
from hpc_board.files import locked
from hpc_board.harness.processes.tree import ended
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.model.runner import DONE, QUEUE, TAKEN, entry_name
from hpc_board.schedulers import Job, JobKey
from hpc_board.schedulers.local import client as local_client
from hpc_board.schedulers.local.client import LOG_BYTES_MAX, LocalScheduler
from hpc_board.schedulers.local.queue import Entry, Pool, Slot, visible_devices
from tests.values import replace

HERE = Cluster("here", "local")
CPU = Gpu("CPU", HERE, Device.CPU)
CUDA = Gpu("H100", HERE, Device.CUDA)
BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
PATIENCE_SECONDS = 60
UNTIL_GO = "until [ -e go ]; do sleep 0.05; done"


class Bench:
    """A local scheduler in a folder of its own, and everything that a test wants to know of it.

    A spooler finds the processes of a job by the name of the job, so no other bench of this account has the same.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.suffix = f".{secrets.token_hex(4)}"
        self.folder = root / "queue"
        self.log = root / "log"
        self.scheduler = LocalScheduler(HERE, self.folder)

    def job(self, name: str, script: str, *, gpu: Gpu = CPU, limit_seconds: int = 600) -> Job:
        folder = self.root / "jobs" / name
        folder.mkdir(parents=True)
        (folder / "job.sh").write_text(f"#!/bin/bash\n{script}\n")
        return Job(self.full(name), folder, "job.sh", gpu, {}, limit_seconds)

    def full(self, name: str) -> str:
        """The name of a job for the scheduler."""
        return name + self.suffix

    def key(self, name: str, job_id: str) -> JobKey:
        return JobKey(self.full(name), job_id, BEGINNING)

    def folder_of(self, key: JobKey) -> Path:
        return self.root / "jobs" / key.name.removesuffix(self.suffix)

    def find(self, name: str) -> str | None:
        return self.scheduler.find(self.key(name, ""))

    def submit(self, name: str, script: str, *, gpu: Gpu = CPU, limit_seconds: int = 600) -> JobKey:
        job_id = self.scheduler.submit(self.job(name, script, gpu=gpu, limit_seconds=limit_seconds))
        return self.key(name, job_id)

    def pool(self, host: str = os.uname().nodename) -> Pool:
        """The jobs of a machine for its CPU."""
        return Pool(self.folder / host / "cpu", host, Device.CPU, self.folder / "devices")

    def queued(self, job: Job, pool: Pool, number: int = 1) -> JobKey:
        """Add a job as a client that starts no spooler, and return its key."""
        pool.make()
        environment = [f"PATH={os.environ['PATH']}"]
        entry = Entry(job.name, str(number), str(job.folder), job.script, 60, "", environment)
        pool.queue.add(entry_name(number, job.name), entry)
        return JobKey(job.name, str(number), BEGINNING)

    def news(self, key: JobKey) -> JobStatus:
        return self.scheduler.poll([key])[key.name]

    def await_state(self, key: JobKey, state: JobState) -> JobStatus:
        await_true(lambda: self.news(key).state is state, lambda: f"{self.news(key)}\n{self.spooler_log()}")
        return self.news(key)

    def await_file(self, key: JobKey, name: str) -> Path:
        path = self.folder_of(key) / name
        await_true(path.exists, lambda: f"{path} is missing: {self.news(key)}\n{self.spooler_log()}")
        return path

    def let_go(self, key: JobKey) -> None:
        (self.folder_of(key) / "go").touch()

    def output(self, key: JobKey) -> str:
        return (self.folder_of(key) / f"slurm-{key.job_id}.out").read_text()

    def spooler_log(self) -> str:
        log = self.folder / "spooler.log"
        return log.read_text() if log.exists() else ""

    def spoolers(self) -> list[int]:
        return [pid for pid in self.pids() if b"local.spooler" in proc_file(pid, "cmdline")]

    def pids(self) -> list[int]:
        """The processes that work in this bench's folders or were told of them, but for the test itself."""
        root = os.fsencode(self.root)
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [
            pid
            for pid in pids
            if pid != os.getpid()
            and not ended(pid)
            and (root in proc_file(pid, "cmdline") or root in working_folder(pid))
        ]

    def kill_spooler(self) -> None:
        (pid,) = self.spoolers()
        os.kill(pid, signal.SIGKILL)
        await_true(lambda: pid not in self.spoolers())

    def client(self, code: str, *arguments: str, **options: str) -> subprocess.Popen[str]:
        """A process of its own that runs `code` with `scheduler`, and `job(name, script)`, at hand."""
        prelude = """
            import sys
            from pathlib import Path
            from hpc_board.model.gpu import Cluster, Device, Gpu
            from hpc_board.schedulers import Job
            from hpc_board.schedulers.local.client import LocalScheduler

            root = Path(sys.argv[1])
            scheduler = LocalScheduler(Cluster("here", "local"), root / "queue")

            def job(name, script):
                folder = root / "jobs" / name
                folder.mkdir(parents=True)
                (folder / "job.sh").write_text(script)
                gpu = Gpu("CPU", Cluster("here", "local"), Device.CPU)
                return Job(name + sys.argv[2], folder, "job.sh", gpu, {}, 600)
        """
        return subprocess.Popen(
            [
                sys.executable,
                "-c",
                textwrap.dedent(prelude) + textwrap.dedent(code),
                str(self.root),
                self.suffix,
                *arguments,
            ],
            env={**os.environ, **options},
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def await_true(condition: Callable[[], object], story: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, story()
        time.sleep(0.02)


def proc_file(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def working_folder(pid: int) -> bytes:
    try:
        return os.fsencode(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return b""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    bench = Bench(tmp_path)
    try:
        yield bench
        await_true(lambda: not bench.pids(), lambda: f"still there: {bench.pids()}\n{bench.spooler_log()}")
    finally:
        for pid in bench.pids():
            os.kill(pid, signal.SIGKILL)
        await_true(lambda: not bench.pids())


def test_a_job_runs_in_its_folder_and_ends_with_its_exit_status(bench: Bench) -> None:
    key = bench.submit("a", "pwd; echo oops >&2; exit 3")
    news = bench.await_state(key, JobState.ENDED)
    assert news.source == "local: exited with status 3"
    assert news.job_id == key.job_id
    assert news.node
    assert bench.output(key) == f"{bench.root}/jobs/a\noops\n"


def test_a_script_that_a_signal_ended_says_so(bench: Bench) -> None:
    key = bench.submit("a", "kill -SEGV $$")
    assert bench.await_state(key, JobState.ENDED).reason == "killed by signal 11"


def test_jobs_of_one_slot_run_one_at_a_time_in_their_order(bench: Bench) -> None:
    name = "${SLURM_JOB_NAME%.*}"
    script = f"echo begin {name} >>{bench.log}; sleep 0.05; echo end {name} >>{bench.log}"
    first = bench.submit("j0", f"{UNTIL_GO}; {script}")
    keys = [first, *(bench.submit(f"j{index}", script) for index in range(1, 5))]
    bench.await_state(first, JobState.RUNNING)
    waiting = bench.scheduler.poll(keys)
    assert [waiting[key.name].reason for key in keys[1:]] == [f"position {place} in the queue" for place in range(1, 5)]
    assert all(waiting[key.name].state is JobState.PENDING for key in keys[1:])
    bench.let_go(first)
    bench.await_state(keys[-1], JobState.ENDED)
    assert bench.log.read_text().split("\n")[:-1] == [
        f"{word} j{index}" for index in range(5) for word in ("begin", "end")
    ]


def test_a_job_that_outlives_its_client_is_found_again(bench: Bench) -> None:
    code = f'print(scheduler.submit(job("a", {UNTIL_GO!r})), flush=True); import time; time.sleep(1000)'
    with bench.client(code) as client:
        assert client.stdout is not None
        job_id = client.stdout.readline().strip()
        os.killpg(client.pid, signal.SIGKILL)
    key = bench.key("a", job_id)
    bench.await_state(key, JobState.RUNNING)
    assert bench.find("a") == job_id
    assert bench.find("b") is None
    bench.let_go(key)
    assert bench.await_state(key, JobState.ENDED).reason == "exited with status 0"
    assert bench.find("a") == job_id


def test_a_job_whose_client_died_before_starting_a_spooler_runs_at_the_next_poll(bench: Bench) -> None:
    key = bench.queued(bench.job("a", "exit 0"), bench.pool())
    assert bench.news(key).reason == "position 1 in the queue"
    bench.await_state(key, JobState.ENDED)


def test_a_job_whose_spooler_was_killed_ends_with_its_processes_and_does_not_start_again(bench: Bench) -> None:
    script = f"echo ${{SLURM_JOB_NAME%.*}} >>{bench.log}; (setsid sleep 1000 &); touch begun; {UNTIL_GO}"
    first, second = bench.submit("a", script), bench.submit("b", script)
    bench.let_go(second)
    bench.await_file(first, "begun")
    bench.kill_spooler()
    news = LocalScheduler(HERE, bench.folder).poll([first, second])
    assert [news[first.name].state, news[second.name].state] == [JobState.RUNNING, JobState.PENDING]
    lost = bench.await_state(first, JobState.NODE_FAIL)
    assert lost.reason == "its spooler was killed, or the machine restarted"
    bench.await_state(second, JobState.ENDED)
    assert bench.log.read_text().split() == ["a", "b"]


def test_a_device_stays_taken_while_a_lost_process_of_an_earlier_job_lives(bench: Bench) -> None:
    until_stop = f"until [ -e {bench.root}/stop ]; do sleep 0.05; done"
    hidden = f"cd /; setsid env -i PATH=$PATH bash -c '{until_stop}; echo gone >>{bench.log}'"
    first = bench.submit("a", f"({hidden}) & touch begun; {UNTIL_GO}")
    bench.await_file(first, "begun")
    await_true(lambda: any(b"/stop ]" in proc_file(pid, "cmdline") for pid in bench.pids()))
    second = bench.submit("b", f"echo second >>{bench.log}")
    bench.kill_spooler()
    bench.let_go(first)
    await_true(lambda: not any(working_folder(pid).endswith(b"/a") for pid in bench.pids()))
    bench.await_state(first, JobState.NODE_FAIL)
    assert bench.news(second).state is JobState.PENDING
    (bench.root / "stop").touch()
    bench.await_state(second, JobState.ENDED)
    assert bench.log.read_text() == "gone\nsecond\n"


def test_a_waiting_job_that_is_cancelled_never_runs(bench: Bench) -> None:
    first, second, third = (bench.submit(name, f"{UNTIL_GO}; touch ran") for name in "abc")
    bench.scheduler.cancel([second])
    assert bench.news(second).state is JobState.CANCELLED
    assert bench.news(second).source == "local: cancelled while it waited"
    for key in (first, second, third):
        bench.let_go(key)
    bench.await_state(third, JobState.ENDED)
    assert [(bench.root / "jobs" / name / "ran").exists() for name in "abc"] == [True, False, True]


def test_a_cancelled_job_ends_even_if_it_and_its_children_ignore_being_told(bench: Bench) -> None:
    key = bench.submit(
        "a",
        "trap '' TERM; sleep 1000 & setsid env -i sleep 1000 & touch begun; while :; do sleep 1000; done",
    )
    bench.await_file(key, "begun")
    bench.scheduler.cancel([key])
    assert bench.await_state(key, JobState.CANCELLED).source == "local: cancelled while it ran"
    await_true(lambda: not bench.pids())


def test_a_job_that_is_told_to_end_can_tidy_up_first(bench: Bench) -> None:
    key = bench.submit("a", "trap 'echo tidy; exit 0' TERM; touch begun; while :; do sleep 0.05; done")
    bench.await_file(key, "begun")
    bench.scheduler.cancel([key])
    bench.await_state(key, JobState.CANCELLED)
    assert bench.output(key).endswith("tidy\n")


def test_cancelling_a_job_that_has_ended_changes_nothing(bench: Bench) -> None:
    key = bench.submit("a", "exit 0")
    ended = bench.await_state(key, JobState.ENDED)
    bench.scheduler.cancel([key, bench.key("b", "77"), bench.key("c", "../1")])
    assert bench.news(key) == ended


def test_a_job_ends_at_its_time_limit(bench: Bench) -> None:
    key = bench.submit("a", "sleep 1000", limit_seconds=1)
    assert bench.await_state(key, JobState.TIMEOUT).source == "local: exceeded its time limit of 1 s"


def test_what_a_script_leaves_running_ends_with_it(bench: Bench) -> None:
    key = bench.submit("a", "sleep 1000 & (setsid env -i sleep 1000 &) ; exit 0")
    assert bench.await_state(key, JobState.ENDED).reason == "exited with status 0"
    await_true(lambda: not bench.pids())


def test_jobs_that_two_clients_submit_at_once_all_run_exactly_once(bench: Bench) -> None:
    code = f"""
        for index in range(10):
            script = 'echo "$SLURM_JOB_ID" >>{bench.log}'
            print(scheduler.submit(job(f"{{sys.argv[3]}}{{index}}", script)))
    """
    with bench.client(code, "a") as one, bench.client(code, "b") as other:
        outputs = [client.communicate()[0] for client in (one, other)]
    assert [one.returncode, other.returncode] == [0, 0], outputs
    ids = [int(line) for output in outputs for line in output.split()]
    assert sorted(ids) == list(range(1, 21))
    await_true(lambda: not bench.spoolers(), bench.spooler_log)
    assert [int(line) for line in bench.log.read_text().split()] == sorted(ids)


def test_a_spooler_is_gone_when_nothing_is_left_to_do(bench: Bench) -> None:
    key = bench.submit("a", "exit 0")
    bench.await_state(key, JobState.ENDED)
    await_true(lambda: not bench.spoolers())
    again = bench.submit("b", "exit 0")
    bench.await_state(again, JobState.ENDED)
    await_true(lambda: not bench.spoolers())
    assert bench.spooler_log() == ""


def test_a_job_that_comes_while_its_spooler_ends_is_run_by_it(bench: Bench) -> None:
    code = """
        import time
        from hpc_board.schedulers.local import spooler

        serve = spooler._Spooler.serve

        def paused(self):
            serve(self)
            (root / "looked").touch()
            while not (root / "go").exists():
                time.sleep(0.01)

        spooler._Spooler.serve = paused
        spooler.main(sys.argv[3:])
    """
    pool = bench.pool()
    pool.make()
    with bench.client(code, str(pool.folder), pool.host, "cpu", str(pool.devices), "0") as client:
        await_true((bench.root / "looked").exists)
        key = bench.queued(bench.job("a", "exit 0"), pool)
        assert Slot(pool, "0").claim_serving() is None
        (bench.root / "go").touch()
        client.wait()
    await_true((pool.folder / DONE / entry_name(1, key.name)).exists)


def test_a_spooler_ends_when_its_board_was_removed(bench: Bench) -> None:
    key = bench.submit("a", f"touch begun; {UNTIL_GO}")
    bench.await_file(key, "begun")
    shutil.rmtree(bench.folder)
    bench.let_go(key)
    await_true(lambda: not bench.spoolers())


def test_the_log_of_the_spoolers_is_bounded(bench: Bench) -> None:
    bench.scheduler.poll([])
    (bench.folder / "spooler.log").write_bytes(b"x" * (LOG_BYTES_MAX + 1))
    bench.await_state(bench.submit("a", "exit 0"), JobState.ENDED)
    assert bench.spooler_log() == ""


def test_garbage_in_the_queue_does_not_stop_other_jobs(bench: Bench) -> None:
    good = bench.submit("good", UNTIL_GO)
    bench.await_state(good, JobState.RUNNING)
    queue, taken = bench.pool().folder / QUEUE, bench.pool().folder / TAKEN
    (entry,) = taken.glob("cpu-0/*")
    job = json.loads(entry.read_bytes())
    contents = {
        "20": b"not json",
        "21": b"[" * 200_000,
        "22": json.dumps({**job, "seconds": "../../x"}).encode(),
        "23": json.dumps({name: value for name, value in job.items() if name != "folder"}).encode(),
        "24": json.dumps({**job, "environment": ["A=1", 1]}).encode(),
        "25": b"\xff" * 400_000,
    }
    damaged = [bench.key(f"damaged{number}", number) for number in contents]
    for key, content in zip(damaged, contents.values(), strict=True):
        (queue / entry_name(int(key.job_id), key.name)).write_bytes(content)
    others = [bench.key("other", number) for number in ("26", "27", "28")]
    folder, fifo, link = (queue / entry_name(int(key.job_id), key.name) for key in others)
    folder.mkdir()
    os.mkfifo(fifo)
    link.symlink_to("/etc/passwd")
    for stray in (queue / "stray", queue / "1.x", taken / "file", bench.folder / "here"):
        stray.touch()
    for stray in (bench.folder / "here2" / "tpu" / QUEUE, taken / "stray"):
        stray.mkdir(parents=True)
    late = bench.submit("late", "exit 0")
    assert late.job_id == "29"
    assert all(bench.news(key).state is JobState.MISSING for key in others)
    bench.let_go(good)
    bench.await_state(late, JobState.ENDED)
    ends = bench.scheduler.poll(damaged).values()
    assert {(end.state, end.reason) for end in ends} == {(JobState.NODE_FAIL, "its file in the queue is damaged")}
    assert bench.find("late") == "29"


def test_the_damaged_record_of_an_end_is_an_end(bench: Bench) -> None:
    key = bench.submit("a", "exit 0")
    bench.await_state(key, JobState.ENDED)
    record = bench.pool().folder / DONE / entry_name(1, key.name)
    for damage in (lambda: record.write_bytes(b"{"), record.unlink):
        damage()
        if not record.exists():
            record.mkdir()
        assert bench.news(key).source == "local: the record of its end cannot be read"
    assert bench.submit("b", "exit 0").job_id == "2"


def test_the_number_of_an_ended_job_is_not_given_again(bench: Bench) -> None:
    for name in ("a", "b"):
        bench.await_state(bench.submit(name, "exit 0"), JobState.ENDED)
    assert bench.submit("c", "exit 0").job_id == "3"


def test_a_record_that_cannot_be_run_ends_and_the_next_job_runs(bench: Bench) -> None:
    first = bench.submit("a", UNTIL_GO)
    second, third = bench.submit("b", "exit 0"), bench.submit("c", "exit 0")
    shutil.rmtree(bench.root / "jobs" / "b")
    bench.let_go(first)
    news = bench.await_state(second, JobState.ENDED)
    assert news.reason.startswith("cannot be started: ")
    assert "jobs/b" in news.reason
    bench.await_state(third, JobState.ENDED)


def test_an_unknown_job_is_missing(bench: Bench) -> None:
    key = bench.submit("a", "exit 0")
    bench.await_state(key, JobState.ENDED)
    for job_id in ("", "0", "77", "-1", "../1", "1/../1", "9" * 30, "\u0661"):
        assert bench.news(replace(key, job_id=job_id)).state is JobState.MISSING
    assert bench.news(replace(key, name="another")).state is JobState.MISSING


def test_a_job_is_not_looked_for_among_much_older_ones(bench: Bench) -> None:
    key = bench.submit("a", "exit 0")
    bench.await_state(key, JobState.ENDED)
    now = datetime.now(UTC)
    assert bench.scheduler.find(replace(key, submitted_at=now)) == key.job_id
    assert bench.scheduler.find(replace(key, submitted_at=now + timedelta(days=2))) is None


def test_the_environment_of_a_job_is_its_submitters_and_scrubbed(bench: Bench) -> None:
    earlier = bench.submit("earlier", UNTIL_GO)
    code = 'print(scheduler.submit(job("a", "env -0 >environment")))'
    with bench.client(
        code, PRIVATE="hush", BASH_ENV="/nowhere", TMPDIR=str(bench.root), CUDA_VISIBLE_DEVICES="1"
    ) as client:
        output, _ = client.communicate()
    key = bench.key("a", output.strip())
    bench.let_go(earlier)
    bench.await_state(key, JobState.ENDED)
    text = (bench.root / "jobs/a/environment").read_text()
    variables = dict(line.split("=", 1) for line in text.split("\0")[:-1])
    assert variables.keys() <= {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "LD_LIBRARY_PATH"),
        *("SLURM_JOB_ID", "SLURM_JOB_NAME", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
        *("PWD", "SHLVL", "OLDPWD", "_"),
    }
    assert variables["PATH"] == os.environ["PATH"]
    assert variables["TMPDIR"] == str(bench.root)
    assert (variables["SLURM_JOB_ID"], variables["SLURM_JOB_NAME"]) == (key.job_id, key.name)
    assert (variables["CUDA_VISIBLE_DEVICES"], variables["HIP_VISIBLE_DEVICES"]) == ("", "")


def test_jobs_on_two_gpus_run_together_and_each_sees_its_own(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    script = f"echo $CUDA_VISIBLE_DEVICES >device; {UNTIL_GO}"
    keys = [bench.submit(name, script, gpu=CUDA) for name in "abc"]
    for key in keys[:2]:
        bench.await_state(key, JobState.RUNNING)
        bench.await_file(key, "device")
    assert bench.news(keys[2]).state is JobState.PENDING
    free, busy = bench.scheduler.availability([CPU, CUDA])
    assert (free.gpu, free.free, free.total, free.queued, free.state) == ("CPU", 1, 1, 0, "up")
    assert (busy.gpu, busy.free, busy.total, busy.queued, busy.state) == ("H100", 0, 2, 1, "up")
    for key in keys:
        bench.let_go(key)
    bench.await_state(keys[2], JobState.ENDED)
    seen = [(bench.root / "jobs" / name / "device").read_text().strip() for name in "ab"]
    assert sorted(seen) == ["0", "1"]


def test_jobs_of_two_boards_share_the_devices_of_a_machine(bench: Bench) -> None:
    devices = bench.root / "devices"
    bench.scheduler = LocalScheduler(HERE, bench.folder, devices=devices)
    other = LocalScheduler(HERE, bench.root / "other", devices=devices)
    first = bench.submit("a", f"touch begun; {UNTIL_GO}")
    bench.await_file(first, "begun")
    second = bench.key("b", other.submit(bench.job("b", "exit 0")))
    waiting = "waits for a job of another board to release the device"
    for _ in range(5):
        news = other.poll([second])[second.name]
        assert (news.state, news.reason) == (JobState.PENDING, waiting)
        assert other.availability([CPU])[0].free == 0
    third = bench.submit("c", "exit 0")
    assert bench.news(third).reason == "position 1 in the queue"
    bench.let_go(first)
    await_true(lambda: other.poll([second])[second.name].state is JobState.ENDED)
    bench.await_state(third, JobState.ENDED)
    assert other.availability([CPU])[0].free == 1


def test_a_board_whose_user_has_no_folder_for_devices_runs_its_jobs(bench: Bench) -> None:
    (bench.root / "file").touch()
    bench.scheduler = LocalScheduler(HERE, bench.folder, devices=bench.root / "file" / "devices")
    assert [found.free for found in bench.scheduler.availability([CPU, CUDA])] == [1, 1]
    assert bench.await_state(bench.submit("a", "exit 0"), JobState.ENDED).state is JobState.ENDED


def test_a_job_that_ran_when_the_machine_was_restarted_has_lost_its_node(bench: Bench) -> None:
    job = bench.job("lost", "touch ran")
    pool = bench.pool()
    key = bench.queued(job, pool)
    (pool.folder / Slot(pool, "0").taken).mkdir()
    entry = entry_name(1, job.name)
    (pool.folder / QUEUE / entry).rename(pool.folder / Slot(pool, "0").taken / entry)
    assert "machine restarted" in bench.await_state(key, JobState.NODE_FAIL).reason
    assert not (job.folder / "ran").exists()


def test_a_job_of_another_machine_is_left_to_it_but_can_be_cancelled_while_it_waits(bench: Bench) -> None:
    far = bench.queued(bench.job("far", "exit 0"), bench.pool("elsewhere"))
    near = bench.submit("near", "exit 0")
    bench.await_state(near, JobState.ENDED)
    assert near.job_id != far.job_id
    assert (bench.news(far).state, bench.news(far).source) == (JobState.PENDING, "local: waits on elsewhere")
    bench.scheduler.cancel([far])
    assert bench.news(far).state is JobState.CANCELLED


def test_an_end_that_was_stored_but_not_put_away_counts(bench: Bench) -> None:
    key = bench.submit("a", "exit 4")
    ended = bench.await_state(key, JobState.ENDED)
    await_true(lambda: not bench.spoolers())
    pool = bench.pool()
    unfinished = pool.folder / Slot(pool, "0").taken / entry_name(1, key.name)
    unfinished.touch()
    assert bench.news(key) == ended
    await_true(lambda: not unfinished.exists())
    assert bench.news(key) == ended


def test_a_folder_that_cannot_be_made_is_named(bench: Bench) -> None:
    (bench.root / "file").touch()
    scheduler = LocalScheduler(HERE, bench.root / "file" / "queue")
    with pytest.raises(StorageError, match="file/queue") as caught:
        scheduler.submit(bench.job("a", "exit 0"))
    assert "disk is not full" in caught.value.hint


def test_a_full_disk_refuses_the_job_and_names_the_folder(bench: Bench) -> None:
    code = """
        import resource, signal
        from hpc_board.errors import StorageError
        new = job("a", "exit 0")
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            scheduler.submit(new)
        except StorageError as error:
            print(error.message)
    """
    with bench.client(code) as client:
        output, _ = client.communicate()
    assert str(bench.folder) in output, output
    assert bench.find("a") is None
    assert list((bench.pool().folder / QUEUE).iterdir()) == []


def test_a_machine_without_bash_is_refused(bench: Bench) -> None:
    code = """
        from hpc_board.errors import SchedulerRefused
        try:
            scheduler.submit(job("a", "exit 0"))
        except SchedulerRefused as error:
            print(error.message)
    """
    with bench.client(code, PATH="/nowhere") as client:
        output, _ = client.communicate()
    assert output == "bash is not on PATH\n"
    assert bench.find("a") is None


def test_a_gpu_that_is_hidden_from_the_submitter_is_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(SchedulerError, match="no cuda device"):
        bench.submit("a", "exit 0", gpu=CUDA)
    (hidden,) = bench.scheduler.availability([CUDA])
    assert (hidden.free, hidden.total, hidden.state) == (0, 0, "no device")


def test_a_job_that_nobody_can_run_is_in_the_queue_and_found(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/nowhere/python")
        for call in (lambda: bench.submit("a", "exit 0"), lambda: bench.scheduler.availability([CPU])):
            with pytest.raises(SchedulerError, match="cluster here is down: no spooler could be started") as told:
                call()
            assert told.value.message.endswith(f"its log is {bench.folder / 'spooler.log'}")
    job_id = bench.find("a")
    assert job_id is not None
    bench.await_state(bench.key("a", job_id), JobState.ENDED)


def test_a_spooler_that_fails_at_its_start_is_told_in_short_with_its_log(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("hpc_board.schedulers.local.client._SPOOLER", "raise SystemExit('no such library')")
        with pytest.raises(SchedulerError, match=r"run its jobs: it exited with status 1; its log is /"):
            bench.submit("a", "exit 0")
    assert "no such library" in bench.spooler_log()
    assert bench.scheduler.availability([CPU])[0].state == "up"


def test_a_queue_that_somebody_holds_is_not_waited_for_forever(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_client, "_LOCK_PATIENCE_SECONDS", 0)
    bench.scheduler.poll([])
    with (
        locked(bench.folder / "lock"),
        pytest.raises(SchedulerError, match="another process has held this lock"),
    ):
        bench.submit("a", "exit 0")
    bench.await_state(bench.submit("b", "exit 0"), JobState.ENDED)


@pytest.mark.parametrize(
    ("device", "environment", "nvidia_gpus", "expected"),
    [
        (Device.CPU, {"CUDA_VISIBLE_DEVICES": ""}, 8, ["0"]),
        (Device.CUDA, {}, 3, ["0", "1", "2"]),
        (Device.CUDA, {}, 0, ["0"]),
        (Device.CUDA, {"CUDA_VISIBLE_DEVICES": "2, GPU-5a"}, 8, ["2", "GPU-5a"]),
        (Device.CUDA, {"CUDA_VISIBLE_DEVICES": "2,-1,3"}, 8, ["2"]),
        (Device.CUDA, {"CUDA_VISIBLE_DEVICES": ""}, 8, []),
        (Device.HIP, {"CUDA_VISIBLE_DEVICES": "5"}, 8, ["0"]),
        (Device.HIP, {"HIP_VISIBLE_DEVICES": "5"}, 0, ["5"]),
    ],
)
def test_the_devices_of_a_kind_follow_the_machine_and_what_is_visible(
    device: Device, environment: dict[str, str], nvidia_gpus: int, expected: list[str]
) -> None:
    assert visible_devices(device, environment, nvidia_gpus) == expected


def test_a_job_sees_the_gpu_of_its_slot_and_no_other() -> None:
    def slot(kind: Device, device: str) -> Slot:
        return Slot(Pool(Path("/"), "here", kind, Path("/")), device)

    assert slot(Device.CUDA, "3").environment == {"CUDA_VISIBLE_DEVICES": "3", "HIP_VISIBLE_DEVICES": ""}
    assert slot(Device.HIP, "1").environment == {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "1"}
    assert slot(Device.CPU, "0").environment == {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
    assert slot(Device.CUDA, "MIG-GPU-1/0/../x").name == "cuda-MIG-GPU-1%2F0%2F..%2Fx"
