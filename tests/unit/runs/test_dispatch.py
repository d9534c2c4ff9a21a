"""Dispatch: which drafts share a job array."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hpc_board.domain.job_options import JobOptions
from hpc_board.domain.run import array_of
from hpc_board.errors import SchedulerError
from hpc_board.runs.dispatch import DispatchPlan
from tests.scripted import ScriptedArrays
from tests.unit.recorded import recorded
from tests.values import requested


def test_an_array_has_no_more_jobs_than_may_go_together(tmp_path: Path) -> None:
    board = recorded(tmp_path)
    settings = "board: board\nclusters:\n  main: {scheduler: slurm}\n"
    settings += "gpus:\n  CPU: {cluster: main, partition: cpu, device: cpu}\n"
    board.settings.write_text(settings)
    drafts = board.board.submissions._drafts([requested(board.kernel)] * 5)
    clusters = board.board.context.clusters
    clusters.schedulers[drafts[0].gpus[0].cluster.name] = ScriptedArrays()
    for most, sizes in ((None, [5]), (2, [2, 2, 1])):
        tokens = DispatchPlan(drafts, clusters, array=True, together_max=most).tokens()
        assert sorted(Counter(array_of(token) or token for token in tokens).values(), reverse=True) == sizes


def test_the_size_of_arrays_is_remembered_and_used_when_a_question_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = recorded(tmp_path)
    clusters = board.board.context.clusters
    (name,) = clusters.schedulers
    scheduler = ScriptedArrays(size=100)
    clusters.schedulers[name] = scheduler
    (board.folder / "board").mkdir(exist_ok=True)

    asked: list[datetime] = []
    now = datetime.now(UTC)
    monkeypatch.setattr("hpc_board.runs.clusters.utc_now", lambda: now)

    def unanswered() -> int:
        asked.append(now)
        raise SchedulerError("scontrol failed: status 1, no message", throttled=True)

    with monkeypatch.context() as fault:
        fault.setattr(scheduler, "array_size", unanswered)
        assert [clusters.array_size(name) for _ in range(3)] == [1000] * 3
    assert len(asked) == 1  # the others fall into the rest that it has begun
    now += timedelta(minutes=5)
    assert clusters.array_size(name) == 100
    monkeypatch.setattr(scheduler, "array_size", unanswered)
    for days in (0, 1, 20):
        now += timedelta(days=days)
        assert clusters.array_size(name) == 100
    assert len(asked) == 3
    now += timedelta(days=1)
    monkeypatch.setattr(scheduler, "array_size", lambda: 50)
    assert clusters.array_size(name) == 50


def test_jobs_with_different_options_share_no_array(tmp_path: Path) -> None:
    board = recorded(tmp_path)
    settings = "board: board\nclusters:\n  main: {scheduler: slurm}\n"
    settings += "gpus:\n  CPU: {cluster: main, partition: cpu, device: cpu}\n"
    board.settings.write_text(settings)
    clusters = board.board.context.clusters
    clusters.schedulers["main"] = ScriptedArrays()
    drafts = board.board.submissions._drafts(
        [requested(board.kernel, options=JobOptions(qos=qos)) for qos in ("day", "night", "day", "night")]
    )
    tokens = DispatchPlan(drafts, clusters, array=True).tokens()
    assert [array_of(token) for token in tokens[2:]] == [array_of(token) for token in tokens[:2]]
    assert len(set(map(array_of, tokens))) == 2
    assert "" not in map(array_of, tokens)
