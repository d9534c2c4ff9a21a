"""Every fixture task under both harnesses on a real Slurm: what each submission comes to."""

import importlib.util
import math
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
import yaml

from hpc_board.board import Board
from hpc_board.domain.run import Run, RunState
from hpc_board.model.result import Result, Verdict
from hpc_board.model.task import ISOLATED, OWN, Mode, Ranking
from tests.e2e.boards import board_files
from tests.fixture_tasks import FIXTURES, Attempt
from tests.slurm.lab import SlurmLab
from tests.values import requested

pytestmark = [pytest.mark.slurm, pytest.mark.torch, pytest.mark.timeout(600)]

SECONDS = 480
ATTEMPTS = tuple(
    attempt
    for fixture in FIXTURES
    for attempt in fixture.attempts
    if not attempt.needs or shutil.which(attempt.needs) is not None
)


@dataclass(frozen=True)
class Judged:
    """An ended run, its result, and its place on the board."""

    run: Run
    result: Result | None
    rank: int | None


@pytest.fixture(scope="module")
def judged(slurm_lab: SlurmLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[Attempt, Judged]]:
    """Every attempt, sent together and waited for."""
    for library in ("torch", "numpy"):
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"no {library}")
    folder = tmp_path_factory.mktemp("fixtures")
    files = board_files(folder, slurm=True)
    settings = yaml.safe_load(files.settings.read_text())
    settings["tasks"] = [str(folder / "fixtures")]
    settings["gpus"]["H100"]["arch"] = "sm_90a"
    files.settings.write_text(yaml.safe_dump(settings))
    for name, kind in sorted({(attempt.fixture, attempt.kind) for attempt in ATTEMPTS}):
        next(fixture for fixture in FIXTURES if fixture.name == name).under(kind, folder / "fixtures")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SLURM_CONF", slurm_lab.environment["SLURM_CONF"])
        board = Board.open(files.settings)
        drafts = [requested(each.file, task=each.task_name, gpus=[each.gpu], mode=each.mode.value) for each in ATTEMPTS]
        runs = board.submissions.submit(drafts)
        yield dict(zip(ATTEMPTS, ended(board, runs), strict=True))
        slurm_lab.cancel_jobs()


def ended(board: Board, runs: list[Run]) -> list[Judged]:
    """The runs once the last of them has ended."""
    deadline = time.monotonic() + SECONDS
    waiting = runs
    while waiting:
        assert time.monotonic() < deadline, [(run.id, run.task, run.status) for run in waiting]
        time.sleep(1)
        board.runs.advance()
        waiting = [run for run in (board.runs.get(run.id) for run in waiting) if not run.state.ended]
    seen = [board.runs.get(run.id) for run in runs]
    placings = [board.standings.placing(run) for run in seen]
    return [
        Judged(run, board.runs.whole(run.id).result, None if placing is None else placing.rank)
        for run, placing in zip(seen, placings, strict=True)
    ]


@pytest.mark.parametrize(
    "attempt", ATTEMPTS, ids=lambda each: f"{each.fixture}-{each.kind}-{each.file.name}-{each.mode}"
)
def test_a_submission_comes_to_what_is_expected(judged: Mapping[Attempt, Judged], attempt: Attempt) -> None:
    found = judged[attempt]
    assert (found.run.state, found.run.verdict) == (RunState.FINISHED, attempt.verdict), found.run.explanation
    assert found.result is not None
    assert found.result.provenance["harness"] == attempt.kind
    if attempt.mode is Mode.RANKED and attempt.verdict is Verdict.PASS:
        assert (found.rank, bool(found.run.score_s)) == (1, True)


def test_each_way_of_ranking_has_its_score_under_both_harnesses(judged: Mapping[Attempt, Judged]) -> None:
    seen = set()
    for fixture in FIXTURES:
        for attempt, found in judged.items():
            if (
                attempt.fixture != fixture.name
                or attempt.mode is not Mode.RANKED
                or attempt.verdict is not Verdict.PASS
            ):
                continue
            assert found.result is not None
            medians = [case.timing.time_ns / 1e9 for case in found.result.cases if case.timing is not None]
            expected = {
                Ranking.LAST: medians[-1],
                Ranking.MEAN: sum(medians) / len(medians),
                Ranking.GEOM: math.prod(medians) ** (1 / len(medians)),
            }[fixture.task.ranking_by]
            assert found.run.score_s == pytest.approx(expected)
            if len(medians) > 1:
                seen.add((fixture.task.ranking_by, attempt.kind))
    assert seen == {(ranking, kind) for ranking in Ranking for kind in (ISOLATED, OWN)}


def test_all_runs_of_a_partition_went_as_few_arrays(judged: Mapping[Attempt, Judged], slurm_lab: SlurmLab) -> None:
    jobs = {found.run.status.job_id.partition("_")[0] for found in judged.values()}
    assert len(jobs) <= 12, jobs
    assert slurm_lab.run("squeue", "--noheader") == ""
