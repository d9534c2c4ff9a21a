"""An evening of an admin on a real board: all users meet the decisions that are made in the app."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input, Static

from hpc_board import settings as config
from hpc_board.board import Board
from hpc_board.domain.board_options import RequestedOptions, moment_words
from hpc_board.domain.run import Run
from hpc_board.errors import Refused
from hpc_board.model.result import Verdict
from hpc_board.store import Store
from hpc_board.tui.app import BoardApp
from hpc_board.tui.screens.admin import AdminScreen
from hpc_board.tui.screens.dialogs import AskLines, Confirm
from hpc_board.tui.widgets.grid import Grid
from tests.tui.driving import Door, press, settled, text_of, until
from tests.tui.test_admin_screen import front, typed
from tests.unit.recorded import Recorded, recorded, result_of, timed_case
from tests.values import created


def counted(place: Recorded, user: str, score_s: float) -> Run:
    """A passing ranked run of `user` that took so long."""
    return place.add(result=result_of(Verdict.PASS, timed_case()), score_s=score_s, user=user)


async def decided(pilot: Any, *keys: str) -> None:
    """Press keys in the question that is open; come back when what was decided is done."""
    await until(pilot, lambda: isinstance(front(pilot.app), AskLines))
    await press(pilot, *keys)
    await until(pilot, lambda: isinstance(front(pilot.app), AdminScreen))
    await settled(pilot)


async def test_an_evening_of_an_admin(tmp_path: Path, door: Door) -> None:
    place = recorded(tmp_path)
    eve, bob = counted(place, "eve", 1e-6), counted(place, "bob", 2e-6)
    settings = config.load(place.settings, {})
    admin, store = door(settings), Store(place.folder / "board" / "board.db")
    created(admin, "vectoradd_py", "course", RequestedOptions(deadline="+1d"))
    app = BoardApp(lambda: admin, tick_seconds=3600, follow_seconds=3600)
    async with app.run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "A", "slash", *"course", "enter", "V")
        await decided(pilot, *typed("exam"), "enter")
        await until(pilot, lambda: "V Open" in text_of(app))
        assert "course" not in [task.name for task in Board(settings, user="bob").tasks.catalog().tasks]
        await press(pilot, "D")
        await until(pilot, lambda: isinstance(front(app), AskLines))
        begun = app.screen.query(Input).first().value
        assert moment_words(datetime.fromisoformat(f"{begun}+00:00")) == f"{begun} UTC"
        await press(pilot, "ctrl+u", "enter", "enter", "enter", "enter")
        assert "Deadline is required." in text_of(app)
        await press(pilot, *typed("+3d"), "enter", "ctrl+u", *typed("-24h"), "enter", "ctrl+u", *"no", "enter", "enter")
        await until(pilot, lambda: "Names: use shown or pseudonyms." in text_of(app))
        await decided(pilot, "ctrl+u", *typed("pseudonyms"), "enter", "enter")
        await until(pilot, lambda: "(2 d)" in text_of(app) or "(3 d)" in text_of(app))
        board = admin.leaderboards.get("course")
        assert board is not None
        assert board.options.deadline is not None
        assert board.options.deadline > datetime.now(UTC) + timedelta(days=2)
        assert board.options.freeze_at == board.options.deadline - timedelta(days=1)
        assert board.options.anonymous

        await press(pilot, "H", "ctrl+u", *"many", "enter", "enter")
        await until(pilot, lambda: "invalid limit 'many'." in text_of(app))
        await decided(pilot, "ctrl+u", *typed("5 20/day"), "enter", "enter")
        await until(pilot, lambda: "5/h 20/d -" in text_of(app))
        found = [(decision.subject, limits.ranked, limits.per) for decision, limits in admin.moderation.limits()]
        assert found == [("course", 5, "hour"), ("course", 20, "day")]
        await press(pilot, "R")
        await until(pilot, lambda: isinstance(front(app), AskLines))
        await press(pilot, "enter", "enter", "enter")
        await until(pilot, lambda: "no standings on course at an earlier version" in text_of(app))
        await press(pilot, "escape")
        await until(pilot, lambda: isinstance(front(app), AdminScreen))
        await press(pilot, "2", "slash", *"eve", "enter", "B", "enter", "enter")
        assert "Reason is required." in text_of(app)
        await decided(pilot, *typed("two accounts"), "enter", *typed("+2d"), "enter")
        await until(pilot, lambda: "until" in text_of(app))
        with pytest.raises(Refused, match="two accounts"):
            store.moderation.check_open("eve", datetime.now(UTC), admin=False)
        await press(pilot, "B")
        await decided(pilot, "enter")
        await until(pilot, lambda: "until" not in text_of(app))
        await press(pilot, "enter", "R")
        await until(pilot, lambda: isinstance(front(app), Confirm))
        assert "Send 3 ranked runs for vectoradd_py under your account? Users: eve." in asked(app)
        await press(pilot, "escape", "X")
        await decided(pilot, *typed("copied"), "enter")
        await until(pilot, lambda: "removed by" in text_of(app))
        assert [row.user for row in admin.standings.pages(eve.task, [eve.gpu])[0].rows] == ["bob"]
        assert store.runs.get(bob.id).remarks.removal is None
        await press(pilot, "X")
        await decided(pilot, "enter")
        await until(pilot, lambda: "removed by" not in text_of(app))
        assert [row.user for row in admin.standings.pages(eve.task, [eve.gpu])[0].rows] == ["eve", "bob"]

        await press(pilot, "1", "S")
        await decided(pilot, *typed("power cut"), "enter")
        await until(pilot, lambda: "Submissions were stopped by" in text_of(app))
        with pytest.raises(Refused, match="power cut"):
            store.moderation.check_open("bob", datetime.now(UTC), admin=False)
        await press(pilot, "S")
        await decided(pilot, "enter")
        await until(pilot, lambda: "Open for submissions." in text_of(app))
        await press(pilot, "4")
        actions = ("start", "stop", "readmit", "remove", "unban", "ban", "limit", "update", "create")
        await until(pilot, lambda: all(action in text_of(app) for action in actions))
        await press(pilot, "slash", *typed("eve ban"), "enter")
        await until(pilot, lambda: app.screen.query_one("#log-grid", Grid).row_count == 2)


def asked(app: BoardApp) -> str:
    """The texts of the dialog in front."""
    return " ".join(str(each.content) for each in app.screen.query(Static))


@pytest.mark.parametrize(("version", "runs"), [("previous", 1), ("present", 3)])
async def test_the_best_runs_of_a_version_are_planned_and_sent_after_a_yes(
    tmp_path: Path, version: str, runs: int
) -> None:
    place = recorded(tmp_path)
    definition = place.folder / "tasks" / "narrow" / "task.yml"
    benchmarked = definition.read_text() + "benchmarks: [{size: 1}]\n"
    if version == "present":
        definition.write_text(benchmarked)
    sent = [
        place.add(
            result=result_of(Verdict.PASS, timed_case()),
            score_s=score_s,
            user=user,
            task="narrow",
            gpu="H100",
            code=code,
        )
        for user, score_s, code in (("eve", 1e-6, b"import torch\n"), ("bob", 2e-6, b"\xff"))
    ]
    definition.write_text(benchmarked)
    board = Board(config.load(place.settings, {}))
    app = BoardApp(lambda: board, tick_seconds=3600, follow_seconds=3600)
    async with app.run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "A", "slash", *"narrow", "enter", "R", "ctrl+u", "0", "enter", "enter", "enter")
        await until(pilot, lambda: "invalid number of users '0'. Use a number from 1 to 10000." in text_of(app))
        await press(pilot, "ctrl+u", *"10", "enter", "enter", "ctrl+u", *"now", "enter")
        await until(pilot, lambda: "Version: use previous or present." in text_of(app))
        await press(pilot, "ctrl+u", *version, "enter")
        await until(pilot, lambda: isinstance(front(app), Confirm))
        shown = asked(app)
        assert f"Send {runs} ranked runs for narrow under your account? Users: eve." in shown
        assert f"Skipped: submission {sent[1].submission}: " in shown
        await press(pilot, "escape")
        assert len(board.runs.list(everyone=True)) == 2
