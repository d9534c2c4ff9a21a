"""Many runs in one job array on a real Slurm: each has a folder, a result and a state of its own."""

import getpass
import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpc_board import settings as config
from hpc_board.board import Board
from hpc_board.domain.job_options import JobOptions
from hpc_board.domain.run import JobState, JobStatus, Run, RunState
from hpc_board.errors import SchedulerError, SchedulerRefused
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.model.result import Verdict
from hpc_board.runs import job_folder
from hpc_board.schedulers import Job, JobKey
from hpc_board.schedulers.slurm.client import SlurmScheduler
from hpc_board.schedulers.slurm.sbatch import options_for
from hpc_board.transport import Completed
from hpc_board.transport.this_host import ThisHost
from tests.conftest import short_folder, skip_without_slurm
from tests.e2e.boards import RIGHT, WRONG, BoardFiles, board_files, slurm_jobs
from tests.slurm import places
from tests.slurm.lab import SlurmLab
from tests.slurm.places import PLACES, ChrootLab, lab_at, source_of
from tests.values import replace, requested
from tests.waiting import awaited

pytestmark = pytest.mark.slurm

CLUSTER = Cluster("main", "slurm")
CPU = Gpu("CPU", CLUSTER, Device.CPU, "cpu")
WAIT_SECONDS = 120.0


@pytest.fixture(scope="module", params=PLACES)
def any_lab(request: pytest.FixtureRequest, chroot_lab: ChrootLab) -> SlurmLab:
    return lab_at(request, "slurm_lab", chroot_lab)


@pytest.fixture(scope="module", params=PLACES)
def accounting_lab_anywhere(request: pytest.FixtureRequest, chroot_lab: ChrootLab) -> SlurmLab:
    return lab_at(request, "accounting_lab", chroot_lab, configuration={"MinJobAge": "2"}, accounting=True)


@pytest.fixture(scope="module")
def narrow_lab() -> Iterator[SlurmLab]:
    """A Slurm whose arrays have four tasks at most."""
    skip_without_slurm()
    with short_folder() as folder, SlurmLab(folder / "lab", configuration={"MaxArraySize": "4"}) as lab:
        yield lab


# The scheduler


@dataclass(frozen=True)
class Array:
    """An array on a lab, whose tasks print where they are and wait for a file called go."""

    scheduler: SlurmScheduler
    folder: Path
    job: Job
    job_id: str

    def key(self, index: int) -> JobKey:
        return JobKey(f"{self.job.name}.{index}", f"{self.job_id}_{index}", datetime.now(UTC))

    @property
    def keys(self) -> list[JobKey]:
        return [self.key(index) for index in self.job.indexes]

    def task_folder(self, index: int) -> Path:
        return Path(f"{self.folder}.{index}")

    def until(self, fits: Callable[[Mapping[int, JobStatus]], bool]) -> Mapping[int, JobStatus]:
        """The news of the tasks by their indexes, once they fit."""

        def news() -> Mapping[int, JobStatus]:
            return {int(name.rpartition(".")[2]): one for name, one in self.scheduler.poll(self.keys).items()}

        return awaited(lambda: found if fits(found := news()) else None, news, WAIT_SECONDS)


@contextmanager
def array(lab: SlurmLab, folder: Path, indexes: Sequence[int], body: str = "") -> Iterator[Array]:
    name = f"hb-{uuid.uuid4().hex[:12]}"
    root = folder / name
    root.mkdir()
    waiting = f"while [ ! -e '{folder}/go' ]; do sleep 0.1; done"
    script = f'#!/bin/bash\ncd "$PWD.$SLURM_ARRAY_TASK_ID" || exit\npwd\n{body or waiting}\n'
    (root / "job.sh").write_text(script)
    for index in indexes:
        Path(f"{root}.{index}").mkdir()
    scheduler = places.scheduler_of(lab, CLUSTER)
    job = Job(name, root, "job.sh", CPU, options_for(CPU, 600), 600, indexes)
    try:
        yield Array(scheduler, root, job, scheduler.submit(job))
    finally:
        lab.cancel_jobs()


