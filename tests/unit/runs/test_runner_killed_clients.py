"""A client that dies after any step of the life of a runner loses no run at it, and doubles none."""

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hpc_board.domain.run import JobState, JobStatus, Run, RunState
from hpc_board.model.result import Verdict
from hpc_board.model.runner import DONE, QUEUE, TAKEN, End, Entry, decoded, encoded
from hpc_board.model.task import Mode
from hpc_board.runs import job_folder
from hpc_board.runs.job_folder import Folders
from hpc_board.schedulers.runner_queue import RunnerQueue
from hpc_board.store.runners import RunnerGateway
from hpc_board.store.runs import RunGateway
from tests.harness.evaluations import a_task
from tests.scripted import Scripted
from tests.unit.runs.test_runners import RUNNING, Held
from tests.unit.runs.world import right_result
from tests.values import replace

STEPS: tuple[tuple[type, str], ...] = (
    (RunGateway, "record_each"),
    (RunGateway, "retry_each"),
    (RunGateway, "request_end"),
    (RunGateway, "finish"),
    (RunnerGateway, "record"),
    (RunnerGateway, "request_end"),
    (RunnerQueue, "add"),
    (RunnerQueue, "withdraw"),
    (RunnerQueue, "stop"),
    (RunnerQueue, "release"),
    (Folders, "write"),
    (Folders, "write_runner"),
    (Scripted, "submit"),
    (Scripted, "cancel"),
)


class Killed(BaseException):
    """The end of a client that nothing can prepare for."""


class Steps:
    """A count of the steps; the client dies after one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, deadly: int) -> None:
        self.count = 0
        self._deadly = deadly
        for owner, name in STEPS:
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **more: Any) -> Any:
            done = method(*arguments, **more)
            self.count += 1
            if self.count == self._deadly:
                raise Killed
            return done

        return counted


class Site:
    """A held GPU, its node, and the jobs of its cluster; it counts how often each run is judged."""

    def __init__(self, folder: Path) -> None:
        self.held = Held(folder)
        self.world = self.held.world
        self.judged: Counter[int] = Counter()
        self._done: set[str] = set()

    def client(self, command: Callable[[], object]) -> None:
        """A client's command, in which it may die."""
        with suppress(Killed):
            command()

    def take(self, end: str = "ended") -> None:
        """The runner takes its next run, if it has any, and ends it so."""
        for path in sorted((self.held.folder / QUEUE).glob("0*"))[:1]:
            for part in (TAKEN, DONE):
                (self.held.folder / part).mkdir(exist_ok=True)
            entry = decoded(path.read_bytes(), Entry)
            path.rename(self.held.folder / TAKEN / path.name)
            if end == "ended":
                self._judge(self.held.folder.parent / entry.job, entry.job_id)
            (self.held.folder / DONE / path.name).write_bytes(encoded(End(end, "")))
            (self.held.folder / TAKEN / path.name).unlink()

    def judge_jobs(self) -> None:
        """The jobs of single runs end."""
        for job in self.world.scheduler.submitted:
            if job.name != self.held.runner.token and job.name not in self._done:
                self._done.add(job.name)
                self._judge(job.folder, self.world.scheduler.jobs[job.name])

    def _judge(self, folder: Path, job_id: str) -> None:
        facts = json.loads((folder / job_folder.FACTS).read_text())
        self.judged[facts["run"]] += 1
        run = self.world.store.runs.get(facts["run"])
        whole = right_result(run, a_task())
        tests = tuple(case for case in whole.cases if case.phase == "test")
        result = replace(whole, job_id=job_id, nonce=facts["nonce"], mode="test", cases=tests)
        (folder / job_folder.RESULT).write_bytes(result.to_json().encode())


def lived(site: Site) -> list[Run]:
    """The life of a runner: runs that are judged, cancelled, cut off by its time, and left behind."""
    world, held = site.world, site.held
    site.client(lambda: world.advance.advance_runners("main"))
    world.scheduler.status = RUNNING
    site.client(world.advance)
    runs = [world.run(Mode.TEST) for _ in range(4)]
    site.client(lambda: world.advance.launch(runs))
    site.client(world.advance)
    site.take()
    site.client(lambda: world.advance.cancel([runs[1]], "ada"))
    site.client(world.advance)
    site.take("time_over")
    site.client(lambda: world.store.runners.request_end(1, "released by ada"))
    site.client(lambda: world.advance.advance_runners("main"))
    if (held.folder / QUEUE).is_dir():
        held.retire("it was released")
    site.client(world.advance)
    site.judge_jobs()
    world.scheduler.status = JobStatus(JobState.ENDED, "", source="sacct: COMPLETED")
    for _ in range(8):
        if world.store.runs.has_in_flight():
            site.client(world.advance)
            site.judge_jobs()
    return [world.store.runs.get(run.id) for run in runs]


@pytest.mark.slow
def test_a_client_that_dies_at_any_step_loses_no_run_at_a_runner_and_doubles_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpc_board.domain.run.CANCELLED_GRACE", timedelta(0))
    deadly, total = 0, 1
    while deadly < total:
        deadly += 1
        with monkeypatch.context() as patched:
            steps = Steps(patched, deadly)
            site = Site(tmp_path / str(deadly))
            runs = lived(site)
            total = max(total, steps.count)
        scheduler = site.world.scheduler
        assert set(Counter(scheduler.sent).values()) == {1}, (deadly, scheduler.sent)
        assert site.held.runner.state.ended, (deadly, site.held.runner.status)
        for run in runs:
            assert run.state in (RunState.FINISHED, RunState.CANCELLED), (deadly, run)
            assert (run.state is RunState.CANCELLED) <= (run.id == 2), (deadly, run)
            assert site.judged[run.id] == (run.verdict is Verdict.PASS), (deadly, run, site.judged)
    assert total > 30
