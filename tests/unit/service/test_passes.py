"""The passes of a service over its runs: outages are logged once."""

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from hpc_board.domain.run import JobState, JobStatus, RunState
from hpc_board.errors import SchedulerError
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.schedulers import JobKey
from hpc_board.schedulers.local.client import LocalScheduler
from tests.service import serving
from tests.unit.recorded import (
    Recorded,
    result_of,
    status_of,
)
from tests.unit.service.clients import OWNER
from tests.values import replace
from tests.waiting import awaited


def test_a_silent_scheduler_is_in_the_log_once_and_so_is_its_next_answer(
    board: Recorded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent, asked, outage = threading.Event(), [0], ["not advanced", "answers again"]

    def ask(_: LocalScheduler, jobs: Sequence[JobKey]) -> Mapping[str, JobStatus]:
        asked[0] += 1
        if silent.is_set():
            raise SchedulerError(f"no answer to question {asked[0]}")
        return {job.name: JobStatus(JobState.PENDING) for job in jobs}

    monkeypatch.setattr(LocalScheduler, "poll", ask)
    board.add(status_of(RunState.QUEUED), user=OWNER)
    lines: list[str] = []

    def told() -> list[str]:
        return [event for event in (json.loads(line)["event"] for line in lines) if event in outage]

    with serving(board.board.settings, folder / "board.sock", lines=lines):
        for before in ([], outage):
            silent.set()
            until = asked[0] + 4
            awaited(lambda: asked[0] >= until)  # noqa: B023 - called in this round
            assert told() == [*before, "not advanced"]
            silent.clear()
            awaited(lambda: told() == [*before, *outage])  # noqa: B023 - called in this round


def test_a_service_removes_old_job_folders_when_no_run_is_in_flight(board: Recorded, folder: Path) -> None:
    old = board.add(result=result_of(Verdict.PASS), mode=Mode.TEST, user=OWNER)
    left = board.board.context.clusters.folders_on(old.cluster).of(old)
    left.mkdir(parents=True)
    settings = replace(board.board.settings, prune_days=30)
    with serving(settings, folder / "board.sock"):
        awaited(lambda: not left.exists())
