"""The pure parts of the Slurm client, on what Slurm 22.05 printed and on what other sites print."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hpc_board.domain.diagnostic import Severity
from hpc_board.domain.run import JobState
from hpc_board.errors import AnswerTooLarge, InputError, NotAccepting, QueueFull, SchedulerError, SchedulerRefused
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.schedulers import Job, JobKey
from hpc_board.schedulers.slurm import ClusterOptions, GpuOptions, Request, RequestStyle, diagnosis, with_options
from hpc_board.schedulers.slurm.client import SlurmScheduler, availability
from hpc_board.schedulers.slurm.gres import Gres, gres_list, matching_count, requested_gres
from hpc_board.schedulers.slurm.outputs import (
    SUBMITTED_FORMAT,
    NodeRow,
    account_rows,
    epoch,
    node_rows,
    queue_rows,
    submitted_job_id,
    table,
)
from hpc_board.schedulers.slurm.refusals import not_accepted, query_failed
from hpc_board.schedulers.slurm.states import job_state, memory_exceeded, pending_reason_text, prolog_failed
from hpc_board.transport import CommandMissing, CommandStopped, CommandTimeout, Completed
from hpc_board.transport.this_host import ThisHost
from tests.values import replace

RECORDED = Path(__file__).parents[2] / "fixtures" / "slurm" / "22.05"
MEND = "; cancel it, and correct `{}` of this GPU in the settings ({})"
GROUP_LIMIT = (
    "waiting for a limit on all jobs of its {}; if this job alone exceeds it, it never starts: "
    "`sacctmgr show {}` lists the limits ({})"
)
CLUSTER = Cluster("main", "slurm")
H100 = Gpu("H100", CLUSTER, Device.CUDA, "h100", scheduler_options=GpuOptions(Request(RequestStyle.GRES, "gpu:h100:1")))
CPU = Gpu("CPU", CLUSTER, Device.CPU, "cpu")
NOW = datetime(2026, 11, 21, tzinfo=UTC)
YESTERDAY = datetime.now(UTC) - timedelta(days=1)


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


HEADERS = {"squeue": "JOBID|NAME|STATE\n", "sacct": "JobID|JobName|State\n"}


class Programs:
    """A host whose programs print these texts, or have one `answer`, and which remembers what they were called with."""

    def __init__(self, answer: Completed | Exception | None = None, **printed: str) -> None:
        self.answer = answer
        self.printed = printed
        self.commands: list[Sequence[str]] = []

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_seconds: float,  # noqa: ARG002 - the protocol's
        env: Mapping[str, str] | None = None,  # noqa: ARG002
        cwd: str | None = None,  # noqa: ARG002
        stdin: str = "",  # noqa: ARG002
        until: Sequence[str] = (),  # noqa: ARG002
    ) -> Completed:
        self.commands.append(argv)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer or Completed(0, HEADERS.get(argv[0], "") + self.printed.get(argv[0], ""), "")


def commands(folder: Path, **scripts: str) -> None:
    """Write shell scripts as programs into the folder."""
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)


def job(folder: Path = Path("/board/runs/1")) -> Job:
    return Job("hb-1", folder, "job.sh", H100, {"partition": "h100"}, 60)


# squeue, sacct, sinfo


def test_recorded_jobs_of_squeue_are_read() -> None:
    rows = {row.name: row for row in queue_rows(recorded("squeue.txt"))}
    assert {name: row.state for name, row in rows.items()} == {
        "hb-ok": "COMPLETED",
        "hb-fail": "FAILED",
        "hb-limit": "TIMEOUT",
        "hb-cancelled": "CANCELLED",
        "hb-held": "PENDING",
        "hb-signal": "FAILED",
        "hb-gpu1": "RUNNING",
        "hb-gpu2": "RUNNING",
        "hb-waits": "PENDING",
        "hb-waits-too": "PENDING",
        "hb-down": "PENDING",
        "hb-drained": "PENDING",
    }
    assert rows["hb-gpu1"].node == "h100-1"
    assert rows["hb-down"].reason == "BeginTime"
    assert rows["hb-down"].submitted_at == datetime(2026, 11, 21, 3, 15, 6, tzinfo=UTC)
    assert rows["hb-down"].start == datetime(2026, 11, 21, 4, 15, 6, tzinfo=UTC)
    assert rows["hb-held"].start is None


def test_recorded_jobs_of_sacct_are_read() -> None:
    rows = {row.name: row for row in account_rows(recorded("sacct.txt"))}
    assert (rows["hb-fail"].state, rows["hb-fail"].exit_code) == ("FAILED", "3:0")
    assert (rows["hb-signal"].state, rows["hb-signal"].exit_code) == ("FAILED", "0:9")
    assert rows["hb-cancelled"].state == "CANCELLED by 0"
    assert rows["hb-waits"].node == ""
    assert rows["hb-limit"].node == "cpu-1"


def test_recorded_nodes_of_sinfo_are_read() -> None:
    assert node_rows(recorded("sinfo.txt")) == [
        NodeRow("a100-1", "a100", False, "up", "drained", 0, 4, "gpu:a100:2", "gpu:a100:0(IDX:N/A)"),
        NodeRow("cpu-1", "cpu", True, "up", "mixed", 3, 4, "(null)", "gpu:0"),
        NodeRow("h100-1", "h100", False, "up", "mixed", 2, 4, "gpu:h100:2", "gpu:h100:2(IDX:0-1)"),
    ]


def test_a_separator_in_the_last_column_stays_in_it() -> None:
    (row,) = queue_rows("7|hb|PENDING|1|N/A||2|None|/|a|b \n")
    assert (row.restarts, row.comment) == (2, "a|b")


def test_a_job_that_waits_for_a_limit_of_all_jobs_takes_no_further_question() -> None:
    host = Programs(squeue=f"7|hb-1|PENDING|{int(NOW.timestamp())}|N/A||0|QOSGrpCpuLimit|/|\n")
    news = SlurmScheduler(CLUSTER, host).poll([JobKey("hb-1", "7", NOW)])["hb-1"]
    assert "if this job alone exceeds it, it never starts" in news.reason
    assert [argv[0] for argv in host.commands] == ["squeue"]


@pytest.mark.parametrize("count", ["", "N/A", "-1", "٤", "9" * 5000])
def test_a_count_of_restarts_that_is_none_is_unknown(count: str) -> None:
    (row,) = queue_rows(f"7|hb|PENDING|1|N/A||{count}|None|/|\n")
    assert row.restarts is None


@pytest.mark.parametrize("text", ["", "\n\n", " \n"])
def test_no_output_has_no_rows(text: str) -> None:
    assert (queue_rows(text), account_rows(text), node_rows(text)) == ([], [], [])


def test_lines_that_are_no_rows_are_left_out_among_rows() -> None:
    text = f"Welcome to Stampede3!\n1|2|3\n{recorded('squeue.txt')}\x00\x1b[31m\n"
    assert queue_rows(text) == queue_rows(recorded("squeue.txt"))


@pytest.mark.parametrize("rows", [queue_rows, account_rows, node_rows])
def test_output_that_stops_within_a_line_is_no_answer(rows: Callable[[str], Sequence[object]]) -> None:
    with pytest.raises(SchedulerError, match="ends within a line: 'bye"):
        rows("by\nbye|\x1b[31m")


@pytest.mark.parametrize("text", ["slurm_load_jobs error: Invalid job id\n", "1|2|3\n", "\x00\x1b[31m\n"])
@pytest.mark.parametrize("rows", [queue_rows, account_rows, node_rows])
def test_output_without_a_row_is_no_answer(rows: Callable[[str], Sequence[object]], text: str) -> None:
    with pytest.raises(SchedulerError, match="printed something other than its table") as error:
        rows(text)
    assert "\x1b" not in error.value.message


@pytest.mark.parametrize(
    "job_id",
    ["123+0", "109_", "109_[0-1000]", "109_[1,...]", "109_[1-]", "٤٢", "-1", "", "1" * 11, "9" * 5000, "--all"],
)
def test_a_row_whose_id_is_none_of_a_job_of_ours_is_left_out(job_id: str) -> None:
    assert queue_rows(f"{job_id}|hb|PENDING|1|N/A||0|None|/|\n") == []
    assert account_rows(f"{job_id}|hb|COMPLETED|0:0|1|cpu-1|/|\n") == []


@pytest.mark.parametrize(
    ("listed", "indexes"),
    [
        ("109_4", [4]),
        ("109_[0-3]", [0, 1, 2, 3]),
        ("109_[2,5-6,9-15:3%4]", [2, 5, 6, 9, 12, 15]),
        ("109_[7-7:0]", [7]),
        ("109_[0-999]", list(range(1000))),
    ],
)
def test_waiting_tasks_of_an_array_are_listed_one_by_one(listed: str, indexes: list[int]) -> None:
    ids = [f"109_{index}" for index in indexes]
    assert [row.job_id for row in queue_rows(f"{listed}|hb|PENDING|1|N/A||0|None|/|\n")] == ids
    assert [row.job_id for row in account_rows(f"{listed}|hb|CANCELLED by 0|0:0|1|None assigned|/|\n")] == ids


def test_tasks_that_began_before_their_array_was_cancelled_are_known_by_their_own_rows() -> None:
    text = "7_[0-2]|hb|CANCELLED by 0|0:0|1|None assigned|/|\n7_1|hb|COMPLETED|0:0|1|n1|/|\n"
    host = Programs(sacct=text)
    news = SlurmScheduler(CLUSTER, host).poll([JobKey(f"hb.{index}", f"7_{index}", NOW) for index in range(4)])
    assert [word for word in host.commands[1] if word.startswith("--jobs")] == ["--jobs=7"]
    states = {name: one.state for name, one in news.items()}
    assert states == {
        "hb.0": JobState.CANCELLED,
        "hb.1": JobState.ENDED,
        "hb.2": JobState.CANCELLED,
        "hb.3": JobState.MISSING,
    }


@pytest.mark.parametrize(
    "text", ["", "N/A", "Unknown", "None", "0", "-5", "12.5", "9" * 30, "9" * 5000, "٤٢", "2026-11-21T00:00:00"]
)
def test_a_time_that_is_none_is_none(text: str) -> None:
    assert epoch(text) is None


@pytest.mark.parametrize("cpus", ["0/{}/0/{}", "{}/1/0/4", "0/٣/0/٤"])
def test_a_count_of_cpus_that_is_none_is_zero(cpus: str) -> None:
    (row,) = node_rows(f"n1|cpu*|up|idle|{cpus.format('9' * 5000, '9' * 5000)}|(null)|gpu:0|\n")
    assert (row.cpus_idle, row.cpus) == (0, 0)


# sbatch


@pytest.mark.parametrize(
    ("stdout", "job_id"),
    [
        (recorded("sbatch_parsable.txt"), "1"),
        ("4711\n", "4711"),
        ("4711;cluster\n", "4711"),
        ("Welcome to Stampede3!\n--> Verifying valid submit host...OK\n4711\n", "4711"),
        ("4711\n4711\n", "4711"),
        ("4711\nHave a nice day 7\n", "4711"),
    ],
)
def test_the_job_id_is_the_line_that_is_one(stdout: str, job_id: str) -> None:
    assert submitted_job_id(stdout) == job_id


@pytest.mark.parametrize(
    "stdout",
    [
        "",
        "Submitted batch job 4711\n",
        "47 11\n",
        "-1\n",
        "job;4711\n",
        "4711 ;c\n",
        "٤٢\n",
        "9" * 11,
        "2026\n4711;c1\n",
    ],
)
def test_output_without_a_job_id_has_none(stdout: str) -> None:
    assert submitted_job_id(stdout) is None


@pytest.mark.parametrize(
    ("file", "setting"),
    [
        ("partition", "gpus.H100.partition"),
        ("gpu_type", "gpus.H100.request"),
        ("feature", "gpus.H100.constraint"),
        ("reservation", "gpus.H100.reservation"),
        ("tres", "gpus.H100.request"),
        ("node", "gpus.H100.nodelist"),
        ("memory", "gpus.H100.memory"),
        ("gpu_freq", "gpus.H100.gpu_freq"),
        ("option", "gpus.H100.sbatch"),
    ],
)
def test_a_recorded_refusal_names_the_setting(file: str, setting: str) -> None:
    error = not_accepted(recorded(f"sbatch_refused_{file}.txt"), "H100", "main")
    assert isinstance(error, SchedulerRefused)
    assert setting in error.hint


@pytest.mark.parametrize("file", ["assoc_submit_limit", "qos_submit_limit", "partition_drain"])
def test_a_recorded_refusal_that_passes_is_told_from_others(file: str) -> None:
    error = not_accepted(recorded(f"sbatch_refused_{file}.txt"), "H100", "main")
    assert isinstance(error, NotAccepting)
    assert "It is sent once" in error.hint


@pytest.mark.parametrize("words", ["Rate limit exceeded, please retry later", "Unable to create job record, try again"])
def test_a_controller_that_asks_to_try_again_is_tried_again(words: str) -> None:
    assert isinstance(
        not_accepted(f"sbatch: error: Batch job submission failed: {words}\n", "H100", "main"), NotAccepting
    )


def test_a_limit_on_the_size_of_a_job_does_not_pass() -> None:
    error = not_accepted(recorded("sbatch_refused_qos_size_limit.txt"), "H100", "main")
    assert isinstance(error, SchedulerRefused)
    assert not isinstance(error, NotAccepting)


@pytest.mark.parametrize(
    ("words", "setting"),
    [
        (
            "Batch job submission failed: Invalid account or account/partition combination specified",
            "gpus.H100.account",
        ),
        (
            "Batch job submission failed: Job violates accounting/QOS policy (job submit limit, size or time limits)",
            "wait",
        ),
        (
            "QOSMaxWallDurationPerJobLimit\nBatch job submission failed: Job violates accounting/QOS policy",
            "gpus.H100.time",
        ),
        ("Batch job submission failed: Unspecified error", "Compare gpus.H100"),
        ("Batch job submission failed: Making progress", "Compare gpus.H100"),
    ],
)
def test_other_refusals_say_what_to_do(words: str, setting: str) -> None:
    error = not_accepted(f"sbatch: error: {words}\n", "H100", "main")
    assert isinstance(error, SchedulerRefused)
    assert words.rpartition("\n")[2].removesuffix(")") in error.message
    assert setting in error.hint


@pytest.mark.parametrize(
    "stderr",
    [
        "sbatch: invalid option -- 'Y'",
        "sbatch: option '--hold' doesn't allow an argument",
        "sbatch: option '--e' is ambiguous; possibilities: '--error' '--exclude'",
        "/usr/bin/sbatch: unrecognized option '--bogus'",
        "sbatch: error: Invalid --time specification",
        'sbatch: error: "abc" is not a valid node count',
        'sbatch: error: Invalid numeric value "abc" for --ntasks.',
        "sbatch: error: Invalid generic resource (gres) specification",
        "sbatch: error: Invalid Trackable RESource (TRES) specification",
        'sbatch: error: unrecognized --hint argument "foo", see --hint=help',
        "sbatch: error: invalid --profile=foo option",
        "Invalid time specification (pos=0): foo\nsbatch: error: Invalid --begin specification",
        "sbatch: error: Bad rlimit name: FOO\nsbatch: error: --propagate=FOO is not valid.",
        "sbatch: error: Could not open user environment file /nope",
        "sbatch: error: Unable to open file /no/such/job.sh",
        "sbatch: error: Batch script is empty!",
        "sbatch: error: This does not look like a batch script.  The first",
        "sbatch: error: Batch script contains DOS line breaks (\\r\\n)",
        "sbatch: error: The Slurm controller does not allow scripts that",
        'sbatch: fatal: job.sh: line 2: Unmatched `"` in [--comment="x]',
        "sbatch: error: cli_filter plugin terminated with error",
        "lua: a plugin speaks\nsbatch.real: error: Batch job submission failed: Invalid license specification",
    ],
)
def test_what_sbatch_refuses_by_itself_is_a_refusal(stderr: str) -> None:
    assert isinstance(not_accepted(f"{stderr}\n", "H100", "main"), SchedulerRefused)


@pytest.mark.parametrize(
    "stderr",
    [
        "",
        "\n",
        "Traceback: lustre quota plugin failed\n",
        "wrapper: PermissionError: memory policy plugin: permission denied, invalid --account in the cache\n",
        "sbatch: error: Ignoring unrecognized power option (foo)\n",
        "sbatch: lua: no memory was asked for, the partition's default is used\n",
        "sbatch: fatal: Unable to process configuration file\n",
    ],
)
def test_words_that_prove_no_refusal_leave_open_whether_there_is_a_job(stderr: str) -> None:
    error = not_accepted(stderr, "H100", "main")
    assert not isinstance(error, SchedulerRefused)
    assert "looked up by its name" in error.hint


@pytest.mark.parametrize(
    "stderr",
    [
        recorded("sbatch_unreachable.txt"),
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n",
        "sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received\n",
        "sbatch: error: Batch job submission failed: Protocol authentication error\n",
        "sbatch: error: Batch job submission failed: Header lengths are longer than data received\n",
        "sbatch: error: Batch job submission failed: Unexpected missing socket error\n",
        "sbatch: error: Batch job submission failed: Communication shutdown failure\n",
        "sbatch: error: slurm_receive_msg [10.0.0.1:6817]: Connection refused\n",
        'sbatch: error: Munge encode failed: Failed to access "/run/munge/munge.socket.2"\n',
    ],
)
def test_trouble_on_the_way_to_the_controller_is_no_refusal(stderr: str) -> None:
    assert not isinstance(not_accepted(stderr, "H100", "main"), SchedulerRefused)


@pytest.mark.parametrize(
    "answer",
    [
        Completed(0, "", ""),
        Completed(0, "Submitted batch job 7\n", ""),
        Completed(1, "7\n", "wrapper: failed after the submission"),
        Completed(1, "", ""),
        Completed(1, "", "Traceback: lustre quota plugin failed"),
        Completed(0, "7\n", "", truncated=True),
        Completed(-9, "", ""),
        Completed(-15, "7\n", ""),
        CommandTimeout("sbatch did not end"),
    ],
)
def test_an_answer_that_leaves_open_whether_there_is_a_job_is_no_refusal(answer: Completed | Exception) -> None:
    with pytest.raises(SchedulerError) as unclear:
        SlurmScheduler(CLUSTER, Programs(answer)).submit(job())
    assert not isinstance(unclear.value, SchedulerRefused)


def test_a_host_without_slurm_is_told_apart(tmp_path: Path) -> None:
    scheduler = SlurmScheduler(CLUSTER, ThisHost({"PATH": str(tmp_path)}))
    key = JobKey("hb-1", "1", NOW)
    for ask in (
        lambda: scheduler.submit(job(tmp_path)),
        lambda: scheduler.poll([key]),
        lambda: scheduler.cancel([key]),
    ):
        with pytest.raises(SchedulerRefused, match="cannot be run") as refusal:
            ask()
        assert "login node of cluster main" in refusal.value.hint


def test_a_cluster_without_sacct_makes_unlisted_jobs_missing(tmp_path: Path) -> None:
    commands(tmp_path, squeue="echo 'JOBID|NAME'")
    scheduler = SlurmScheduler(CLUSTER, ThisHost({"PATH": str(tmp_path)}))
    news = scheduler.poll([JobKey("hb-1", "1", NOW)])["hb-1"]
    assert (news.state, news.source) == (JobState.MISSING, "squeue: not listed; sacct: not installed here")
    assert scheduler.find(JobKey("hb-1", "", NOW)) is None


def test_an_answer_that_was_cut_changes_nothing() -> None:
    scheduler = SlurmScheduler(CLUSTER, Programs(Completed(0, recorded("squeue.txt"), "", truncated=True)))
    key = JobKey("hb-gone", "4711", NOW)
    for ask in (lambda: scheduler.poll([key]), lambda: scheduler.find(key), lambda: scheduler.cancel([key])):
        with pytest.raises(SchedulerError, match="the output of squeue exceeds the limit"):
            ask()


def test_accounts_that_print_nonsense_leave_the_state_unknown(tmp_path: Path) -> None:
    commands(tmp_path, squeue="echo 'JOBID|NAME'", sacct="echo Have a nice day")
    scheduler = SlurmScheduler(CLUSTER, ThisHost({"PATH": str(tmp_path)}))
    keys = [JobKey(f"hb-{number}", str(number), NOW) for number in range(1, 130)]
    news = scheduler.poll(keys)
    assert {(each.state, each.unlisted) for each in news.values()} == {(JobState.UNKNOWN, True)}
    assert all(news[key.name].job_id == key.job_id and "Have a nice day" in news[key.name].source for key in keys)


def test_a_job_that_cannot_be_ours_is_not_found() -> None:
    rows = "".join(
        f"{job_id}|hb-1|RUNNING|1795230906|N/A|n1|0|None|/|\n" for job_id in ("109_1", "7", "123+0", "9" * 5000)
    )
    assert SlurmScheduler(CLUSTER, Programs(squeue=rows)).find(JobKey("hb-1", "", NOW)) == "7"


SCRIPT = "/board/runs/1/job.sh"


@pytest.mark.parametrize(
    ("name", "script", "comment", "is_ours"),
    [
        ("hb-1", "/elsewhere/job.sh", "(null)", True),
        ("site-job", "/elsewhere/job.sh", "night; hpc-board run 17, vectoradd_py (hb-1)", True),
        ("site-job", SCRIPT, "(null)", True),
        ("hb-1-physics", SCRIPT, "charged to physics", True),
        ("site-job", "/elsewhere/job.sh", "hpc-board run 17, vectoradd_py (hb-1), says a user", False),
        ("site-job", "/elsewhere/job.sh", "hpc-board run 17, vectoradd_py (hb-1); hpc-board run 18, x (hb-2)", False),
        ("site-job", SCRIPT, "hpc-board run 17, vectoradd_py (hb-2)", False),
        ("site-job", "/elsewhere/job.sh", "(null)", False),
        ("hb-00000000000000ff", SCRIPT, "(null)", False),
        ("bash", "bash", "(null)", False),
        ("site-job", "/board/runs/1", "(null)", False),
    ],
)
def test_name_comment_or_script_proves_a_job(name: str, script: str, comment: str, *, is_ours: bool) -> None:
    key = JobKey("hb-1", "7", NOW, SCRIPT)
    row = f"7|{name}|RUNNING|{int(NOW.timestamp())}|N/A|n1|0|None|{script}|{comment}\n"
    host = Programs(squeue=row)
    scheduler = SlurmScheduler(CLUSTER, host)
    assert scheduler.poll([key])["hb-1"].state is (JobState.RUNNING if is_ours else JobState.MISSING)
    assert scheduler.find(key) == ("7" if is_ours else None)
    scheduler.cancel([key])
    assert ([*host.commands[-1]] == ["scancel", "--quiet", "--ctld", "7"]) is is_ours
    submitted = f"sbatch --parsable --chdir=/board/runs/1 {script}"
    accounted = f"7|{name}|COMPLETED|0:0|{int(NOW.timestamp())}|n1|{comment}|{submitted}\n"
    scheduler = SlurmScheduler(CLUSTER, Programs(sacct=accounted))
    assert scheduler.poll([key])["hb-1"].state is (JobState.ENDED if is_ours else JobState.MISSING)
    assert scheduler.find(key) == ("7" if is_ours else None)


def test_a_renamed_array_is_proven_by_its_script() -> None:
    keys = [JobKey(f"hb-1.{index}", "", NOW, f"/board/runs/hb-1.{index}/job.sh") for index in range(3)]
    row = f"7_[0-2]|site-job|PENDING|{int(NOW.timestamp())}|N/A||0|None|/board/runs/hb-1/job.sh|\n"
    assert SlurmScheduler(CLUSTER, Programs(squeue=row)).find_each(keys)["hb-1.2"] == "7_2"


class BusyAccount(Programs):
    """A host whose Slurm has these jobs of the account, and whose programs are read up to `lines_max` lines.

    `queue` has the name, the time and the script of each live job by its id, and `accounts` those of each ended one.
    """

    def __init__(
        self,
        queue: Mapping[str, tuple[str, datetime, str]],
        accounts: Mapping[str, tuple[str, datetime, str]],
        lines_max: int = 100,
    ) -> None:
        super().__init__()
        self.queue, self.accounts, self.lines_max = queue, accounts, lines_max

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        super().run(argv, **options)
        program, *words = argv
        given = dict(word.removeprefix("--").partition("=")[::2] for word in words)
        listed = self.queue if program == "squeue" else self.accounts if program == "sacct" else {}
        if "jobs" in given:
            ids = given["jobs"].split(",")
            listed = {job_id: each for job_id, each in listed.items() if job_id.partition("_")[0] in ids}
            if program == "squeue" and len(ids) == 1 and not listed:
                return Completed(1, "", "slurm_load_jobs error: Invalid job id specified\n")
        if "name" in given:
            listed = {job_id: each for job_id, each in listed.items() if each[0] in given["name"].split(",")}
        if program == "sacct":
            now = f"uts{int(time.time())}"
            first, last = (int(given.get(name, now).removeprefix("uts")) for name in ("starttime", "endtime"))
            listed = {id_: each for id_, each in listed.items() if first <= int(each[1].timestamp()) <= last}
        short = given.get("Format") == SUBMITTED_FORMAT
        lines = [
            f"{job_id}|{int(at.timestamp())}\n"
            if short
            else f"{job_id}|{name}|RUNNING|{int(at.timestamp())}|N/A|n1|0|None|{script}|(null)\n"
            if program == "squeue"
            else f"{job_id}|{name}|COMPLETED|0:0|{int(at.timestamp())}|n1||sbatch {script}\n"
            for job_id, (name, at, script) in listed.items()
        ]
        # A line of times is a tenth of the others.
        most = self.lines_max * (10 if short else 1)
        return Completed(0, HEADERS.get(program, "") + "".join(lines[:most]), "", truncated=len(lines) > most)


def others(count: int) -> dict[str, tuple[str, datetime, str]]:
    """Return as many jobs of other programs, a minute after one another."""
    return {
        str(number): (f"other{number}", YESTERDAY + timedelta(minutes=number), f"/home/ada/{number}.sh")
        for number in range(1, count + 1)
    }


def test_a_renamed_job_is_found_in_the_accounts_of_a_busy_account_however_long_they_are() -> None:
    accounts = {**others(900), "901": ("site-1000", YESTERDAY + timedelta(minutes=450), SCRIPT)}
    host = BusyAccount({}, accounts)
    scheduler = SlurmScheduler(CLUSTER, host)
    assert scheduler.find(JobKey("hb-1", "", YESTERDAY, SCRIPT)) == "901"
    absent = JobKey("hb-2", "", YESTERDAY, "/board/runs/2/job.sh")
    host.commands.clear()
    assert scheduler.find(absent) is None
    assert [argv[0] for argv in host.commands[:1]] == ["squeue"]
    assert 900 / 100 < len(host.commands) < 60


def test_accounts_that_are_too_long_within_a_second_decide_nothing() -> None:
    host = BusyAccount({}, dict.fromkeys(map(str, range(101)), ("other", YESTERDAY, "/home/ada/1.sh")))
    scheduler = SlurmScheduler(CLUSTER, host)
    with pytest.raises(AnswerTooLarge, match="the output of sacct exceeds the limit"):
        scheduler.find(JobKey("hb-1", "", YESTERDAY, SCRIPT))


def test_accounts_are_asked_by_name_before_all_jobs_of_the_account() -> None:
    host = BusyAccount({}, {"7": ("hb-1", YESTERDAY, SCRIPT)})
    assert SlurmScheduler(CLUSTER, host).find(JobKey("hb-1", "", YESTERDAY, SCRIPT)) == "7"
    assert [argv[0] for argv in host.commands] == ["squeue", "sacct"]
    assert "--name=hb-1" in host.commands[1]


def test_jobs_that_ended_by_a_controller_s_clock_ahead_of_this_host_s_are_in_the_accounts() -> None:
    ahead = datetime.now(UTC) + timedelta(hours=2)
    scheduler = SlurmScheduler(CLUSTER, BusyAccount({}, {"7": ("hb-1", ahead, SCRIPT), "8": ("site", ahead, "/8.sh")}))
    now = datetime.now(UTC)
    assert scheduler.find(JobKey("hb-1", "", now)) == "7"
    assert scheduler.find(JobKey("hb-2", "", now, "/8.sh")) == "8"
    assert scheduler.poll([JobKey("hb-1", "7", now)])["hb-1"].state is JobState.ENDED
    tomorrow = datetime.now(UTC) + timedelta(days=3)
    assert scheduler.find(JobKey("hb-3", "", tomorrow, "/9.sh")) is None


@pytest.mark.parametrize("name", ["hb-1", "site-1000"])
def test_a_queue_that_is_too_long_is_asked_for_the_own_jobs(name: str) -> None:
    host = BusyAccount(
        {**others(900), "950": (name, YESTERDAY + timedelta(minutes=450), SCRIPT), "951+0": others(1)["1"]}, {}
    )
    scheduler = SlurmScheduler(CLUSTER, host)
    running, gone = JobKey("hb-1", "950", YESTERDAY, SCRIPT), JobKey("hb-2", "951", YESTERDAY, "/board/runs/2/job.sh")
    news = scheduler.poll([running, gone])
    assert (news["hb-1"].state, news["hb-2"].state) == (JobState.RUNNING, JobState.MISSING)
    assert [argv[0] for argv in host.commands] == ["squeue", "squeue", "sacct"]
    assert scheduler.poll([gone])["hb-2"].state is JobState.MISSING
    scheduler.cancel([running, gone])
    assert host.commands[-1] == ["scancel", "--quiet", "--ctld", "950"]
    host.commands.clear()
    assert scheduler.find_each([running, gone]) == {"hb-1": "950"}
    assert sum(argv[0] == "squeue" for argv in host.commands) < 40


def test_a_queue_of_more_jobs_than_are_ever_listed_is_no_answer() -> None:
    host = BusyAccount(others(1001), {})
    with pytest.raises(AnswerTooLarge, match="the output of squeue exceeds the limit"):
        SlurmScheduler(CLUSTER, host).find(JobKey("hb-1", "", YESTERDAY, SCRIPT))


def test_accounts_of_many_arrays_are_asked_for_some_of_them() -> None:
    accounts = {f"{array}_{task}": (f"hb-{array}", YESTERDAY, "") for array in range(1, 9) for task in range(60)}
    scheduler = SlurmScheduler(CLUSTER, BusyAccount({}, accounts))
    news = scheduler.poll([JobKey(f"hb-{array}.7", f"{array}_7", YESTERDAY) for array in range(1, 9)])
    assert {each.state for each in news.values()} == {JobState.ENDED}


def test_accounts_of_many_jobs_are_asked_in_arguments_that_the_kernel_takes() -> None:
    host = Programs()
    names = [f"hb-{number:016x}" for number in range(2500)]
    assert SlurmScheduler(CLUSTER, host).find_each([JobKey(name, "", NOW) for name in names]) == {}
    lists = [word.removeprefix("--name=") for argv in host.commands for word in argv if word.startswith("--name=")]
    assert ",".join(lists).split(",") == names
    assert max(map(len, lists)) < 128 * 1024
    assert len(lists) == 3


@pytest.mark.parametrize("printed", ["", "\n", "Welcome to Stampede3!\n"])
@pytest.mark.parametrize("program", ["squeue", "sacct", "sinfo"])
def test_output_without_a_header_is_no_answer(tmp_path: Path, program: str, printed: str) -> None:
    whole = {"squeue": "JOBID|NAME", "sacct": "JobID|JobName", "sinfo": "NODELIST|PARTITION"}
    (tmp_path / "printed").write_text(printed)
    scripts = {name: f"echo '{header}'" for name, header in whole.items()}
    commands(tmp_path, **scripts | {program: f'while read -r line; do echo "$line"; done <{tmp_path}/printed'})
    scheduler = SlurmScheduler(CLUSTER, ThisHost({"PATH": str(tmp_path)}))
    key = JobKey("hb-1", "7", NOW)
    if program == "sacct":
        news = scheduler.poll([key])["hb-1"]
        assert (news.state, news.unlisted) == (JobState.UNKNOWN, True)
    questions: dict[str, list[Callable[[], object]]] = {
        "sinfo": [lambda: scheduler.availability([H100]), lambda: scheduler.nodes(H100)],
        "sacct": [lambda: scheduler.find(key)],
        "squeue": [
            lambda: scheduler.find(key),
            lambda: scheduler.poll([key]),
            lambda: scheduler.cancel([key]),
            lambda: scheduler.availability([H100]),
        ],
    }
    for ask in questions[program]:
        with pytest.raises(SchedulerError, match=f"{program} printed "):
            ask()


@pytest.mark.parametrize("separator", ["\u2028", "\x85", "\x0b", "\x1e"])
def test_a_name_with_a_separator_of_lines_is_no_second_row(separator: str) -> None:
    assert table("squeue", f"1|a{separator}2|b\n3|c\n", 2) == [["1", f"a{separator}2|b"], ["3", "c"]]


def test_a_job_and_an_array_of_the_same_name_are_told_apart() -> None:
    rows = "".join(
        f"{job_id}|{name}|RUNNING|{int(NOW.timestamp())}|N/A|n1|0|None|/|\n"
        for job_id, name in (("20_[3-5]", "hb-1"), ("19_8", "hb-1"), ("30", "hb-1.7"), ("31", "hb-2"), ("32_0", "hb-3"))
    )
    found = SlurmScheduler(CLUSTER, Programs(squeue=rows)).find_each(
        [JobKey(name, "", NOW) for name in ["hb-1.4", "hb-1.5", "hb-1.9", "hb-1.7", "hb-2.0", "hb-2", "hb-3", "hb-1"]]
    )
    assert found == {"hb-1.4": "20_4", "hb-1.5": "20_5", "hb-1.9": "20_9", "hb-1.7": "30", "hb-2": "31"}


def test_any_number_of_jobs_is_asked_for_by_one_question() -> None:
    host = Programs()
    scheduler = SlurmScheduler(CLUSTER, host)
    news = scheduler.poll([JobKey(f"hb-1.{index}", f"7_{index}", NOW) for index in range(12_000)])
    assert len(news) == 12_000
    assert [argv[0] for argv in host.commands] == ["squeue", "sacct"]


def test_the_command_of_an_array_names_its_tasks_and_where_each_of_them_prints() -> None:
    array = replace(job(Path("/board/100%/runs/hb-1")), indexes=(0, 1, 2, 5, 7, 8))
    command = SlurmScheduler(CLUSTER, ThisHost({})).command(array)
    assert "--array=0-2,5,7-8" in command
    assert "--output=/board/100%%/runs/hb-1.%a/slurm-%A_%a.out" in command
    assert command[-1] == "/board/100%/runs/hb-1/job.sh"


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        ("MaxArraySize            = 1001\nSchedulerParameters     = (null)\n", 1000),
        ("MaxArraySize            = 5\n", 5),
        ("MaxArraySize            = 0\n", 0),
        ("MaxArraySize            = 4000001\n", 1000),
        ("MaxArraySize            = 1001\nSchedulerParameters     = bf_interval=5,max_array_tasks=20\n", 20),
    ],
)
def test_an_array_is_as_large_as_the_cluster_and_this_program_allow(settings: str, size: int) -> None:
    assert SlurmScheduler(CLUSTER, Programs(scontrol=settings)).array_size() == size


@pytest.mark.parametrize("printed", ["", "\n", "MaxArraySize            = many\n", "ClusterName             = lab\n"])
def test_a_configuration_without_the_size_of_arrays_is_no_answer(printed: str) -> None:
    with pytest.raises(SchedulerError, match="does not report MaxArraySize"):
        SlurmScheduler(CLUSTER, Programs(scontrol=printed)).array_size()


NO_CONFIGURATION = "squeue: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n"


@pytest.mark.parametrize(
    ("answer", "words", "cure", "throttled"),
    [
        (Completed(127, "", ""), "status 127", "busy or down", False),
        (Completed(-9, "", ""), "status -9", "busy or down", False),
        (Completed(1, "", "slurm_load_jobs error: Rate limit exceeded\n"), "Rate limit", "sends fewer requests", True),
        (
            Completed(0, "", NO_CONFIGURATION),
            "finds no slurm.conf here: set clusters.main",
            "login node",
            False,
        ),
        (
            Completed(1, "", NO_CONFIGURATION),
            "finds no slurm.conf here: set clusters.main",
            "login node",
            False,
        ),
        (Completed(1, "", "slurm_load_node: Access/permission denied\n"), "permission denied", "PrivateData", False),
        (Completed(1, "", "slurm_load_jobs error: Unable to contact\n"), "Unable to contact", "busy or down", False),
    ],
)
def test_a_question_that_fails_has_its_cause_by_name(
    answer: Completed, words: str, cure: str, *, throttled: bool
) -> None:
    scheduler = SlurmScheduler(CLUSTER, Programs(answer))
    key = JobKey("hb-1", "7", NOW)
    questions: list[Callable[[], object]] = [
        lambda: scheduler.poll([key]),
        lambda: scheduler.find(key),
        lambda: scheduler.cancel([key]),
        lambda: scheduler.availability([H100]),
        lambda: scheduler.nodes(H100),
    ]
    for ask in questions:
        with pytest.raises(SchedulerError, match=words) as error:
            ask()
        assert cure in error.value.hint
        assert error.value.throttled is throttled
        assert isinstance(error.value, SchedulerRefused) is ("login node" in cure)


def test_a_question_about_jobs_without_a_word_is_one_too_many() -> None:
    scheduler = SlurmScheduler(CLUSTER, Programs(Completed(1, "", "")))
    with pytest.raises(SchedulerError, match="squeue failed: status 1, no message") as error:
        scheduler.poll([JobKey("hb-1", "7", NOW)])
    assert error.value.throttled
    with pytest.raises(SchedulerError, match="sinfo failed: status 1") as error:
        scheduler.availability([H100])
    assert not error.value.throttled
    # slurmdbd limits no rate.
    assert not query_failed("sacct", Completed(1, "", ""), "main").throttled


@pytest.mark.parametrize(
    ("known", "truncated", "is_unknown"),
    [("east", False, True), ("west\neast", False, False), ("east", True, False)],
)
def test_a_cluster_is_unknown_if_the_whole_list_of_its_slurm_conf_lacks_it(
    known: str, *, truncated: bool, is_unknown: bool
) -> None:
    asked: list[tuple[Sequence[str], Mapping[str, str]]] = []

    class Answers(Programs):
        def run(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, **_: Any) -> Completed:
            asked.append((argv, env or {}))
            if argv[0] == "sacctmgr":
                return Completed(0, known, "", truncated=truncated)
            return Completed(1, "", "'West' can't be reached now, or it is an invalid entry for --cluster")

    options = ClusterOptions(slurm_conf="/etc/west.conf", slurm_cluster="West")
    with pytest.raises(SchedulerError) as error:
        SlurmScheduler(replace(CLUSTER, scheduler_options=options), Answers()).poll([JobKey("hb-1", "7", NOW)])
    assert isinstance(error.value, SchedulerRefused) is is_unknown
    argv, env = asked[-1]
    assert (*argv[:2], env["SLURM_CONF"]) == ("sacctmgr", "--noheader", "/etc/west.conf")


class Refusing(Programs):
    """A host whose sbatch refuses with these words, and whose other programs print these texts."""

    def __init__(self, stderr: str, **printed: str) -> None:
        super().__init__(None, **printed)
        self.stderr = stderr

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        done = super().run(argv, **options)
        return Completed(1, "", self.stderr) if argv[0] == "sbatch" else done


def refusals(scheduler: SlurmScheduler, count: int) -> set[str]:
    """Return the messages and hints of as many submissions."""
    found = set()
    for _ in range(count):
        with pytest.raises(SchedulerRefused) as refusal:
            scheduler.submit(job())
        found.add(f"{refusal.value.message}; {refusal.value.hint}")
    return found


def test_many_refusals_of_one_kind_are_explained_by_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = "sbatch: error: Batch job submission failed: Access/permission denied\n"
    reserved = "PartitionName=h100 ReqResv=YES\n"
    host = Refusing(denied, scontrol=reserved)
    (words,) = refusals(scheduler := SlurmScheduler(CLUSTER, host), 20)
    assert "accepts only jobs with a reservation" in words
    asked = [argv[0] for argv in host.commands]
    assert (asked.count("sbatch"), asked.count("scontrol")) == (20, 2)
    later = time.monotonic() + 11
    monkeypatch.setattr(time, "monotonic", lambda: later)
    refusals(scheduler, 1)
    assert [argv[0] for argv in host.commands].count("scontrol") == 4

    elsewhere = replace(CLUSTER, scheduler_options=ClusterOptions(slurm_cluster="atlantis"))
    host = Refusing("sbatch: error: 'atlantis' can't be reached now, or it is an invalid entry for --cluster.\n")
    host.printed["sacctmgr"] = "main\n"
    (words,) = refusals(SlurmScheduler(elsewhere, host), 20)
    assert "does not know cluster atlantis" in words
    assert [argv[0] for argv in host.commands].count("sacctmgr") == 1


def test_a_refusal_whose_question_fails_keeps_its_own_words() -> None:
    host = Refusing("sbatch: error: Batch job submission failed: Access/permission denied\n")
    for stays in ("", "PartitionName=h100 ReqResv=NO\n"):
        host.printed["scontrol"] = stays
        (words,) = refusals(SlurmScheduler(CLUSTER, host), 2)
        assert "Access/permission denied; Ask the administrators for access" in words


def test_an_account_of_another_case_is_no_change_and_a_job_that_is_not_listed_tells_none() -> None:
    sent = replace(job(), options={"account": "Proj42", "time": "0:10:00"})
    shown = Programs(squeue="5|hb-1|gpu|10:00|proj42|normal|\n")
    assert SlurmScheduler(CLUSTER, shown).changes(sent, "5") == []
    assert SlurmScheduler(CLUSTER, Programs()).changes(sent, "5") is None


def test_a_site_s_own_words_about_rates_are_a_refusal() -> None:
    words = "sbatch: error: Batch job submission failed: no rate limited partition, use partition slow"
    assert type(not_accepted(words, "H100", "main")) is SchedulerRefused


@pytest.mark.parametrize("status", [0, 1])
def test_an_sbatch_without_a_slurm_conf_names_the_cure(status: int) -> None:
    with pytest.raises(SchedulerError, match=r"set clusters\.main\.slurm_conf, or SLURM_CONF") as error:
        SlurmScheduler(CLUSTER, Programs(Completed(status, "", NO_CONFIGURATION))).submit(job())
    assert not isinstance(error.value, SchedulerRefused)


ALONE = "This job alone exceeds the limit"


@pytest.mark.parametrize(
    ("limit", "hint"),
    [
        ("QOSGrpGRES", ALONE),
        ("QOSGrpCpuLimit", ALONE),
        ("AssocGrpMemLimit", ALONE),
        ("QOSMaxCpuPerUserLimit", ALONE),
        ("MaxCpuPerAccount", ALONE),
        ("QOSMaxGRESPerJob", ALONE),
        ("QOSMinCpuNotSatisfied", "The QOS has a minimum job size"),
    ],
)
def test_a_job_that_is_refused_for_a_limit_of_the_qos_does_not_fit_it_alone(limit: str, hint: str) -> None:
    words = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
    error = not_accepted(
        f"sbatch: error: {limit}\nsbatch: error: Batch job submission failed: {words}\n", "H100", "main"
    )
    assert isinstance(error, SchedulerRefused)
    assert not isinstance(error, NotAccepting)
    assert error.hint.startswith(hint)


def test_a_limit_on_the_jobs_of_an_account_passes() -> None:
    error = not_accepted(
        "sbatch: error: MaxSubmitJobsPerAccount\nsbatch: error: Batch job submission failed: Job violates "
        "accounting/QOS policy (job submit limit, user's size and/or time limits)\n",
        "H100",
        "main",
    )
    assert isinstance(error, NotAccepting)
    assert error.full


def test_a_diagnosis_asks_a_controller_that_limits_requests_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "AGAIN_SECONDS", 0)
    version = "[ $1 = --version ] && echo slurm 24.11.5 && exit"
    once = f"[ -e {tmp_path}/asked-$(basename $0) ] || {{ : >{tmp_path}/asked-$(basename $0); exit 1; }}"
    config = "echo AccountingStorageType = none; echo MinJobAge = 300"
    silent = dict.fromkeys(("sbatch", "scancel", "sinfo", "sacct"), version)
    commands(tmp_path, **silent, squeue=f"{version}; {once}", scontrol=f"{version}; {once}; {config}")
    lines = [*diagnosis.diagnose(CLUSTER, ThisHost({"PATH": f"{tmp_path}:/usr/bin:/bin"}))]
    assert {line.severity for line in lines} == {Severity.OK}
    assert any("the controller answers in" in line.message for line in lines)
    assert any(line.message.startswith("MinJobAge is 300 s") for line in lines)


def test_a_cancellation_names_the_tasks_of_an_array_once_and_no_job_of_another_name() -> None:
    rows = {"7_[0-3,9]": "hb-1", "7_5": "hb-1", "8": "hb-2", "9": "hb-other", "10": "hb-3"}
    lines = (f"{id_}|{name}|PENDING|{int(NOW.timestamp())}|N/A||0|None|/|\n" for id_, name in rows.items())
    host = Programs(squeue="".join(lines))
    tasks = [JobKey(f"hb-1.{index}", f"7_{index}", NOW) for index in (9, 5, 0, 1, 2)]
    alone = [JobKey(f"hb-{id_ - 6}", str(id_), NOW) for id_ in (8, 9)]
    SlurmScheduler(CLUSTER, host).cancel([*tasks, *alone])
    assert [argv[0] for argv in host.commands] == ["squeue", "scancel"]
    assert host.commands[1] == ["scancel", "--quiet", "--ctld", "7_[0-2,5,9]", "8"]


def test_no_jobs_and_no_gpus_need_no_question() -> None:
    scheduler = SlurmScheduler(CLUSTER, Programs(CommandMissing("nothing may be asked")))
    scheduler.cancel([])
    assert scheduler.poll([]) == {}
    assert scheduler.availability([]) == []


def test_the_command_repeats_every_option_and_keeps_its_own() -> None:
    options = {"partition": "h100", "exclusive": "", "comment": "two words", "job-name": "other", "export": "NONE"}
    command = SlurmScheduler(CLUSTER, ThisHost({})).command(replace(job(), options=options))
    assert command == [
        "sbatch",
        "--parsable",
        "--job-name=hb-1",
        "--chdir=/board/runs/1",
        "--output=/board/runs/1/slurm-%j.out",
        "--open-mode=append",
        "--export=ALL",
        "--no-requeue",
        "--partition=h100",
        "--exclusive",
        "--comment=two words",
        "/board/runs/1/job.sh",
    ]


def test_the_site_s_comment_comes_before_that_of_the_run() -> None:
    scheduler = SlurmScheduler(CLUSTER, ThisHost({}))
    plain = replace(job(), comment="hpc-board run 17, vectoradd_py")
    assert "--comment=hpc-board run 17, vectoradd_py (hb-1)" in scheduler.command(plain)
    joined = scheduler.command(replace(plain, options={"comment": "night"}))
    assert "--comment=night; hpc-board run 17, vectoradd_py (hb-1)" in joined


def test_a_throttled_array_says_how_many_of_its_tasks_run_at_a_time() -> None:
    array = replace(job(), indexes=range(10), max_running=4)
    assert "--array=0-9%4" in SlurmScheduler(CLUSTER, ThisHost({})).command(array)


def test_a_cluster_without_room_for_a_job_leaves_open_whether_there_is_one() -> None:
    stopped = Programs(CommandStopped("sbatch was stopped"))
    with pytest.raises(QueueFull, match="does not accept jobs at the moment"):
        SlurmScheduler(CLUSTER, stopped).submit(job())


def test_a_number_of_another_job_is_evidence_and_not_believed() -> None:
    key = JobKey("hb-1", "105", datetime(2026, 1, 1, tzinfo=UTC))
    host = Programs(sacct="105|hb-2|COMPLETED|0:0|1767225700|n1|/|\n")
    news = SlurmScheduler(CLUSTER, host).poll([key])["hb-1"]
    assert (news.state, news.source) == (JobState.MISSING, "squeue: not listed; sacct: lists 105 as another job")


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("drained|Prolog error", "the node's prolog failed (cpu-1 is drained: Prolog error)"),
        ("draining*|Prolog error", "the node's prolog failed (cpu-1 is drained: Prolog error)"),
        ("drained|a broken fan", ""),
        ("idle|Prolog error", ""),
        ("", ""),
    ],
)
def test_a_node_tells_of_a_failed_prolog_while_it_is_drained(told: str, found: str) -> None:
    host = Programs(sinfo="NODELIST|STATE|REASON\n" + (f"cpu-1|{told}\n" if told else ""))
    assert SlurmScheduler(CLUSTER, host).prolog_failure("cpu-1") == found
    assert SlurmScheduler(CLUSTER, host).prolog_failure("cpu-1,x --help") == ""
    with pytest.raises(SchedulerError, match="sinfo printed nothing"):
        SlurmScheduler(CLUSTER, Programs()).prolog_failure("cpu-1")


def test_a_log_with_nothing_but_a_failed_prolog_is_of_a_script_that_never_began() -> None:
    words = "Error running slurm prolog: 1\n"
    assert prolog_failed(words) == "the node's prolog failed (Error running slurm prolog: 1)"
    assert prolog_failed(f"{words}hello\n") == ""
    assert prolog_failed("") == ""


@pytest.mark.parametrize("folder", ["/board/a\nb", "/board/a\\b"])
def test_a_folder_that_slurm_cannot_use_is_refused(folder: str) -> None:
    with pytest.raises(InputError):
        SlurmScheduler(CLUSTER, ThisHost({})).command(job(Path(folder)))


# states and reasons


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("PENDING", JobState.PENDING),
        ("CF", JobState.PENDING),
        ("CANCELLED by 1000", JobState.CANCELLED),
        ("CANCELLED+", JobState.CANCELLED),
        ("RUNNING+CLOUD", JobState.RUNNING),
        ("running", JobState.RUNNING),
    ],
)
def test_slurms_words_become_ours(word: str, state: JobState) -> None:
    assert job_state(word) is state


@pytest.mark.parametrize("word", ["", "REVOKED", "COMPLETININVALID", "42", "RUN", "TRANSCENDED by 7", "\x1b[1m"])
def test_a_word_that_is_not_known_is_unknown(word: str) -> None:
    assert job_state(word) is JobState.UNKNOWN


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("Resources", "waiting for resources (Resources)"),
        ("(Priority)", "waiting behind jobs of higher priority (Priority)"),
        ("None", "waiting for Slurm to consider it"),
        ("", "waiting for Slurm to consider it"),
        (
            "ReqNodeNotAvail, UnavailableNodes:n[1-3]",
            "waiting for a node that is down, drained or reserved (ReqNodeNotAvail, UnavailableNodes:n[1-3])",
        ),
        ("QOSMaxGRESPerUser", GROUP_LIMIT.format("user", "qos", "QOSMaxGRESPerUser")),
        ("MaxCpuPerAccount", GROUP_LIMIT.format("account", "qos", "MaxCpuPerAccount")),
        ("AssocMaxJobsLimit", "waiting for a limit of its account or user (AssocMaxJobsLimit)"),
        ("AssocGrpGRES", GROUP_LIMIT.format("account or user", "assoc", "AssocGrpGRES")),
        ("QOSGrpCpuLimit", GROUP_LIMIT.format("QOS", "qos", "QOSGrpCpuLimit")),
        (
            "AssocMaxWallDurationPerJobLimit",
            "will never start: its time limit exceeds that of the QOS or account"
            + MEND.format("time", "AssocMaxWallDurationPerJobLimit"),
        ),
        (
            "QOSMaxGRESPerJob",
            "will never start: it exceeds a per-job limit of its QOS" + MEND.format("request", "QOSMaxGRESPerJob"),
        ),
        (
            "AssocGrpCPUMinutesLimit",
            "waiting for the budget of its account or user; ask an administrator (AssocGrpCPUMinutesLimit)",
        ),
        ("QOSMaxJobsPerUserLimit", "waiting for a limit of its QOS (QOSMaxJobsPerUserLimit)"),
        ("QOSGrpCPURunMinutesLimit", GROUP_LIMIT.format("QOS", "qos", "QOSGrpCPURunMinutesLimit")),
        ("QOSGrpJobsLimit", "waiting for a limit of its QOS (QOSGrpJobsLimit)"),
        ("MaxJobsPerAccount", "waiting for a limit of its account or user (MaxJobsPerAccount)"),
        ("SomethingNew", "SomethingNew"),
    ],
)
def test_a_waiting_jobs_reason_is_told_in_words(reason: str, text: str) -> None:
    assert pending_reason_text(reason) == text


@pytest.mark.parametrize(
    "reason",
    [
        "AssocMaxGRESPerJob",
        "AssocMaxNodePerJobLimit",
        "DependencyNeverSatisfied",
        "JobHeldUser",
        "JobHoldMaxRequeue",
        "QOSMaxCpuMinutesPerJobLimit",
        "QOSMaxCpuPerNode",
        "QOSMaxWallDurationPerJobLimit",
        "QOSMinCpuNotSatisfied",
        "QOSMinGRES",
        "launch failed requeued held",
    ],
)
def test_a_job_that_will_never_start_says_so_and_what_to_do(reason: str) -> None:
    why, _, remedy = pending_reason_text(reason).removesuffix(f" ({reason})").partition(";")
    assert why.startswith("will never start")
    assert remedy or ": " in why


@pytest.mark.parametrize(("reason", "last"), [("BadConstraints", "constraint"), ("PartitionConfig", "partition")])
def test_a_job_that_no_node_can_run_names_every_key_that_may_be_at_fault(reason: str, last: str) -> None:
    text = pending_reason_text(reason)
    assert f"correct `request`, `cpus_per_task`, `memory` or `{last}` of this GPU in the settings" in text


# generic resources


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("(null)", []),
        ("", []),
        ("N/A", []),
        ("gpu:8", [Gres("gpu", "", 8)]),
        ("gpu", [Gres("gpu", "", 1)]),
        ("gpu:h100", [Gres("gpu", "h100", 1)]),
        ("gpu:h100:2(S:0-1)", [Gres("gpu", "h100", 2)]),
        ("gpu:h100:3(IDX:0,2-3)", [Gres("gpu", "h100", 3)]),
        ("gpu:8(S:0-3),nvme:1", [Gres("gpu", "", 8), Gres("nvme", "", 1)]),
        ("gpu:a100:4(IDX:0,1),gpu:v100:2", [Gres("gpu", "a100", 4), Gres("gpu", "v100", 2)]),
        ("gpu:a100_3g.20gb:2,gpu:1g.10gb:7", [Gres("gpu", "a100_3g.20gb", 2), Gres("gpu", "1g.10gb", 7)]),
        ("gpu:nvidia_h100_80gb_hbm3:8", [Gres("gpu", "nvidia_h100_80gb_hbm3", 8)]),
        ("gpu:h100-96:4", [Gres("gpu", "h100-96", 4)]),
        ("shard:h100:16,tmp:2K", [Gres("shard", "h100", 16), Gres("tmp", "", 2048)]),
        ("gpu:2\N{KELVIN SIGN}", [Gres("gpu", "2\N{KELVIN SIGN}", 1)]),
        ("gpu:h100:" + "9" * 5000, [Gres("gpu", "9" * 5000, 1)]),
        ("lustre:no_consume:1", [Gres("lustre", "", 1)]),
        ("gres/gpu:h100=2", [Gres("gpu", "h100", 2)]),
        ("gpu:(null):0(IDX:N/A)", [Gres("gpu", "", 0)]),
        ("gpu:(null):2(IDX:0-1)", [Gres("gpu", "", 2)]),
    ],
)
def test_generic_resources_are_read(text: str, entries: list[Gres]) -> None:
    assert gres_list(text) == entries


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        (Request(RequestStyle.GRES, "gpu:h100:1"), Gres("gpu", "h100", 1)),
        (Request(RequestStyle.GRES, "gpu:1"), Gres("gpu", "", 1)),
        (Request(RequestStyle.GRES, "nvme:1,gpu:h100:1"), Gres("gpu", "h100", 1)),
        (Request(RequestStyle.GPUS, "h100:1"), Gres("gpu", "h100", 1)),
        (Request(RequestStyle.GPUS, "1"), Gres("gpu", "", 1)),
        (Request(RequestStyle.GPUS_PER_NODE, "a100_3g.20gb:1"), Gres("gpu", "a100_3g.20gb", 1)),
        (Request(RequestStyle.GPUS_PER_TASK, "h100"), Gres("gpu", "h100", 1)),
        (Request(RequestStyle.CONSTRAINT, "h100"), Gres("gpu", "", 1)),
        (Request(), None),
    ],
)
def test_a_request_names_a_resource(request_: Request, wanted: Gres | None) -> None:
    assert requested_gres(request_) == wanted


def test_a_type_that_was_asked_for_must_match_whole() -> None:
    node = "gpu:h100:4,gpu:h100-96:2,gpu:1g.10gb:7"
    assert matching_count(node, Gres("gpu", "h100", 1)) == 4
    assert matching_count(node, Gres("gpu", "", 1)) == 13
    assert matching_count(node, Gres("shard", "", 1)) == 0


# availability


def node(name: str, state: str, *, used: int = 0, available: str = "up") -> NodeRow:
    return NodeRow(name, "h100", True, available, state, 8, 16, "gpu:h100:4(S:0-1)", f"gpu:h100:{used}(IDX:N/A)")


def test_recorded_nodes_give_what_is_free() -> None:
    nodes, waiting = node_rows(recorded("sinfo.txt")), recorded("squeue_pending.txt").split()
    a100 = with_options(replace(H100, name="A100", partition="a100"), request=Request(RequestStyle.GPUS, "1"))
    answers = [availability(gpu, nodes, waiting) for gpu in (H100, a100, CPU, replace(CPU, partition=""))]
    assert [(answer.free, answer.total, answer.queued) for answer in answers] == [
        (0, 2, 2),
        (0, 2, 2),
        (3, 4, 1),
        (3, 4, 1),
    ]


@pytest.mark.parametrize("state", ["idle", "mixed", "allocated", "idle~", "idle#", "mixed-", "completing", "planned"])
def test_a_node_on_which_jobs_start_has_free_gpus(state: str) -> None:
    assert availability(H100, [node("n1", state, used=1)], []).free == 3


@pytest.mark.parametrize(
    "state",
    [
        "down",
        "down*",
        "idle*",
        "drained",
        "draining",
        "mixed@",
        "maint",
        "idle$",
        "reserved",
        "fail",
        "unknown",
        "",
        "7",
    ],
)
def test_a_node_on_which_no_job_starts_has_none(state: str) -> None:
    found = availability(H100, [node("n1", state)], [])
    assert (found.free, found.total) == (0, 4)


def test_reserved_nodes_are_free_for_those_with_a_reservation() -> None:
    assert availability(with_options(H100, reservation="contest"), [node("n1", "reserved")], []).free == 4


def test_a_partition_that_is_down_has_nothing_free() -> None:
    found = availability(H100, [node("n1", "idle", available="down")], [])
    assert (found.free, found.total, found.state) == (0, 4, "down")


def test_several_partitions_count_each_node_and_each_job_once() -> None:
    nodes = [
        node("n1", "idle"),
        replace(node("n1", "idle"), partition="long"),
        replace(node("n2", "idle"), partition="long"),
    ]
    found = availability(replace(H100, partition="h100,long"), nodes, ["h100,long", "long", "other"])
    assert (found.free, found.total, found.queued) == (8, 8, 2)


def test_without_a_request_whole_nodes_count_for_a_gpu() -> None:
    found = availability(with_options(H100, request=Request()), [node("n1", "idle"), node("n2", "mixed")], [])
    assert (found.free, found.total) == (1, 2)


def test_a_request_that_no_node_of_the_partition_has_says_so() -> None:
    wrong = with_options(replace(H100, partition="h100"), request=Request(RequestStyle.GRES, "gpu:b200:1"))
    found = availability(wrong, [node("n1", "idle")], [])
    assert (found.total, found.state) == (0, "no node of h100 has gpu:b200")


def test_a_partition_that_does_not_exist_says_so() -> None:
    assert availability(replace(H100, partition="b200"), [node("n1", "idle")], []).state == "no partition b200"


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            "ok\nslurmstepd: error: StepId=12.batch exceeded memory limit (314572800 > 157286400), being killed\n",
            "it used 300 MiB of memory, but its limit is 150 MiB",
        ),
        ("slurmstepd: error: Exceeded job memory limit\n", "it exceeded its memory limit"),
        ("slurmstepd-cpu-1: error: Exceeded job memory limit\n", "it exceeded its memory limit"),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch. Some of the step tasks are OOM Killed.",
            "it exceeded its memory limit",
        ),
        ("slurmstepd[n1.a]: error: Detected 2 oom-kill event(s) in StepId=7.batch", "it exceeded its memory limit"),
        (
            "[2026-11-25T22:01:10.043] error: StepId=3.0 exceeded memory limit (420098048 > 157286400), being killed\n",
            "it used 401 MiB of memory, but its limit is 150 MiB",
        ),
        ("my kernel: error: Exceeded job memory limit\n", ""),
        ("slurmstepd: error: *** JOB 12 ON n CANCELLED AT 2026 DUE TO TIME LIMIT ***\n", ""),
        ("", ""),
    ],
)
def test_the_words_about_memory_in_a_log_are_read(log: str, words: str) -> None:
    assert memory_exceeded(log) == words
