"""The app on a served board: it asks only after a change, and a lost service is a notice until it is back."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpc_board.domain.run import RunState
from hpc_board.model.result import Verdict
from hpc_board.service.answers import Answers
from hpc_board.service.client import RemoteBoard
from hpc_board.tui.app import BoardApp
from hpc_board.tui.screens.base import BoardScreen
from tests.service import serving
from tests.tui.driving import press, settled, text_of, until
from tests.unit.recorded import Recorded, recorded, result_of, status_of, timed_case


@pytest.fixture
def place(tmp_path: Path) -> Recorded:
    made = recorded(tmp_path)
    made.add(status_of(RunState.LOST, reason="gone"))
    return made


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hb-") as name:
        yield Path(name) / "board.sock"


@pytest.fixture
def remote(path: Path) -> Iterator[RemoteBoard]:
    board = RemoteBoard(path)
    with board.session():
        yield board


def app_on(board: RemoteBoard, tick_seconds: float = 3600) -> BoardApp:
    return BoardApp(lambda: board, tick_seconds=tick_seconds, follow_seconds=0.1)


@pytest.mark.parametrize("key", ["", "r", "f", "b"])
async def test_an_app_that_is_open_asks_nothing_until_there_is_news(
    place: Recorded, path: Path, remote: RemoteBoard, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    asked: list[str] = []
    ticks: list[int] = []
    answer, show_ages = Answers.answer, BoardScreen.show_ages

    def counted(each: Answers, uid: int, user: str, request: Any) -> Any:
        asked.append(request.route)
        return answer(each, uid, user, request)

    def shown(screen: BoardScreen) -> None:
        ticks.append(1)
        show_ages(screen)

    monkeypatch.setattr(Answers, "answer", counted)
    monkeypatch.setattr(BoardScreen, "show_ages", shown)
    with serving(place.board.settings, path):
        app = app_on(remote, tick_seconds=0.05)
        async with app.run_test(size=(100, 30)) as pilot:
            await settled(pilot)
            await press(pilot, *filter(None, [key]))
            await until(pilot, lambda: "standings.places" in asked and "runs.followed" in asked)
            await settled(pilot)
            asked.clear()
            ticks.clear()
            await until(pilot, lambda: len(ticks) > 20)
            assert asked == []
            place.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-3)
            await until(pilot, lambda: bool(asked))


async def test_a_run_that_is_stored_appears_by_itself_with_its_entry_in_the_feed(
    place: Recorded, path: Path, remote: RemoteBoard
) -> None:
    with serving(place.board.settings, path):
        app = app_on(remote)
        async with app.run_test(size=(100, 30)) as pilot:
            await settled(pilot)
            await press(pilot, "f")
            await until(pilot, lambda: "No changes to the standings yet" in text_of(app))
            place.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-3)
            await until(pilot, lambda: "vectoradd_py" in text_of(app))


async def test_a_lost_service_is_a_notice_until_it_is_back(
    place: Recorded, path: Path, remote: RemoteBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpc_board.service.client._PAUSE_SECONDS_MAX", 0.1)
    with serving(place.board.settings, path):
        app = app_on(remote)
        context = app.run_test(size=(100, 30))
        pilot = await context.__aenter__()
        await settled(pilot)
        await press(pilot, "r")
    try:
        await until(pilot, lambda: "The service did not answer" in text_of(app))
        place.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-3)
        with serving(place.board.settings, path):
            await until(pilot, lambda: "The service did not answer" not in text_of(app) and " pass " in text_of(app))
    finally:
        await context.__aexit__(None, None, None)