def test_each_task_has_its_own_state_and_prints_into_its_own_folder(any_lab: SlurmLab, tmp_path: Path) -> None:
    indexes = [number * number for number in range(30)]
    with array(any_lab, tmp_path, indexes) as mine:
        begun = mine.until(lambda news: any(one.state is JobState.RUNNING for one in news.values()))
        assert set(begun) == set(indexes)
        assert {one.job_id for one in begun.values()} == {f"{mine.job_id}_{index}" for index in indexes}
        waiting = [one for one in begun.values() if one.state is JobState.PENDING]
        assert waiting
        assert all(one.source.startswith(f"{source_of(any_lab)}: PENDING") for one in waiting)
        (tmp_path / "go").touch()
        mine.until(lambda news: all(one.state is JobState.ENDED for one in news.values()))
        for index in indexes:
            printed = (mine.task_folder(index) / f"slurm-{mine.job_id}_{index}.out").read_text()
            assert printed.strip() == str(mine.task_folder(index))


def test_one_task_is_cancelled_and_no_other_whether_it_runs_or_waits(any_lab: SlurmLab, tmp_path: Path) -> None:
    with array(any_lab, tmp_path, range(12)) as mine:
        mine.until(lambda news: news[0].state is JobState.RUNNING)
        mine.scheduler.cancel([mine.key(0), mine.key(11)])
        after = mine.until(lambda news: {news[0].state, news[11].state} <= {JobState.CANCELLED, JobState.MISSING})
        # Of a task that is cancelled while it waits, no trace is left.
        assert (after[0].state, after[11].state) == (JobState.CANCELLED, JobState.MISSING)
        assert all(after[index].state in (JobState.PENDING, JobState.RUNNING) for index in range(1, 11))
        mine.scheduler.cancel([mine.key(0), mine.key(11)])


def test_an_array_is_found_by_its_name_with_every_task_that_it_was_sent_with(any_lab: SlurmLab, tmp_path: Path) -> None:
    before = datetime.now(UTC)
    with array(any_lab, tmp_path, range(3)) as mine:
        name = mine.job.name
        found = mine.scheduler.find_each([JobKey(f"{name}.{index}", "", before) for index in range(3)])
        assert found == {f"{name}.{index}": f"{mine.job_id}_{index}" for index in range(3)}
        assert mine.scheduler.find(JobKey(f"{name}.1", "", before)) == f"{mine.job_id}_1"
        assert mine.scheduler.find(JobKey(name, "", before)) is None
        assert mine.scheduler.find_each([JobKey(each, "", before) for each in ("hb-nobody.1", "hb-nobody")]) == {}


def test_tasks_that_left_the_queue_are_explained_by_the_accounts(
    accounting_lab_anywhere: SlurmLab, tmp_path: Path
) -> None:
    lab = accounting_lab_anywhere
    before = datetime.now(UTC)
    with array(lab, tmp_path, range(40), f"exit $SLURM_ARRAY_TASK_ID; # {tmp_path}") as mine:
        ended = mine.until(lambda news: all("exit code" in one.source for one in news.values()))
        assert {one.state for one in ended.values()} == {JobState.ENDED}
        assert ended[7].source == f"{source_of(lab)}: not listed; sacct: FAILED, exit code 7:0"
        assert ended[0].source == f"{source_of(lab)}: not listed; sacct: COMPLETED, exit code 0:0"
        assert mine.scheduler.find(JobKey(f"{mine.job.name}.7", "", before)) == f"{mine.job_id}_7"


