"""GPUs that are held on a real Slurm: one job judges runs one after another."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from hpc_board.domain.run import RunState
from hpc_board.domain.runner import Runner
from hpc_board.model.result import Verdict
from hpc_board.runs import job_folder
from tests.conftest import short_folder, skip_without_slurm
from tests.e2e.boards import HANGING, RIGHT, slurm_jobs
from tests.slurm import test_faults as faults
from tests.slurm.lab import SlurmLab
from tests.values import requested
from tests.waiting import awaited

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def lab() -> Iterator[SlurmLab]:
    skip_without_slurm()
    with short_folder() as folder, SlurmLab(folder / "lab") as lab:
        yield lab


@pytest.fixture
def site(lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[faults.Site]:
    yield faults.site_on(lab, tmp_path, monkeypatch)
    lab.cancel_jobs()


def holding(site: faults.Site, gpu: str = "H100", seconds: int = 1800) -> Runner:
    """A runner whose job has begun."""
    number = site.board.runners.hold(gpu, seconds).id
    return until(site, number, RunState.RUNNING)


def until(site: faults.Site, number: int, state: RunState) -> Runner:
    def now() -> Runner:
        board = site.board
        board.runs.advance()
        return next(runner for runner in board.runners.recent() if runner.id == number)

    awaited(lambda: now().state is state)
    return now()


def seconds_of(site: faults.Site, runner: Runner) -> tuple[float, float]:
    """The seconds in which a runner was without a run, and those of its runs."""
    with site.board.context.store.file.reading() as db:
        rows = [*db.rows("usage", "runner = ?", [runner.id])]
    idle, used = ([row["seconds"] for row in rows if (row["run"] is None) is each] for each in (True, False))
    assert (len(idle), len(used)) == (1, runner.runs)
    return idle[0], sum(used)


def jobs(site: faults.Site, *tokens: str) -> set[str]:
    """Those of `tokens` by which Slurm knows a job."""
    return {name for _, name, _ in slurm_jobs(site.files.environ)} & {*tokens}


def test_runs_of_a_held_gpu_are_judged_in_one_job(site: faults.Site) -> None:
    runner = holding(site)
    runs = [run for _ in range(3) for run in site.submit("H100")]
    fresh = site.board.submissions.submit([requested(site.files.kernel(), gpus=("H100",))], fresh=True)
    for place, run in enumerate(runs, 1):
        ended = site.until(run, RunState.FINISHED)
        assert (ended.verdict, ended.status.job_id) == (Verdict.PASS, f"{runner.status.job_id}.{run.id}")
        result = site.board.runs.whole(run.id).result
        assert result is not None
        assert (result.provenance["runner"], result.provenance["runner_place"]) == (runner.token, place)
        assert result.job_id == ended.status.job_id
        assert site.board.runs.log(run.id) is not None
    tokens = [run.token for run in (*runs, *fresh)]
    assert jobs(site, runner.token, *tokens) == {runner.token, fresh[0].token}
    site.board.runners.release(runner.id)
    ended_runner = until(site, runner.id, RunState.FINISHED)
    assert (ended_runner.status.reason, ended_runner.runs) == (f"released by {site.board.user}", 3)
    idle_s, used_s = seconds_of(site, ended_runner)
    held_s = ended_runner.held_seconds(ended_runner.status.at)
    assert 0 < idle_s < held_s
    assert idle_s + used_s == pytest.approx(held_s, abs=0.01)
    assert site.until(fresh[0], RunState.FINISHED).status.runner is None


def test_a_runner_that_is_cancelled_from_outside_ends_its_run_and_sends_the_others_elsewhere(site: faults.Site) -> None:
    runner = holding(site)
    (hanging,) = site.submit("H100", kernel=HANGING, task="slow")
    awaited((site.folder(hanging) / job_folder.PROGRESS).exists)
    (behind,) = site.submit("H100")
    site.lab.run("scancel", runner.status.job_id)
    assert until(site, runner.id, RunState.CANCELLED).takes_runs is False
    assert site.until(hanging, RunState.CANCELLED).status.runner == runner.id
    ended = site.until(behind, RunState.FINISHED)
    assert (ended.verdict, ended.status.runner) == (Verdict.PASS, None)
    history = site.board.runs.whole(behind.id).history
    assert f"runner {runner.id} ended before it" in " ".join(status.reason for status in history)


def test_a_run_is_cancelled_at_its_runner_which_judges_the_next(site: faults.Site) -> None:
    runner = holding(site)
    (hanging,) = site.submit("H100", kernel=HANGING, task="slow")
    awaited((site.folder(hanging) / job_folder.PROGRESS).exists)
    waiting, behind = site.submit("H100")[0], site.submit("H100")[0]
    done = site.board.runs.cancel_each([hanging.id, waiting.id])
    assert all(each.error is None for each in done)
    assert site.until(waiting, RunState.CANCELLED).status.runner == runner.id
    assert site.until(hanging, RunState.CANCELLED).status.runner == runner.id
    assert site.until(behind, RunState.FINISHED).status.runner == runner.id


def test_a_waiting_runner_keeps_its_runs_and_releases_them(site: faults.Site) -> None:
    site.lab.run("scontrol", "update", "partitionname=h100", "state=down")
    try:
        runner = site.board.runners.hold("H100")
        (run,) = site.submit("H100")
        site.board.runs.advance()
        assert (site.now(run).state, site.now(run).status.runner) == (RunState.QUEUED, runner.id)
        site.board.runners.release(runner.id)
        assert until(site, runner.id, RunState.CANCELLED).started_at is None
    finally:
        site.lab.run("scontrol", "update", "partitionname=h100", "state=up")
    assert site.until(run, RunState.FINISHED).status.runner is None


def test_a_board_starts_a_runner_for_the_files_of_one_submission(
    lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = faults.site_on(lab, tmp_path, monkeypatch)
    settings = yaml.safe_load(site.files.settings.read_text())
    settings["runners"] = {"auto": 1}
    site.files.settings.write_text(yaml.safe_dump(settings, sort_keys=False))
    board = site.board
    requests = [requested(site.files.kernel(RIGHT, f"k{number}.py"), gpus=("H100",)) for number in range(6)]
    runs = board.submissions.submit(requests)
    for run in runs:
        assert site.until(run, RunState.FINISHED).verdict is Verdict.PASS
    runner = board.runners.recent()[0]
    assert [site.now(run).status.runner for run in runs] == [runner.id] * 6
    assert (runner.user, jobs(site, runner.token, *(run.token for run in runs))) == ("", {runner.token})
    board.runners.release(runner.id)
    until(site, runner.id, RunState.FINISHED)
    lab.cancel_jobs()
