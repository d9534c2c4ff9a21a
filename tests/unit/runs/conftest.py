"""Boards with scripted clusters."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from hpc_board.errors import SchedulerError
from hpc_board.runs import job_polling, launcher, reconciler
from hpc_board.runs.reconciler import Reconciler
from tests.scripted import Scripted
from tests.unit.runs.world import CLUSTER, World, set_clock, world_in
from tests.values import replace


@pytest.fixture
def world(tmp_path: Path) -> World:
    return world_in(tmp_path)


def hanging_scheduler(clock: list[float]) -> Scripted:
    """A scheduler that takes a minute of `clock` for not answering."""

    def hang(_: object) -> None:
        clock[0] += 60

    return Scripted(
        on_submit=hang,
        submit_error=SchedulerError("sbatch did not answer within 60 s"),
        on_poll=hang,
        poll_error=SchedulerError("squeue did not answer within 60 s"),
    )


@pytest.fixture
def beside(world: World, monkeypatch: pytest.MonkeyPatch) -> tuple[Scripted, Reconciler, list[float]]:
    """A board that has a cluster `hangs` beside `main`, and its clock."""
    clock, noon = [0.0], datetime(2026, 5, 1, 12, tzinfo=UTC)
    set_clock(monkeypatch, lambda: noon + timedelta(seconds=clock[0]))
    for module in (reconciler, launcher, job_polling):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    hanging = hanging_scheduler(clock)
    advance = replace(
        world.advance,
        schedulers={"main": world.scheduler, "hangs": hanging},
        clusters={"main": CLUSTER, "hangs": replace(CLUSTER, name="hangs", poll_seconds=15)},
    )
    return hanging, advance, clock
