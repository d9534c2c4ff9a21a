"""A site whose job_submit.lua renames jobs and rewrites their comments, and an admin who does so by hand."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from hpc_board.domain.run import RESULT_GRACE, RunState
from hpc_board.model.result import Verdict
from tests.conftest import short_folder, skip_without_slurm
from tests.e2e.boards import RIGHT, slurm_jobs
from tests.slurm import test_arrays as arrays
from tests.slurm import test_faults as faults
from tests.slurm.lab import SlurmLab
from tests.values import requested

pytestmark = pytest.mark.slurm

RULES = """\
function slurm_job_submit(job_desc, part_list, submit_uid)
    job_desc.name = "site-" .. submit_uid
    {more}
    return slurm.SUCCESS
end
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end
"""


@pytest.fixture(scope="module", params=["", 'job_desc.comment = "charged to physics"'], ids=["name", "comment-too"])
def renaming_lab(request: pytest.FixtureRequest) -> Iterator[SlurmLab]:
    skip_without_slurm()
    with short_folder() as folder:
        (folder / "lab").mkdir()
        (folder / "lab" / "job_submit.lua").write_text(RULES.format(more=request.param))
        with SlurmLab(folder / "lab", configuration={"JobSubmitPlugins": "lua"}) as lab:
            yield lab


@pytest.fixture
def site(renaming_lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[faults.Site]:
    yield faults.site_on(renaming_lab, tmp_path, monkeypatch)
    renaming_lab.cancel_jobs()


def names(site: faults.Site) -> set[str]:
    return {name for _, name, _ in slurm_jobs(site.files.environ)}


def test_a_run_waits_runs_and_is_judged_under_another_name(site: faults.Site) -> None:
    site.held()
    running, _, waiting = (run for _ in range(3) for run in site.submit("HELD-H100"))
    site.until(running, RunState.RUNNING)
    assert all(name.startswith("site-") for name in names(site))
    site.lab.run("scontrol", "hold", site.now(waiting).status.job_id)
    held = site.until(waiting, RunState.QUEUED, fits=lambda run: "JobHeld" in run.status.reason)
    assert held.status.job_id
    site.lab.run("scontrol", "release", held.status.job_id)
    site.released()
    for run in (running, waiting):
        assert site.until(run, RunState.FINISHED).verdict is Verdict.PASS


def test_a_runner_judges_and_is_released_under_another_name(site: faults.Site) -> None:
    runner = site.board.runners.hold("H100")
    (run,) = site.submit("H100")
    ended = site.until(run, RunState.FINISHED)
    assert (ended.verdict, ended.status.runner) == (Verdict.PASS, runner.id)
    site.board.runners.release(runner.id)
    (waiting,) = site.submit("H100")
    assert site.until(waiting, RunState.FINISHED).status.runner is None
    assert site.board.context.store.runners.get(runner.id).state is RunState.FINISHED


def test_a_check_says_what_the_site_does_to_jobs(site: faults.Site, request: pytest.FixtureRequest) -> None:
    done = site.files.run("admin", "check", "CPU", "--json")
    (found,) = json.loads(done.stdout)
    (rules,) = [line for line in found["lines"] if line["subject"] == "rules"]
    assert rules["level"] == "ok"
    assert re.search(r"the site changes a job: name site-[0-9]+ instead of hb-", rules["message"])
    assert ("comment charged to physics" in rules["message"]) is ("comment-too" in request.node.name)


def test_a_cancelled_run_is_cancelled_by_slurm(site: faults.Site) -> None:
    site.held()
    (run,) = site.submit("HELD-CPU")
    job_id = site.until(run, RunState.RUNNING).status.job_id
    site.board.runs.cancel_each([run.id])
    ended = site.until(run, RunState.CANCELLED)
    assert "squeue: CANCELLED" in ended.explanation
    assert (
        site.lab.run("squeue", "--noheader", "--states=all", f"--jobs={job_id}", "--format=%T").strip() == "CANCELLED"
    )


def test_a_job_that_an_admin_renames_while_it_waits_is_followed(site: faults.Site) -> None:
    site.held()
    (run,) = site.submit("HELD-CPU")
    job_id = site.until(run, RunState.RUNNING).status.job_id
    site.lab.run("scontrol", "update", f"JobId={job_id}", "JobName=moved", "Comment=by an admin")
    site.board.runs.advance()
    assert site.now(run).state is RunState.RUNNING
    site.released()
    assert site.until(run, RunState.FINISHED).verdict is Verdict.PASS


def test_a_run_whose_submission_lost_its_answer_is_not_sent_twice(site: faults.Site) -> None:
    site.held()
    board = site.board
    scheduler = board.context.clusters.schedulers["lab"]
    monkey = pytest.MonkeyPatch()
    monkey.setattr(scheduler, "submit", arrays._lost_answer(scheduler))
    try:
        file = site.files.kernel(RIGHT)
        (run,) = board.submissions.submit([requested(file, gpus=["HELD-CPU"], mode="test")])
    finally:
        monkey.undo()
    assert site.now(run).state is RunState.SUBMITTING
    site.later(timedelta(minutes=2))
    found = site.until(run, RunState.QUEUED, RunState.RUNNING)
    site.released()
    assert site.until(run, RunState.FINISHED).verdict is Verdict.PASS
    assert len(list(site.folder(run).glob("slurm-*.out"))) == 1
    assert site.now(run).status.job_id == found.status.job_id


def test_a_run_whose_node_dies_is_sent_again_and_followed(site: faults.Site) -> None:
    gpus = faults.settings_of(site.files)["gpus"]
    faults.change_settings(site.files, **{"HELD-A100": {**gpus["HELD-A100"], "retries": 1}})
    site.held()
    (run,) = site.submit("HELD-A100")
    first = site.until(run, RunState.RUNNING)
    site.lab.run("scontrol", "update", "NodeName=a100-1", "State=down", "Reason=a test")
    try:
        site.until(run, RunState.COLLECTING)
        site.later(RESULT_GRACE)
        again = site.until(run, fits=lambda run: run.retry == 1)
        assert again.status.reason.startswith("retry 1 of 1 after node_fail on a100-1")
        # The first job is over: the second one has another name, folder and script.
        assert again.token != first.token
    finally:
        site.lab.run("scontrol", "update", "NodeName=a100-1", "State=idle")
    second = site.until(run, RunState.RUNNING)
    assert second.status.job_id != first.status.job_id
    assert names(site).isdisjoint({first.token, second.token})
    site.released()
    ended = site.until(run, RunState.FINISHED)
    assert (ended.verdict, ended.retry, ended.status.job_id) == (Verdict.PASS, 1, second.status.job_id)


def test_an_array_of_twenty_is_followed_and_cancelled(site: faults.Site) -> None:
    board = site.board
    site.held()
    files = [site.files.kernel(f"{RIGHT}# {number}\n", f"k{number}.py") for number in range(20)]
    runs = board.submissions.submit([requested(file, gpus=["HELD-CPU"], mode="test") for file in files])
    assert len({run.array for run in runs}) == 1
    site.until(runs[0], RunState.RUNNING)
    site.board.runs.advance()
    assert {site.now(run).state for run in runs} <= {RunState.RUNNING, RunState.QUEUED}
    site.board.runs.cancel_each([run.id for run in runs[10:]])
    states = [site.until(run, RunState.CANCELLED).state for run in runs[10:]]
    assert set(states) == {RunState.CANCELLED}
    site.released()
    assert {site.until(run, RunState.FINISHED).verdict for run in runs[:10]} == {Verdict.PASS}