def test_a_requeued_task_says_how_often_and_no_other_does(slurm_lab: SlurmLab, tmp_path: Path) -> None:
    with array(slurm_lab, tmp_path, range(3)) as mine:
        mine.until(lambda news: all(one.state is JobState.RUNNING for one in news.values()))
        slurm_lab.run("scontrol", "update", f"jobid={mine.job_id}_1", "requeue=1")
        slurm_lab.run("scontrol", "requeue", f"{mine.job_id}_1")
        news = mine.until(lambda news: bool(news[1].restarts))
        assert [news[index].restarts for index in range(3)] == [0, 1, 0]


def test_an_array_larger_than_the_cluster_allows_is_refused(narrow_lab: SlurmLab, tmp_path: Path) -> None:
    scheduler = SlurmScheduler(CLUSTER, ThisHost(narrow_lab.environment))
    assert scheduler.array_size() == 4
    with (
        pytest.raises(SchedulerRefused, match="Invalid job array specification"),
        array(narrow_lab, tmp_path, range(5)),
    ):
        pass


def test_arrays_keep_the_remembered_size_when_the_controller_asks_for_less(
    narrow_lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = site_on(narrow_lab, tmp_path, monkeypatch)
    host = CountingHost(silent_scontrols=range(1, 100))
    site = replace(site, host=host)
    try:
        site.submit(f"{RIGHT}# the first run makes the board\n")
        first = site.submit(*(f"{RIGHT}# {number}\n" for number in range(3)))
        second = site.submit(*(f"{RIGHT}# {number}\n" for number in range(3, 11)))
        assert (host.count("scontrol"), host.count("sbatch")) == (1, 4)
        assert len({run.array for run in [*first, *second]}) == 3
        assert {run.state for run in site.ended([*first, *second])} == {RunState.FINISHED}
    finally:
        narrow_lab.cancel_jobs()


def test_an_array_that_is_too_large_goes_as_smaller_ones_once_the_controller_tells_its_size(
    narrow_lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = site_on(narrow_lab, tmp_path, monkeypatch)
    host = CountingHost(silent_scontrols=range(1))
    site = replace(site, host=host)
    try:
        runs = site.ended(site.submit(*(f"{RIGHT}# {number}\n" for number in range(12))))
        assert (host.count("scontrol"), host.count("sbatch")) == (2, 4)
        assert len({run.array for run in runs}) == 3
        assert {run.state for run in runs} == {RunState.FINISHED}
    finally:
        narrow_lab.cancel_jobs()


# A board


@dataclass
class CountingHost(ThisHost):
    """This host, with the commands that ran on it; some scontrol, by their numbers, end with status 1 and no word."""

    commands: list[Sequence[str]] = field(default_factory=list)
    silent_scontrols: range = range(0)

    def __post_init__(self) -> None:
        super().__init__()

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        number = self.count("scontrol")
        self.commands.append(argv)
        if argv[0] == "scontrol" and number in self.silent_scontrols:
            return Completed(1, "", "")
        return super().run(argv, **options)

    def count(self, program: str) -> int:
        return sum(argv[0] == program for argv in self.commands)


@dataclass(frozen=True)
class Site:
    """A board on a lab, and the commands that its clients ran."""

    files: BoardFiles
    host: CountingHost = field(default_factory=CountingHost)

    @property
    def board(self) -> Board:
        """The board, as a client sees it that starts now."""
        board = Board(config.load(self.files.settings, os.environ))
        board.context.clusters.__dict__["schedulers"] = {"lab": SlurmScheduler(board.settings.clusters[0], self.host)}
        board.context.installation.__dict__["reconciler"] = replace(
            board.context.reconciler, lookup_delay=timedelta(seconds=1)
        )
        return board

    def submit(self, *kernels: str, gpus: Sequence[str] = ("CPU",), array: bool | None = None) -> list[Run]:
        board = self.board
        files = [self.files.kernel(text, f"k{number}.py") for number, text in enumerate(kernels)]
        return board.submissions.submit([requested(file, gpus=gpus, mode="test") for file in files], array=array)

    def ended(self, runs: Sequence[Run]) -> list[Run]:
        board = self.board

        def seen() -> list[Run]:
            return [board.runs.get(run.id) for run in runs]

        def is_over() -> bool:
            board.runs.advance()
            return all(run.state.ended for run in seen())

        awaited(is_over, seen, 2 * WAIT_SECONDS)
        return seen()

    def folder(self, run: Run) -> Path:
        return job_folder.Folders(self.board.settings.board).of(run)


def site_on(lab: SlurmLab, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("SLURM_CONF", lab.environment["SLURM_CONF"])
    return Site(board_files(folder, slurm=True, environ={"SLURM_CONF": lab.environment["SLURM_CONF"]}))


@pytest.fixture
def site(slurm_lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    yield site_on(slurm_lab, tmp_path, monkeypatch)
    slurm_lab.cancel_jobs()


def test_a_dozen_runs_go_with_one_sbatch_and_each_has_its_folder_result_and_state(site: Site) -> None:
    kernels = [WRONG if number % 7 == 3 else f"{RIGHT}\n# {number}\n" for number in range(12)]
    runs = site.submit(*kernels)
    assert site.host.count("sbatch") == 1
    assert len({run.submission for run in runs}) == 12
    array_ids = {run.status.job_id.partition("_")[0] for run in runs}
    assert len(array_ids) == 1
    assert [run.status.job_id for run in runs] == [f"{array_ids.copy().pop()}_{index}" for index in range(12)]
    for number, run in enumerate(site.ended(runs)):
        wanted = Verdict.WRONG_VALUE if number % 7 == 3 else Verdict.PASS
        assert (run.state, run.verdict) == (RunState.FINISHED, wanted), run.explanation
        result = json.loads((site.folder(run) / "result.json").read_text())
        assert (result["run"], result["job_id"]) == (run.id, run.status.job_id)
        assert (site.folder(run) / "submission" / "submission.py").read_text() == kernels[number]
        assert [path.name for path in site.folder(run).glob("slurm-*")] == [f"slurm-{run.status.job_id}.out"]
    assert len({site.folder(run) for run in runs}) == 12
    assert site.host.count("sbatch") == 1


def test_a_throttled_array_runs_some_of_its_tasks_at_a_time_and_each_job_says_whose_it_is(
    site: Site, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    waiting = RIGHT.replace(
        "    return", f"    import os, time\n    while not os.path.exists({str(go)!r}): time.sleep(0.1)\n    return"
    )
    files = [site.files.kernel(f"{waiting}# {number}\n", f"k{number}.py") for number in range(3)]
    refused = site.files.run("submit", *files, "--gpu", "CPU", "--max-running", "1", "--no-array")
    assert refused.returncode == 2
    assert "the 3 jobs on CPU cannot be sent as one" in refused.stderr.replace("\n", " ")
    sent = site.files.json("submit", *files, "--gpu", "CPU", "--max-running", "1")
    runs = [site.board.runs.get(each["runs"][0]["id"]) for each in sent]
    board = site.board

    def advanced() -> list[Run]:
        board.runs.advance()
        return [board.runs.get(run.id) for run in runs]

    try:
        awaited(lambda: [run.state for run in advanced()].count(RunState.RUNNING) == 1)
        waits = [run.id for run in (board.runs.get(each.id) for each in runs) if run.state is RunState.QUEUED]
        assert len(waits) == 2
        limited = "waiting for other tasks of its array, of which only some run at a time (JobArrayTaskLimit)"
        awaited(lambda: {run.status.reason for run in advanced() if run.id in waits} == {limited})
        comments = {comment for name, comment in slurm_jobs(site.files.environ, ("%j", "%k")) if name == runs[0].array}
        assert comments == {f"hpc-board run {runs[0].id}-{runs[2].id}, double ({runs[0].array})"}
    finally:
        go.touch()
    assert {run.verdict for run in site.ended(runs)} == {Verdict.PASS}


def test_no_list_of_slurm_has_the_name_of_a_closed_board(site: Site) -> None:
    created = site.files.run("create", "exam", "double", "--closed")
    assert created.returncode == 0, created.stderr
    kernel = site.files.kernel(RIGHT.replace("leaderboard double", "leaderboard exam"), "k.py")
    (preview,) = site.files.json("submit", kernel, "--gpu", "CPU", "--dry-run")
    assert "--comment=hpc-board run RUN (hb-TOKEN)" in preview["command"]
    sent = site.files.json("submit", kernel, "--gpu", "CPU")
    (run,) = [site.board.runs.get(each["id"]) for each in sent["runs"]]
    found = [
        (comment, *rest)
        for name, comment, *rest in slurm_jobs(site.files.environ, ("%j", "%k", "%o", "%Z"))
        if name == run.token
    ]
    site.ended([run])
    assert [comment for comment, *_ in found] == [f"hpc-board run {run.id} ({run.token})"]
    assert "exam" not in str(found)


def test_what_is_previewed_is_what_an_array_runs(site: Site) -> None:
    files = [site.files.kernel(f"{RIGHT}# {number}\n", f"k{number}.py") for number in range(3)]
    previews = site.files.json("submit", *files, "--gpu", "H100", "--dry-run")
    done = site.files.run("submit", *files, "--gpu", "H100", "--dry-run")
    assert done.stdout == (
        f"# ---- GPU H100, job array: k0.py, k1.py, k2.py ----\n{previews[0]['array']}"
        f"# ---- GPU H100: k0.py, k1.py, k2.py ----\n{previews[0]['script']}"
    )
    sent = site.files.json("submit", *files, "--gpu", "H100")
    runs = [site.board.runs.get(each["runs"][0]["id"]) for each in sent]
    held = site.host.run(["scontrol", "write", "batch_script", runs[0].status.job_id, "-"], timeout_seconds=60).stdout
    assert {preview["array"] for preview in previews} == {held}
    for run, preview in zip(runs, previews, strict=True):
        assert (site.folder(run) / "job.sh").read_text() == preview["script"]
        assert "--array=0-2" in preview["command"]
    assert [run.verdict for run in site.ended(runs)] == [Verdict.PASS] * 3


def test_a_template_with_options_and_a_shell_of_its_own_runs_in_an_array_as_alone(site: Site) -> None:
    template = site.files.folder / "own.sh.j2"
    template.write_text(
        "#!/usr/bin/env bash\n# a comment\n{% for line in directives %}\n{{ line }}\n{% endfor %}\n"
        "#SBATCH --comment=own\n\n"
        'echo "$0 $BASH_VERSION" > shell\n{{ python }} -I -B {{ harness }} supervise {{ facts }}\n#SBATCH --hold\n'
    )
    settings = yaml.safe_load(site.files.settings.read_text())
    settings["gpus"]["CPU"]["template"] = str(template)
    site.files.settings.write_text(yaml.safe_dump(settings))
    runs = site.submit(*([RIGHT] * 3))
    comments = slurm_jobs(site.files.environ, ("%A", "%k"))
    assert {run.verdict for run in site.ended(runs)} == {Verdict.PASS}
    assert "own" in [comment for job_id, comment in comments if job_id == runs[2].status.job_id.partition("_")[0]]
    assert all((site.folder(run) / "shell").read_text().startswith("./job.sh 5.") for run in runs)


def test_an_array_of_which_every_task_is_over_but_one_is_found_whole(
    forgetful_lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client died after sbatch; most jobs have ended and are forgotten before the next client comes."""
    site = site_on(forgetful_lab, tmp_path, monkeypatch)
    go = tmp_path / "go"
    waiting = RIGHT.replace(
        "    return", f"    import os, time\n    while not os.path.exists({str(go)!r}): time.sleep(0.1)\n    return"
    )
    lost = site.board
    monkeypatch.setattr(
        lost.context.clusters.schedulers["lab"], "submit", _lost_answer(lost.context.clusters.schedulers["lab"])
    )
    files = [site.files.kernel(text, f"k{number}.py") for number, text in enumerate([RIGHT, RIGHT, RIGHT, waiting])]
    runs = lost.submissions.submit([requested(file, gpus=["CPU"], mode="test") for file in files])
    assert {run.state for run in runs} == {RunState.SUBMITTING}
    awaited(lambda: [name for _, name, _ in slurm_jobs(site.files.environ)].count(runs[0].array) == 1)
    site.board.runs.advance()
    assert [site.board.runs.get(run.id).status.job_id.partition("_")[2] for run in runs] == [*"0123"]
    go.touch()
    assert [run.verdict for run in site.ended(runs)] == [Verdict.PASS] * 4
    assert site.host.count("sbatch") == 1


def _lost_answer(scheduler: Any) -> Callable[[Job], str]:
    submit = scheduler.submit

    def lost(job: Job) -> str:
        submit(job)
        raise SchedulerError("Socket timed out")

    return lost


def test_slurm_holds_the_options_of_a_submission(
    accounting_lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = site_on(accounting_lab, tmp_path, monkeypatch)
    for kind in ("account", "qos"):
        for owner in ("site", "own", "variable"):
            accounting_lab.run("sacctmgr", "--immediate", "add", kind, f"{owner}-{kind}")
    accounts = "account=site-account,own-account,variable-account"
    accounting_lab.run("sacctmgr", "--immediate", "add", "user", getpass.getuser(), accounts)
    settings = yaml.safe_load(site.files.settings.read_text())
    entry = {"account": "site-account", "qos": "site-qos", "constraint": "lab", "exclude": "a100-1"}
    settings["gpus"]["H100"] |= entry
    site.files.settings.write_text(yaml.safe_dump(settings))
    for variable, value in (
        ("SBATCH_ACCOUNT", "variable-account"),
        ("SBATCH_QOS", "variable-qos"),
        ("SBATCH_PARTITION", "a100"),
        ("SBATCH_TIMELIMIT", "1"),
        ("SBATCH_CONSTRAINT", "a100"),
    ):
        monkeypatch.setenv(variable, value)
    kernel = site.files.kernel(f"#!HPCBOARD qos own-qos\n{RIGHT}", "k.py")
    later = JobOptions(sbatch=("--begin=now+1hour",))
    chosen = JobOptions("own-account", constraint="h100", time="00:03:00", exclude="cpu-1").over(later)

    def held(options: JobOptions) -> tuple[Run, dict[str, str]]:
        board = site.board
        (run,) = board.submissions.submit([requested(kernel, gpus=["H100"], mode="test", options=options)])
        words = accounting_lab.run("scontrol", "--oneliner", "show", "job", run.status.job_id).split()
        return run, dict(word.split("=", 1) for word in words if "=" in word)

    try:
        run, job_ = held(chosen)
        assert (job_["Account"], job_["QOS"], job_["TimeLimit"]) == ("own-account", "own-qos", "00:03:00")
        assert (job_["Partition"], job_["Features"]) == ("h100", "(lab)&(h100)")
        assert set(job_["ExcNodeList"].split(",")) == {"a100-1", "cpu-1"}
        assert run.options == chosen.over(JobOptions(qos="own-qos"))
        script = (site.folder(run) / "job.sh").read_text()
        assert "#SBATCH --account=own-account\n" in script
        again = site.board.submissions.again(run.id)
        assert again.options == run.options
        _, job_ = held(later)
        assert (job_["Account"], job_["QOS"], job_["TimeLimit"]) == ("site-account", "own-qos", "00:05:00")
        assert (job_["Partition"], job_["Features"]) == ("h100", "lab")
    finally:
        accounting_lab.cancel_jobs()
